"""Jobs under crashes, pauses and lost commits: nothing acknowledged is lost, and nothing is done twice in the log."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from tests.simulation.cluster import NAMESPACE, SHARDS
from tests.simulation.job_world import FLAKY, JobCluster, JobWorker, new_job
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.test_cluster import QUIET_ALARMS, trouble

from perdure_engine.core.ids import job_id_of, shard_of
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.model import Concurrency, JobStatus, NewJob, Unique
from perdure_engine.history.jobs.cache import JOB_BYTES
from perdure_engine.history.rooms import HistoryConfig
from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.faults import Faults

SEEDS = 40
CALLS = 10  # of clients, a handful of jobs each
BATCHES = 2


class Clients:
    """Whoever makes jobs. What was acknowledged is in `acked`."""

    def __init__(self, cluster: JobCluster, chaos: random.Random) -> None:
        self.cluster = cluster
        self.chaos = chaos
        self.acked: set[bytes] = set()
        self.waited: set[bytes] = set()

    def id_of(self, shard_id: int, request_id: bytes, index: int) -> bytes:
        return job_id_of(shard_id, NAMESPACE, "", request_id, index)

    async def call(self, number: int) -> None:
        """Some jobs of one shard: now or later, flaky, of a key, unique."""
        await asyncio.sleep(self.cluster.ids.jitter() * 9)
        request_id = self.cluster.ids.new_id()
        key = self.chaos.choice(["", "", "one", "two", "unique"])
        shard_id = shard_of(NAMESPACE, key or f"call-{number}", SHARDS)
        jobs = [self._new(shard_id, request_id, index, key) for index in range(5)]
        intent = job.CreateJobs(shard_id=shard_id, namespace_id=NAMESPACE, jobs=jobs)
        made = await self.cluster.ask_job(shard_id, intent)
        ids = [one.job_id for one in made.jobs]
        self.acked.update(ids)
        await self._wait(shard_id, ids)

    def _new(self, shard_id: int, request_id: bytes, index: int, key: str) -> NewJob:
        fields: dict[str, object] = {}
        if self.chaos.random() < 0.4:
            later = int(self.chaos.uniform(0.1, 6) * 1_000_000)
            fields["due_us"] = self.cluster.database_clock.now_us() + later
        if key == "unique":
            fields["unique"] = Unique("u")
            fields["user_id"] = "unique u"
        elif key:
            fields["concurrency"] = Concurrency(key, {"one": 1, "two": 2}[key])
        if self.chaos.random() < 0.3:
            fields["idempotency_key"] = f"{request_id.hex()}-{index}"
        input_ = FLAKY if self.chaos.random() < 0.3 else b""
        return new_job(self.id_of(shard_id, request_id, index), input_, **fields)

    async def _wait(self, shard_id: int, job_ids: list[bytes]) -> None:
        """Until all have ended: each answer says of some."""
        left = dict.fromkeys(job_ids)
        while left:
            intent = job.WaitJobs(shard_id=shard_id, namespace_id=NAMESPACE, job_ids=list(left))
            ended = await self.cluster.ask_job(shard_id, intent, limit_s=30.0)
            for one in ended.jobs:
                assert one.status is JobStatus.COMPLETED, one
                self.waited.add(one.job_id)
                left.pop(one.job_id, None)

    async def batch(self, number: int) -> bytes:
        """Two calls, the second of which seals. Returns the id of the callback."""
        name = f"batch-{number}"
        shard_id = shard_of(NAMESPACE, f"batch:{name}", SHARDS)
        request_id = self.cluster.ids.new_id()
        callback = new_job(self.id_of(shard_id, request_id, 60_000))
        for part in (0, 1):
            await asyncio.sleep(self.cluster.ids.jitter() * 4)
            ids = [self.id_of(shard_id, request_id, part * 10 + index) for index in range(4)]
            jobs = [new_job(job_id, batch_id=name) for job_id in ids]
            said = job.Callback(name, callback, sealed=part == 1)
            intent = job.CreateJobs(
                shard_id=shard_id, namespace_id=NAMESPACE, jobs=jobs, batch=said
            )
            await self.cluster.ask_job(shard_id, intent)
            self.acked.update(ids)
        await self._wait(shard_id, ids)
        return callback.job_id


async def story(loop: SimulatedLoop, seed: int) -> str:
    chaos = random.Random(seed)
    # half of the clusters have next to no memory for jobs that need not be there
    config = HistoryConfig(
        jobs_cached_max=chaos.choice([4, 20_000]),
        jobs_ahead_bytes_max=chaos.choice([1, 4 * JOB_BYTES, 64 << 20]),
    )
    cluster = JobCluster(loop, seed, config)
    await cluster.start_node()
    if chaos.random() < 0.7:
        await cluster.start_node()
    for name in ("w0", "w1"):
        JobWorker(cluster, name).start()
    clients = Clients(cluster, chaos)
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    async with asyncio.timeout(400):
        calls = [clients.call(number) for number in range(CALLS)]
        batches = [clients.batch(number) for number in range(BATCHES)]
        *_, first, second = await asyncio.gather(*calls, *batches)
        await havoc
        cluster.store.faults = Faults()  # what was planned and not met
        assert isinstance(first, bytes)
        assert isinstance(second, bytes)
        await settled(cluster, {first, second})
    check_jobs(cluster, clients)
    check_batches(cluster)
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms
    return loop.trace_hash


async def settled(cluster: JobCluster, callbacks: set[bytes]) -> None:
    """Until everything has ended: the callbacks come by themselves."""
    while True:
        rows = cluster.store.tables.job_runs.all()
        there = {row.job_id for row in rows}
        if callbacks <= there and all(row.closed_us is not None for row in rows):
            return
        await asyncio.sleep(0.5)


def check_jobs(cluster: JobCluster, clients: Clients) -> None:
    assert clients.acked
    for job_id in clients.acked:
        row = cluster.row(job_id)
        assert row.status == JobStatus.COMPLETED, "invariant 57: acknowledged, so done"
        assert cluster.jobs.done[job_id], "invariant 57: not without a worker"
        assert row.result == b"done"
        assert cluster.jobs.taken_ends[job_id] <= 1, "invariant 30: done twice in the log"
        flaky = MsgpackCodec().decode_job_spec(row.spec).input == FLAKY
        assert row.attempt == 1 + flaky, "invariant 31: one retry, counted once"
    assert max(cluster.jobs.taken.values()) == 1, "invariant 30: an outcome is applied once"
    live = [row for row in cluster.store.tables.timers.all() if row.state != ROW_GONE]
    assert not live, "invariant 14: no timer of nobody"


def check_batches(cluster: JobCluster) -> None:
    batches = cluster.store.tables.job_batches.all()
    assert len(batches) == BATCHES
    for row in batches:
        state = MsgpackCodec().decode_job_batch(row.state)
        assert (row.total, row.open, state.completed, state.over) == (8, 0, 8, True)
        callback = cluster.row(state.callback_job_id)
        said = json.loads(MsgpackCodec().decode_job_spec(callback.spec).input)
        assert (said["total"], said["completed"]) == (8, 8)
        assert cluster.jobs.taken_ends[callback.job_id] <= 1, "exactly one callback"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    """Invariants 13-17, 25-32 and 57 of jobs under crashes, pauses and lost commits."""
    simulate(lambda loop: story(loop, seed), seed)


def test_the_same_seed_is_the_same_run() -> None:
    hashes = [simulate(lambda loop: story(loop, 3), 3) for _ in range(2)]
    assert hashes[0] == hashes[1]
