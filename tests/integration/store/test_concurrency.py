"""Two writers at once, beside readers and sweeps: nobody aborts anybody; and what a bump waits
for.
"""

from __future__ import annotations

import asyncio

import psycopg
from tests.conformance.jobs import PENDING, ended_row, job_row, key_row
from tests.conformance.owner import NAMESPACE, QUEUE, Owner, Run, fence_of, new_id, no_keys

from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.rows import ROW_GONE, JobRunRow
from perdure_engine.ports.store import Conflict, JobRemoval, Sweep, VisibilityFilter
from perdure_engine.store.sql.store import SqlStore

BATCHES = 150  # for each writer


class Writer:
    """Starts, steps and closes runs of its shards, and sweeps its dead tasks now and then."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.open: list[Run] = []
        self.dead: dict[int, list[tuple[int, int]]] = {}
        self.sweeps_repeated = 0

    async def run(self) -> None:
        for number in range(BATCHES):
            old, self.open = self.open[:8], self.open[8:]
            new = self.owner.runs(8)
            await self.owner.start(new)
            self._bury(new)
            await self.owner.step(new)
            if old:
                self._bury(old)
                await self.owner.close(old)
            self.open += new
            if number % 20 == 19:
                await self._sweep()
        while any(self.dead.values()):
            await self._sweep()

    def _bury(self, runs: list[Run]) -> None:
        for run in runs:
            self.dead.setdefault(run.shard_id, []).append((QUEUE, run.task_id))

    async def _sweep(self) -> None:
        for shard_id, keys in self.dead.items():
            if not keys:
                continue
            fence = self.owner.fence(shard_id)
            sweep = Sweep(new_id(), fence, keys, [], [], None, [])
            try:
                await self.owner.store.sweep(sweep)
            except Conflict:  # with the sweep of another shard: it is the writer's to repeat
                self.sweeps_repeated += 1
                continue
            self.owner.fences[shard_id].commit_seq += 1
            self.dead[shard_id] = []


async def _read_on(store: SqlStore, until: asyncio.Task[None]) -> int:
    """What a shard and a user read meanwhile. A conflict that stayed would raise
    StoreUnavailable.
    """
    reads = 0
    while not until.done():
        for shard_id in (1, 3):
            tasks = await store.load_tasks(shard_id, (0, 0), 100)
            await store.load_timers(shard_id, (0, 0), 2**60, 100)
            for task in tasks[-3:]:
                await store.load_run(shard_id, task.run_id, no_keys)
        await store.list_runs(VisibilityFilter(NAMESPACE), None, 50)
        await store.list_shards()
        reads += 1
    return reads


class JobWriter:
    """Makes jobs of its shards, ends those made before, and removes what ended now and then."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.removals_repeated = 0

    async def run(self) -> None:
        shards = sorted(self.owner.fences)
        running: list[JobRunRow] = []
        ended: list[JobRunRow] = []
        for number in range(BATCHES):
            made = [
                job_row(shard, task_id=number + 1, user_id="anna", concurrency_key="key")
                for shard in shards
                for _ in range(8)
            ]
            updates = [ended_row(row) for row in running]
            keys = [key_row(f"{number}", made[0].job_id, shard_id=shards[0])]
            await self.owner.commit(
                self.owner.batch(job_runs=[*made, *updates], job_keys=keys if number % 2 else [])
            )
            ended += running
            running = made
            if number % 20 == 19:
                ended = await self._remove(ended)
        while ended:
            ended = await self._remove(ended)

    async def _remove(self, ended: list[JobRunRow]) -> list[JobRunRow]:
        """One statement for a shard; what is left."""
        shard_id = ended[0].shard_id
        gone = [row.job_id for row in ended if row.shard_id == shard_id]
        try:
            await self.owner.store.remove_jobs(
                JobRemoval(new_id(), self.owner.fence(shard_id), gone)
            )
        except Conflict:  # with the removal of another shard: it is the writer's to repeat
            self.removals_repeated += 1
            return ended
        self.owner.fences[shard_id].commit_seq += 1
        return [row for row in ended if row.shard_id != shard_id]


async def _read_jobs(store: SqlStore, until: asyncio.Task[None]) -> int:
    reads = 0
    while not until.done():
        for shard_id in (1, 3):
            ready = await store.load_ready_jobs_of_shard(shard_id, (-1, 0), 100)
            await store.load_jobs(shard_id, [row.job_id for row in ready])
            await store.load_keyed_jobs(shard_id, NAMESPACE, "key", 100)
            await store.load_closed_jobs(shard_id, bytes(16), 100)
        await store.list_jobs(JobFilter(NAMESPACE), None, 50)
        await store.list_jobs(JobFilter(NAMESPACE, user_id="anna"), None, 50)
        await store.count_jobs(JobFilter(NAMESPACE))
        reads += 1
    return reads


async def test_writers_of_jobs_on_different_shards_never_abort_each_other(store: SqlStore) -> None:
    """Nor do those who list, load and remove jobs meanwhile. A conflict of a batch would end the test."""
    writers = [JobWriter(await Owner.take(store, shards)) for shards in ([1, 2], [3, 4])]
    work = [asyncio.ensure_future(writer.run()) for writer in writers]

    reads = await _read_jobs(store, work[0])
    await asyncio.gather(*work)

    assert reads > 0
    assert await store.count_jobs(JobFilter(NAMESPACE)) == [(PENDING, 4 * 8)], (
        "those of the last batch"
    )


async def test_two_writers_on_different_shards_never_abort_each_other(store: SqlStore) -> None:
    """A conflict would end the test: hundreds of batches, upserts and plain inserts only."""
    writers = [Writer(await Owner.take(store, shards)) for shards in ([1, 2], [3, 4])]
    work = [asyncio.ensure_future(writer.run()) for writer in writers]

    reads = await _read_on(store, work[0])
    await asyncio.gather(*work)

    assert reads > 0
    assert await store.count_runs(VisibilityFilter(NAMESPACE)) == 2 * BATCHES * 8
    for shard_id in (1, 2, 3, 4):
        tasks = await store.load_tasks(shard_id, (0, 0), 10_000)
        assert [task for task in tasks if task.state == ROW_GONE] == []


async def test_statements_of_different_shards_are_in_flight_at_once(
    store: SqlStore, database_dsn: str
) -> None:
    """The first waits in the server; the second is not held up by it."""
    owner = await Owner.take(store, [1, 2])
    async with await psycopg.AsyncConnection.connect(database_dsn) as other:
        await other.execute("select 1 from shard_fence where shard_id = 1 for update")
        first = asyncio.ensure_future(owner.commit(owner.batch([1])))

        await owner.commit(owner.batch([2]))
        assert not first.done()

    await first


async def test_a_bump_waits_for_a_statement_that_is_still_running(
    store: SqlStore, database_dsn: str
) -> None:
    """It landed after all: the bump meets 40001 once, repeats, and finds the batch's id."""
    owner = await Owner.take(store, [1])
    batch = owner.batch([1])
    fences = batch.fences
    async with await psycopg.AsyncConnection.connect(database_dsn) as running:
        # The batch's effect on the fence row, uncommitted: what a server does that is slow to
        # commit.
        await running.execute(
            "update shard_fence set commit_seq = commit_seq + 1, batch_id = %s where shard_id = 1",
            (_uuid(batch.batch_id),),
        )
        bump = asyncio.ensure_future(store.bump_fences(fences, new_id()))
        await store.list_nodes()
        assert not bump.done()
        await running.commit()

    (state,) = await bump
    assert state.batch_id == batch.batch_id
    assert state.commit_seq == fences[0].commit_seq + 1


async def test_a_statement_that_comes_after_the_bump_finds_its_fence_lost(
    store: SqlStore,
) -> None:
    owner = await Owner.take(store, [1])
    (run,) = owner.runs(1)
    late = owner.start_batch([run])
    (state,) = await store.bump_fences([owner.fence(1)], new_id())
    owner.fences[1] = fence_of(state)

    async def again_after_conflicts() -> int:
        """As the writer does: the two may meet in the fence's row."""
        while True:
            try:
                return await store.commit(late)
            except Conflict:
                continue

    results = await asyncio.gather(
        again_after_conflicts(), owner.commit(owner.batch([1])), return_exceptions=True
    )

    assert [type(result).__name__ for result in results] == ["FenceLost", "int"]


def _uuid(raw: bytes) -> str:
    return raw.hex()
