"""Chains of runs under crashes, pauses and lost commits: continue-as-new, then a failure and its next attempt."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from tests.simulation.cluster import NAMESPACE, SHARDS, Cluster, Worker
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.scrubber import scrub
from tests.simulation.test_cluster import QUIET_ALARMS, trouble

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.describe import following
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.store.memory.faults import Faults

SEEDS = 25
CHAINS = 8
RETRY = RetryPolicy(1_000)


async def one_client(cluster: Cluster, number: int, signals: int) -> tuple[list[bytes], set[bytes]]:
    """Start a chain, signal its current run, follow it to its end. Returns its runs and what was acknowledged."""
    workflow_id = f"chain-{number}"
    await asyncio.sleep(cluster.ids.jitter() * 8)
    start = cluster.start_intent(workflow_id, workflow_type="Chain", retry_policy=RETRY)
    started = await cluster.ask(workflow_id, start)
    acknowledged: dict[bytes, intents.SignalWorkflow] = {}
    for _ in range(signals):
        await asyncio.sleep(cluster.ids.jitter())
        signal = intents.SignalWorkflow(
            namespace_id=NAMESPACE,
            workflow_id=workflow_id,
            run_id=b"",
            signal_name="s",
            request_id=cluster.ids.new_id(),
            body_hash=b"12345678",
        )
        try:
            await cluster.ask(workflow_id, signal)
        except Rejected as refusal:
            if refusal.code is not Code.NOT_FOUND:  # the chain has ended meanwhile
                raise
        else:
            acknowledged[signal.request_id] = signal
            if (
                cluster.ids.jitter() < 0.5
            ):  # its answer was lost on the way: it is sent again, later
                await asyncio.sleep(cluster.ids.jitter())
                await cluster.ask(workflow_id, signal)
    runs = [started.run_id]
    statuses: list[Status] = []
    while True:
        closed = await cluster.result(workflow_id, runs[-1])
        statuses.append(closed.status)
        next_run_id = following(closed.event)
        if not next_run_id:
            break
        runs.append(next_run_id)
    assert statuses == [Status.CONTINUED_AS_NEW, Status.FAILED, Status.COMPLETED]
    assert (await cluster.ask(workflow_id, start)).run_id == started.run_id
    for signal in acknowledged.values():
        await cluster.ask(
            workflow_id, signal
        )  # known to the last run: not refused, though it has closed
    return runs, set(acknowledged)


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    chaos = random.Random(seed)
    await cluster.start_node()
    if chaos.random() < 0.7:
        await cluster.start_node()
    Worker(cluster, "w0").start()
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    async with asyncio.timeout(300):
        clients = [one_client(cluster, number, chaos.randrange(6)) for number in range(CHAINS)]
        outcomes = await asyncio.gather(*clients)
        await havoc
    cluster.store.faults = Faults()  # what was planned and not met
    histories = await scrub(cluster.store, SHARDS)
    assert len(histories) == 3 * CHAINS, "invariants 9, 10: each run is followed once"
    for runs, acknowledged in outcomes:
        recorded = [
            event.request_id
            for run_id in runs
            for event in histories[run_id]
            if isinstance(event, ev.WorkflowExecutionSignaled)
        ]
        assert len(recorded) == len(set(recorded)), "invariant 42: once in the whole chain"
        assert set(recorded) == acknowledged, "invariant 41: what was acknowledged is there"
        for before, after in itertools.pairwise(runs):
            begun = histories[after][0]
            assert isinstance(begun, ev.WorkflowExecutionStarted)
            assert (begun.continued_from_run_id, begun.first_run_id) == (before, runs[0])
            assert begun.time_us >= histories[before][-1].time_us, "invariant 7, along the chain"
    lists = {row.run_id: row.status for row in cluster.store.tables.visibility.all()}
    assert lists == {row.run_id: row.status for row in cluster.store.tables.executions.all()}
    current = {row.run_id for row in cluster.store.tables.current_runs.all()}
    assert current == {runs[-1] for runs, _ in outcomes}
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms


@pytest.mark.parametrize("seed", range(SEEDS))
def test_chain_seed(seed: int) -> None:
    """Invariants 5, 7, 9, 10, 13, 25, 41, 42 across the runs of a chain."""
    simulate(lambda loop: story(loop, seed), seed)
