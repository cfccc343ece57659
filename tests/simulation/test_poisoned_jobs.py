"""A job that takes every worker down which runs it in its own process, while nodes are killed and commits are lost.

Invariants 35 to 40: the guilty one ends in the surgical pool or is suspended, and what was beside it is done.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from tests.seeds import seeds
from tests.simulation.cluster import NAMESPACE, SHARDS
from tests.simulation.job_world import JobCluster, JobWorker, new_job
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.test_cluster import QUIET_ALARMS
from tests.simulation.test_poison import DIED, trouble

from perdure_engine.core import poison
from perdure_engine.core.audit import Action, entry_of
from perdure_engine.core.ids import job_id_of
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.poison import ISOLATED_FROM, POISONED_FROM, SURGICAL
from perdure_engine.ports.history import HandedJobTask
from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.faults import Faults

SEEDS = 40
BYSTANDERS = 8
BAD = b"bad"
THREE_HOURS_S = 3 * 3600  # instead of 24, which would take minutes
CODEC = MsgpackCodec()


class Hospital(JobCluster):
    """Whoever runs the bad job in its own process dies of it, with all it has; a new worker comes."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        super().__init__(loop, seed)
        self.handed: dict[bytes, list[tuple[str, int]]] = {}  # by job: pool, crashes
        self.deaths = 0
        self.workers = 0

    def next_worker(self, pool: str = "") -> None:
        self.workers += 1
        Patient(self, f"{pool or 'w'}{self.workers}", pool).start()


class Patient(JobWorker):
    """What has crashed twice it runs in a process of its own; a surgeon gets everything done."""

    def __init__(self, cluster: Hospital, name: str, pool: str) -> None:
        super().__init__(cluster, name)
        self.hospital = cluster
        self.ref = msgspec.structs.replace(self.ref, pool=pool)

    async def _work(self, tasks: list[HandedJobTask]) -> None:
        for task in tasks:
            self._spawn(self._one(task))

    async def _one(self, task: HandedJobTask) -> None:
        crashes = 0 if task.job.crashes is None else task.job.crashes.count
        self.hospital.handed.setdefault(task.token.run_id, []).append((self.ref.pool, crashes))
        outcome: job.JobOutcome = job.JobCompleted(task.token, b"done")
        if task.job.spec.input == BAD and not self.ref.pool:
            self.hospital.deaths += 1
            await asyncio.sleep(0.1)  # its neighbours have begun
            if crashes < ISOLATED_FROM:
                self.hospital.next_worker()
                self.cluster.loop.kill(self.name)
                await asyncio.sleep(0)
            outcome = job.JobCrashed(task.token, DIED)
        else:
            await asyncio.sleep(self.cluster.ids.jitter())
            self.cluster.jobs.done[task.token.run_id] += 1
        await self._tell(task.token.shard_id, [outcome])


async def create(cluster: Hospital, shard_id: int, *inputs: bytes) -> list[bytes]:
    request_id = cluster.ids.new_id()
    jobs = [
        new_job(job_id_of(shard_id, NAMESPACE, "", request_id, index), input_)
        for index, input_ in enumerate(inputs)
    ]
    intent = job.CreateJobs(shard_id=shard_id, namespace_id=NAMESPACE, jobs=jobs)
    await cluster.ask_job(shard_id, intent)
    return [one.job_id for one in jobs]


async def until(cluster: Hospital, job_id: bytes, status: JobStatus) -> None:
    while cluster.row(job_id).status != status:  # noqa: ASYNC110  # rows tell nobody that they change
        await asyncio.sleep(1)


async def beginning(cluster: Hospital, chaos: random.Random) -> bytes:
    """Returns the bad job, which is poisoned; all others are done, though no surgeon has come by."""
    await cluster.start_node()
    await cluster.start_node()
    cluster.next_worker()
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    shard_id = chaos.randint(1, SHARDS)
    ids = await create(cluster, shard_id, BAD, *[b"good"] * BYSTANDERS)
    bad, bystanders = ids[0], ids[1:]
    await until(cluster, bad, JobStatus.POISONED)
    for one in bystanders:
        await until(cluster, one, JobStatus.COMPLETED)
        assert all(crashes < POISONED_FROM for _, crashes in cluster.handed[one]), "invariant 36"
    await havoc
    cluster.store.faults = Faults()
    assert cluster.row(bad).status == JobStatus.POISONED
    return bad


def check(cluster: Hospital, bad: bytes) -> None:
    for pool, crashes in cluster.handed[bad]:
        assert (pool == SURGICAL) == (crashes >= POISONED_FROM), "invariant 38"
    for name, handed in cluster.handed.items():
        assert name == bad or all(pool == "" for pool, _ in handed), "invariant 38"
    assert cluster.deaths >= POISONED_FROM
    assert cluster.jobs.done[bad] >= 1
    live = [row for row in cluster.store.tables.timers.all() if row.state != ROW_GONE]
    assert not live, "invariant 14: no timer of nobody"
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms


async def surgeon_comes(loop: SimulatedLoop, seed: int) -> None:
    cluster, chaos = Hospital(loop, seed), random.Random(seed)
    async with asyncio.timeout(2_000):
        bad = await beginning(cluster, chaos)
        others = await create(cluster, chaos.randint(1, SHARDS), *[b"good"] * BYSTANDERS)
        began = loop.time()
        for one in others:
            await until(cluster, one, JobStatus.COMPLETED)
        assert loop.time() - began < 20, "invariant 40: nobody waits for it"
        cluster.next_worker(SURGICAL)
        await until(cluster, bad, JobStatus.COMPLETED)
    check(cluster, bad)


async def nobody_comes(loop: SimulatedLoop, seed: int) -> None:
    cluster, chaos = Hospital(loop, seed), random.Random(seed)
    async with asyncio.timeout(2 * THREE_HOURS_S):
        bad = await beginning(cluster, chaos)
        shard_id = int.from_bytes(bad[:4], "big")
        state = CODEC.decode_job_state(cluster.row(bad).state)
        assert state.crashes is not None
        await until(cluster, bad, JobStatus.SUSPENDED)
        late_us = cluster.database_clock.now_us() - state.crashes.suspended_us
        assert 0 <= late_us < 10_000_000, "invariant 39"
        cluster.next_worker(SURGICAL)
        await asyncio.sleep(120)
        assert cluster.row(bad).status == JobStatus.SUSPENDED, "invariant 39"
        ask: dict[str, Any] = {"namespace_id": NAMESPACE, "job_id": bad}
        resume = job.ResumeJob(**ask, request_id=cluster.ids.new_id(), identity="op")
        await cluster.ask_job(shard_id, resume)
        await until(cluster, bad, JobStatus.COMPLETED)
    actions = [entry_of(row).action for row in cluster.store.tables.audit.all()]
    assert actions == [Action.SUSPEND_JOB, Action.RESUME_JOB]
    check(cluster, bad)


@pytest.mark.parametrize("seed", seeds(20, SEEDS))
def test_seed(seed: int) -> None:
    """Invariants 35, 36, 38, 40: whoever crashes its workers is alone in the end."""
    simulate(lambda loop: surgeon_comes(loop, seed), seed)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_without_a_surgical_pool(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 39: suspended once, so long after its first crash, until an operator resumes it."""
    monkeypatch.setattr(poison, "SUSPENDED_AFTER_US", THREE_HOURS_S * 1_000_000)
    simulate(lambda loop: nobody_comes(loop, seed), seed)
