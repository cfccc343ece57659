"""Workers that an activity or a workflow's code takes down, while nodes are killed and commits are lost.

Invariants 35, 36, 38 and 40: the guilty one ends in the surgical pool, and nobody who was beside it does.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from tests.seeds import seeds
from tests.simulation.cluster import NAMESPACE, SHARDS, Cluster, Node, Worker
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.scrubber import scrub
from tests.simulation.test_cluster import conflict, freeze, kill, lose_commit

from perdure_engine.core import intents
from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.poison import ISOLATED_FROM, POISONED_FROM, SURGICAL
from perdure_engine.core.replies import Description
from perdure_engine.core.status import Status
from perdure_engine.ports.history import HandedActivityTask, HandedWorkflowTask

SEEDS = 30
BYSTANDERS = 8
BAD_CODE, BAD_ACTIVITY = "bad-code", "bad-activity"
DIED = Failure(FailureKind.WORKER_LOST, "killed by signal 9 (SIGKILL)")


class Hospital(Cluster):
    """Whoever takes what is bad dies of it, all of it; a new worker comes."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        super().__init__(loop, seed)
        self.deaths = 0
        self.handed: dict[str, list[tuple[str, int]]] = {}  # by workflow id: pool, crashes
        self.workers = 0

    def next_worker(self, pool: str = "") -> None:
        self.workers += 1
        Patient(self, f"{pool or 'w'}{self.workers}", pool).start()


class Patient(Worker):
    """A worker process that runs what has crashed twice in a process of its own."""

    def __init__(self, cluster: Hospital, name: str, pool: str) -> None:
        super().__init__(cluster, name)
        self.hospital = cluster
        self.ref = msgspec.structs.replace(self.ref, pool=pool)

    async def _workflow_task(self, node: Node, task: HandedWorkflowTask) -> None:
        bad = task.workflow_id == BAD_CODE
        if task.token is None or not await self._dies(node, task, bad):
            await super()._workflow_task(node, task)

    async def _activity(self, node: Node, task: HandedActivityTask) -> None:
        bad = task.workflow_id == BAD_ACTIVITY and task.scheduled.activity_id == "a1"
        if not await self._dies(node, task, bad):
            await super()._activity(node, task)

    async def _dies(
        self, node: Node, task: HandedWorkflowTask | HandedActivityTask, bad: bool
    ) -> bool:
        """A surgeon gets it done."""
        seen = self.hospital.handed.setdefault(task.workflow_id, [])
        seen.append((self.ref.pool, task.crashes))
        if not bad or self.ref.pool:
            return False
        assert task.token is not None
        self.hospital.deaths += 1
        if task.crashes >= ISOLATED_FROM:
            await self._report(node, intents.CrashTask(task.token, DIED, self.name))
            return True
        await asyncio.sleep(0.1)  # its neighbours have begun
        self.hospital.next_worker()
        self.cluster.loop.kill(self.name)
        await asyncio.sleep(0)
        return True


async def one_run(cluster: Hospital, workflow_id: str) -> None:
    await asyncio.sleep(cluster.ids.jitter() * 5)
    started = await cluster.ask(workflow_id, cluster.start_intent(workflow_id))
    closed = await cluster.result(workflow_id, started.run_id)
    assert closed.status is Status.COMPLETED, closed


async def until_it_is_poisoned(cluster: Hospital, workflow_id: str) -> None:
    describe = intents.DescribeWorkflow(namespace_id=NAMESPACE, workflow_id=workflow_id, run_id=b"")
    while True:
        try:
            found: Description = await cluster.ask(workflow_id, describe)
        except Rejected:  # it has not begun yet
            await asyncio.sleep(1)
            continue
        tasks: list[Any] = [*found.activities, *filter(None, [found.workflow_task])]
        if any(task.crashes >= POISONED_FROM for task in tasks):
            return
        await asyncio.sleep(1)


async def trouble(cluster: Cluster, chaos: random.Random) -> None:
    """Of the kind that must not be taken for the death of a worker, for long enough that a ladder is climbed in it."""
    for _ in range(8):
        await asyncio.sleep(chaos.uniform(1, 5))
        if chaos.random() < 0.6:
            chaos.choice((lose_commit, conflict))(cluster, chaos)
        else:
            nodes = sorted(cluster.nodes.values(), key=lambda node: node.name)
            await chaos.choice((kill, freeze))(cluster, chaos.choice(nodes), chaos)


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Hospital(loop, seed)
    chaos = random.Random(seed)
    await cluster.start_node()
    await cluster.start_node()
    cluster.next_worker()
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    bystanders = [f"good-{number}" for number in range(BYSTANDERS)]
    async with asyncio.timeout(2_000):
        bad = BAD_CODE if seed % 2 else BAD_ACTIVITY
        guilty = asyncio.ensure_future(one_run(cluster, bad))
        others = [asyncio.ensure_future(one_run(cluster, one)) for one in bystanders]
        await until_it_is_poisoned(cluster, bad)
        await asyncio.gather(*others, havoc)
        assert not guilty.done()
        cluster.next_worker(SURGICAL)
        await guilty
    await scrub(cluster.store, SHARDS)
    for name in bystanders:
        handed = cluster.handed[name]
        assert all(pool == "" and crashes < POISONED_FROM for pool, crashes in handed), (
            "invariant 36"
        )
    for pool, crashes in cluster.handed[bad]:
        assert (pool == SURGICAL) == (crashes >= POISONED_FROM), "invariant 38"
    assert cluster.deaths >= POISONED_FROM
    assert [alarm for alarm in cluster.alarms if alarm[1] != "intent_failed"] == []


@pytest.mark.parametrize("seed", seeds(20, SEEDS))
def test_seed(seed: int) -> None:
    """Invariants 35, 36, 38, 40: whoever crashes its workers is alone in the end."""
    simulate(lambda loop: story(loop, seed), seed)
