"""Batch operations under crashes, pauses, moves of shards and lost commits: each run once, and the log holds."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest
from tests.simulation.audit_chains import all_of
from tests.simulation.cluster import NAMESPACE, SHARDS, Cluster, Node, Worker
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.scrubber import scrub
from tests.simulation.test_cluster import QUIET_ALARMS, trouble

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.audit import INSTALLATION, Action, Entry, Head, append
from perdure_engine.core.intents import ResetType
from perdure_engine.frontend.filters import read_condition
from perdure_engine.history.batches import Batches
from perdure_engine.ports.batches import BatchJob, BatchOperation, BatchRow, PartState
from perdure_engine.ports.store import OutcomeUnknown
from perdure_engine.store.memory.faults import Faults, Moment

SEEDS = 15
RUNS = 24
JOB = BatchJob(
    operation=BatchOperation.TERMINATE,
    query="WorkflowType = 'Idle'",
    reason="over",
    identity="op",
    rps=4,
    total=RUNS,
    body_hash=b"12345678",
)


async def work_everywhere(cluster: Cluster) -> None:
    """Each node has its batches, also the ones that come later; they die with it."""
    begun: dict[bytes, Node] = {}
    while True:
        for node in list(cluster.nodes.values()):
            if node.node_id not in begun:
                begun[node.node_id] = node
                job = Batches(
                    node.rooms, cluster.store, node.history.shards, SHARDS, read_condition
                )
                cluster.loop.spawn(node.name, job.start())
        await asyncio.sleep(0.5)


async def lose_saves(cluster: Cluster, chaos: random.Random) -> None:
    for _ in range(8):
        await asyncio.sleep(chaos.uniform(0.5, 2.0))
        moment = chaos.choice([Moment.BEFORE, Moment.AFTER])
        cluster.store.faults.fail_next("save_batch_part", OutcomeUnknown("lost"), moment)


async def begin(cluster: Cluster, job: BatchJob = JOB) -> None:
    now_us = cluster.database_clock.now_us()
    audited, _ = append(Head(INSTALLATION), Entry(time_us=now_us, action=Action.START_BATCH))
    await cluster.store.start_batch(BatchRow(NAMESPACE, "job", now_us, None, job), audited)


async def work_off(cluster: Cluster, chaos: random.Random) -> None:
    """The job, to its end, in trouble."""
    working = asyncio.ensure_future(work_everywhere(cluster))
    havoc = [
        asyncio.ensure_future(trouble(cluster, chaos)),
        asyncio.ensure_future(lose_saves(cluster, chaos)),
    ]
    async with asyncio.timeout(300):
        await asyncio.gather(*havoc)
        cluster.store.faults = Faults()
        parts = await cluster.store.load_batch_parts(NAMESPACE, "job")
        while any(part.state == PartState.OPEN for part in parts):
            await asyncio.sleep(1)
            parts = await cluster.store.load_batch_parts(NAMESPACE, "job")
    working.cancel()
    assert sum(part.done for part in parts) == RUNS, "invariant 28: each is counted once"
    failures = [part.last_failure for part in parts if part.failed]
    assert not failures, failures


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    chaos = random.Random(seed)
    await cluster.start_node()
    await cluster.start_node()
    options = {"workflow_type": "Idle", "task_queue": "nobody"}  # `trouble` brings workers
    starts = [cluster.start_intent(f"idle-{n}", **options) for n in range(RUNS)]
    await asyncio.gather(*(cluster.ask(one.workflow_id, one) for one in starts))
    await begin(cluster)
    await work_off(cluster, chaos)
    histories = await scrub(cluster.store, SHARDS)
    for history in histories.values():
        ended = [event for event in history if isinstance(event, ev.WorkflowExecutionTerminated)]
        assert [event.identity for event in ended] == ["op"], "invariants 3, 9: each ends once"
    log = sorted(all_of(cluster.store.tables))
    ended_ids = sorted(("workflow.terminate", f"idle-{n}") for n in range(RUNS))
    assert log == [("batch.start", ""), *ended_ids], "no action without a row, no row without one"
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    """Invariants 3, 7, 9, 25, 28."""
    simulate(lambda loop: story(loop, seed), seed)


# ---- resets: the job's own runs look like those that it is about

RESET = msgspec.structs.replace(
    JOB, operation=BatchOperation.RESET, reset_type=ResetType.LAST_WORKFLOW_TASK
)


def wait_for_ever(events: list[ev.Event], _: ev.WorkflowExecutionStarted) -> list[cmd.Command]:
    begun = any(isinstance(event, ev.TimerStarted) for event in events)
    return [] if begun else [cmd.StartTimer("t", 86_400_000)]


async def story_of_resets(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    cluster.deciders["Idle"] = wait_for_ever
    chaos = random.Random(seed)
    await cluster.start_node()
    await cluster.start_node()
    Worker(cluster, "w0").start()
    starts = [cluster.start_intent(f"idle-{n}", workflow_type="Idle") for n in range(RUNS)]
    await asyncio.gather(*(cluster.ask(one.workflow_id, one) for one in starts))
    await asyncio.sleep(5)  # simulated: each has completed its workflow task
    await begin(cluster, RESET)
    await work_off(cluster, chaos)
    histories = await scrub(cluster.store, SHARDS)
    bases = {one.run_id for one in starts}
    reset: list[bytes] = []
    for run_id, history in histories.items():
        begun = history[0]
        assert isinstance(begun, ev.WorkflowExecutionStarted)
        if run_id in bases:
            assert isinstance(history[-1], ev.WorkflowExecutionTerminated), "invariant 5"
        else:
            reset.append(begun.reset_from_run_id)
    assert sorted(reset) == sorted(bases), "invariants 9, 10: each once, and none that began so"
    log = sorted(all_of(cluster.store.tables))
    resets = sorted(("workflow.reset", f"idle-{n}") for n in range(RUNS))
    assert log == [("batch.start", ""), *resets], "no action without a row, no row without one"
    current = {row.run_id for row in cluster.store.tables.current_runs.all()}
    assert current == histories.keys() - bases
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms


@pytest.mark.parametrize("seed", range(SEEDS))
def test_reset_seed(seed: int) -> None:
    """Invariants 3, 5, 7, 9, 10, 25, 28."""
    simulate(lambda loop: story_of_resets(loop, seed), seed)
