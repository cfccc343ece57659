"""Resets and pauses under crashes, frozen owners and lost commits."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.simulation.cluster import NAMESPACE, SHARDS, Cluster, Worker
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.scrubber import scrub
from tests.simulation.test_cluster import QUIET_ALARMS, trouble

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import reset_run_id
from perdure_engine.core.status import Status
from perdure_engine.store.memory.faults import Faults

SEEDS = 20
RUNS = 8
REFUSALS = (Code.NOT_FOUND, Code.FAILED_PRECONDITION)  # it has closed, or no task was completed yet


class Client:
    """Starts a workflow, and then signals, pauses, unpauses and resets it as it comes."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.workflow_id = f"order-{number}"
        self.runs: list[bytes] = []
        self.acknowledged: list[bytes] = []

    async def live(self, steps: list[str]) -> None:
        cluster = self.cluster
        await asyncio.sleep(cluster.ids.jitter() * 8)
        started = await cluster.ask(self.workflow_id, cluster.start_intent(self.workflow_id))
        self.runs.append(started.run_id)
        for step in steps:
            await asyncio.sleep(cluster.ids.jitter())
            await self.step(step)
        await self.ask(intents.UnpauseWorkflow)
        closed = await cluster.result(self.workflow_id, self.runs[-1])
        assert closed.status is Status.COMPLETED

    async def step(self, step: str) -> None:
        match step:
            case "signal":
                asked = await self.ask(intents.SignalWorkflow, signal_name="s")
                if asked is not None:
                    self.acknowledged.append(asked.request_id)
            case "pause":
                await self.ask(intents.PauseWorkflow)
            case "unpause":
                await self.ask(intents.UnpauseWorkflow)
            case _:
                await self.reset()

    async def reset(self) -> None:
        request_id = self.cluster.ids.new_id()
        new_run_id = reset_run_id(NAMESPACE, self.workflow_id, request_id)
        asked = await self.ask(
            intents.ResetWorkflow,
            run_id=self.runs[-1],
            request_id=request_id,
            new_run_id=new_run_id,
        )
        if asked is not None:
            self.runs.append(new_run_id)
            if self.cluster.ids.jitter() < 0.5:  # its answer was lost: it is sent again
                said = await self.cluster.ask(self.workflow_id, asked)
                assert said.run_id == new_run_id

    async def ask(self, kind: Any, **fields: Any) -> Any:
        """The intent, once it was acknowledged; None when it was refused."""
        common = {"run_id": b"", "request_id": self.cluster.ids.new_id(), "body_hash": b"12345678"}
        intent = kind(namespace_id=NAMESPACE, workflow_id=self.workflow_id, **(common | fields))
        try:
            await self.cluster.ask(self.workflow_id, intent)
        except Rejected as refusal:
            if refusal.code not in REFUSALS:
                raise
            return None
        return intent


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    chaos = random.Random(seed)
    await cluster.start_node()
    if chaos.random() < 0.7:
        await cluster.start_node()
    Worker(cluster, "w0").start()
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    clients = [Client(cluster, number) for number in range(RUNS)]
    words = ["signal", "signal", "pause", "unpause", "reset"]
    async with asyncio.timeout(600):
        lives = [one.live([chaos.choice(words) for _ in range(7)]) for one in clients]
        await asyncio.gather(*lives)
        await havoc
    cluster.store.faults = Faults()  # what was planned and not met
    histories = await scrub(cluster.store, SHARDS)
    assert histories.keys() == {run_id for one in clients for run_id in one.runs}, (
        "invariants 9, 10: a reset begins one run, whatever was repeated"
    )
    for one in clients:
        signals = [
            event.request_id
            for event in histories[one.runs[-1]]
            if isinstance(event, ev.WorkflowExecutionSignaled)
        ]
        assert signals == one.acknowledged, "invariants 41, 42: all are there, once, in order"
        for before, after in zip(one.runs, one.runs[1:], strict=False):
            begun, ended = histories[after][0], histories[before][-1]
            assert isinstance(begun, ev.WorkflowExecutionStarted)
            assert (begun.reset_from_run_id, begun.original_run_id) == (before, one.runs[0])
            closed = isinstance(ended, ev.WorkflowExecutionCompleted)
            assert closed or getattr(ended, "reset_run_id", b"") == after
    heads = {row.run_id: row.status for row in cluster.store.tables.executions.all()}
    assert heads == {row.run_id: row.status for row in cluster.store.tables.visibility.all()}
    current = {row.run_id for row in cluster.store.tables.current_runs.all()}
    assert current == {one.runs[-1] for one in clients}
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms


@pytest.mark.parametrize("seed", range(SEEDS))
def test_reset_seed(seed: int) -> None:
    """Invariants 1, 3, 4, 5, 6, 7, 9, 10, 13, 18, 25, 30, 41, 42 through resets and pauses."""
    simulate(lambda loop: story(loop, seed), seed)
