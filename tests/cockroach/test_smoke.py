"""What only a server can tell: types of placeholders, missing functions, plans, real conflicts.

Each test takes shards of its own, so that they may run in any order on one database.
"""

from __future__ import annotations

import asyncio
import re

import psycopg
import pytest
from tests.cockroach.conftest import NUMBER_OF_SHARDS
from tests.conformance.jobs import NO_JOB, ended_row, job_row, jobs_of, key_row
from tests.conformance.owner import (
    NAMESPACE,
    QUEUE,
    Owner,
    fence_of,
    inbox_row,
    new_id,
    no_keys,
    snapshot_row,
    whole_run,
)
from tests.integration.store.test_views import COLUMNS
from tests.sql_lint.registry import engine_statements

import perdure_migrations
from perdure_engine.frontend.filters import parse
from perdure_engine.ports.filters import Group, Order
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.store import (
    BatchRefused,
    Fence,
    FenceLost,
    GuardFailed,
    JobRemoval,
    Sweep,
    VisibilityFilter,
)
from perdure_engine.store.sql.store import SqlStore

pytestmark = pytest.mark.cockroach

EVERY_CONDITION = """
(Customer = '2026-01-01' AND Amount = 5 AND Paid = true) OR Customer > '2026-01-01' OR Amount > 2.5
OR Customer STARTS_WITH 'c' OR Customer IS NULL OR NOT (Stuck = true) OR WorkflowId STARTS_WITH 'o'
OR RunId = '00000000-0000-0000-0000-000000000001' OR ExecutionStatus != 'Running'
OR StartTime >= '2026-01-01' OR CloseTime < '2026-01-01' OR CloseTime IS NULL OR HistoryLength <= 5
"""

PREPARABLE = {
    name: text
    for name, text in engine_statements().items()
    if re.match(r"(select|insert|delete|with)\s", text)
}


def test_migrations_are_repeatable(cockroach_dsn: str) -> None:
    perdure_migrations.upgrade(cockroach_dsn, number_of_shards=NUMBER_OF_SHARDS)

    assert perdure_migrations.status(cockroach_dsn) == perdure_migrations.MigrationStatus(
        perdure_migrations.HEAD, perdure_migrations.HEAD, NUMBER_OF_SHARDS
    )


@pytest.mark.parametrize("name", PREPARABLE)
def test_each_statement_can_be_prepared(cockroach_dsn: str, name: str) -> None:
    """PREPARE checks the type of each placeholder and finds each function."""
    with psycopg.connect(cockroach_dsn, autocommit=True) as connection:
        connection.execute(f"prepare checked as {PREPARABLE[name]}".encode())


@pytest.mark.parametrize("view", COLUMNS)
def test_each_view_can_be_read(cockroach_dsn: str, view: str) -> None:
    """Also the columns that are made of bytes and of JSON."""
    with psycopg.connect(cockroach_dsn, autocommit=True) as connection:
        found = connection.execute(f"select * from {view}".encode())
        assert found.description is not None
        assert [column.name for column in found.description] == COLUMNS[view]
        found.fetchall()


async def test_it_says_what_it_is(store: SqlStore) -> None:
    assert (await store.describe()).startswith("CockroachDB")


async def test_a_run_from_start_to_close(store_without_full_scans: SqlStore) -> None:
    store = store_without_full_scans
    owner = await Owner.take(store, [1, 2])
    runs = owner.runs(64)
    await owner.start(runs)
    await owner.step(runs)
    batch = owner.step_batch(runs)
    batch.inbox = [inbox_row(run, 1) for run in runs]
    batch.snapshots = [snapshot_row(run, 0, 2) for run in runs]
    await owner.commit(batch)

    for run in runs[:4]:
        record = await store.load_run(run.shard_id, run.run_id, lambda head: [(QUEUE, 1)])
        assert record is not None
        assert record.execution.version == 3
        assert len(record.inbox) == len(record.snapshot) == 1
        history = await store.load_history(run.shard_id, run.run_id, 1, 2)
        assert len(history.rows) == 2
        assert history.more
    assert len(await store.load_tasks(1, (0, 0), 1_000)) > 0
    assert len(await store.load_queue_tasks(1, QUEUE, 0, 5)) == 5
    assert len(await store.load_timers(1, (0, 0), 2**60, 5)) > 0
    assert len((await store.list_runs(VisibilityFilter(NAMESPACE), None, 10)).rows) == 10
    # Every kind of condition, in every order: what the planner of PostgreSQL takes, this one must too.
    every = VisibilityFilter(NAMESPACE, expression=parse("query", EVERY_CONDITION, 0).expression)
    for order in Order:
        await store.list_runs(every, None, 10, order)
    for group in Group:
        await store.count_groups(every, group)


async def test_jobs_from_creation_to_removal(store_without_full_scans: SqlStore) -> None:
    """Also that `unnest` fills up what an update does not send."""
    store = store_without_full_scans
    owner = await Owner.take(store, [15, 16])
    jobs = [
        job_row(15 + number % 2, task_id=number + 1, user_id="anna", concurrency_key="key")
        for number in range(64)
    ]
    ended, running = jobs[:40], jobs[40:]
    await owner.commit(owner.batch(job_runs=ended, job_keys=[key_row("k", NO_JOB, shard_id=15)]))
    await owner.commit(owner.batch(job_runs=[*running, *map(ended_row, ended)]))

    assert sorted(await jobs_of(store, running)) == sorted(running)
    assert await store.count_jobs(JobFilter(NAMESPACE, user_id="anna")) == [(1, 24), (4, 40)]
    for where in (
        JobFilter(NAMESPACE),
        JobFilter(NAMESPACE, user_id="anna", statuses=(1, 4)),
        JobFilter(NAMESPACE, schedule_id="daily"),
        JobFilter(NAMESPACE, batch_id="nightly"),
        JobFilter(NAMESPACE, task_name="send_email", statuses=(5,)),
    ):
        for oldest_first in (False, True):
            await store.list_jobs(where, None, 10, oldest_first=oldest_first)
        await store.count_jobs(where)
    assert len(await store.load_ready_jobs_of_shard(15, (-1, 0), 5)) == 5
    assert len(await store.load_keyed_jobs(15, NAMESPACE, "key", 5)) == 5
    gone = [row.job_id for row in ended if row.shard_id == 15]
    await store.remove_jobs(JobRemoval(new_id(), owner.fence(15), gone))
    assert (await store.load_closed_jobs(15, bytes(16), 100)).jobs == []


async def test_refusals_write_nothing(store: SqlStore) -> None:
    owner = await Owner.take(store, [5, 6])
    runs = owner.runs(4)
    await owner.start(runs)
    before = [await whole_run(store, run) for run in runs]
    stale = owner.step_batch(runs)
    stale.executions[1] = stale.executions[1]._replace(version=-9)
    twice = owner.step_batch(runs)
    twice.history[1] = twice.history[1]._replace(first_event_id=1)
    missing = owner.batch([5])
    missing.fences.append(Fence(NUMBER_OF_SHARDS + 1, 1, 1, new_id()))
    lost = owner.step_batch(runs)
    await Owner.take(store, [6])

    with pytest.raises((GuardFailed, FenceLost)):
        await store.commit(stale)
    with pytest.raises((BatchRefused, FenceLost)):
        await store.commit(twice)
    for batch in (missing, lost):
        with pytest.raises(FenceLost):
            await store.commit(batch)

    assert [await whole_run(store, run) for run in runs] == before


async def test_guard_and_unique_keys_with_all_fences_held(store: SqlStore) -> None:
    owner = await Owner.take(store, [7])
    runs = owner.runs(2)
    await owner.start(runs)
    stale = owner.step_batch(runs)
    stale.executions[1] = stale.executions[1]._replace(version=-9)
    twice = owner.step_batch(runs)
    twice.history[1] = twice.history[1]._replace(first_event_id=1)

    with pytest.raises(GuardFailed):
        await store.commit(stale)
    with pytest.raises(BatchRefused, match="23505"):
        await store.commit(twice)
    await owner.step(runs)


async def test_bump_tells_what_landed(store: SqlStore) -> None:
    owner = await Owner.take(store, [8])
    batch = owner.batch([8])
    await store.commit(batch)

    (state,) = await store.bump_fences(batch.fences, new_id())
    assert state.batch_id == batch.batch_id
    assert await store.bump_fences(batch.fences, new_id()) == []
    owner.fences[8] = fence_of(state)
    await owner.commit(owner.batch([8]))


async def test_a_sweep(store: SqlStore) -> None:
    owner = await Owner.take(store, [9])
    (run,) = owner.runs(1)
    await owner.start([run])
    dead = (QUEUE, run.task_id)
    await owner.step([run])

    def sweep(keys: list[tuple[int, int]]) -> Sweep:
        return Sweep(new_id(), owner.fence(9), keys, [], [], (0, 9), [])

    with pytest.raises(GuardFailed):
        await store.sweep(sweep([dead, (QUEUE, run.task_id)]))
    await store.sweep(sweep([dead]))

    assert [task.task_id for task in await store.load_tasks(9, (0, 0), 9)] == [run.task_id]
    assert (await store.list_shards())[8].timer_mark_us == 9


async def test_two_writers_at_once(store: SqlStore) -> None:
    async def write(shards: list[int]) -> None:
        owner = await Owner.take(store, shards)
        for _ in range(50):
            runs = owner.runs(8)
            await owner.start(runs)
            await owner.step(runs)

    await asyncio.gather(write([10, 11]), write([12, 13]))


async def test_a_cancelled_statement_leaves_the_store_usable(store: SqlStore) -> None:
    owner = await Owner.take(store, [14])
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    commit = asyncio.ensure_future(store.commit(batch))
    await store.list_namespaces()
    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)

    (state,) = await store.bump_fences(batch.fences, new_id())

    landed = await store.load_run(14, run.run_id, no_keys) is not None
    assert landed == (state.batch_id == batch.batch_id)


async def test_namespaces_nodes_and_keys(store: SqlStore) -> None:
    node_id = new_id()

    assert await store.renew_node(node_id, "a:1", "eu", "history", 1, 60_000) > 0
    assert any(node.node_id == node_id and node.alive for node in await store.list_nodes())
    await store.release_node(node_id)
    await store.put_shard(1, node_id, "a:1")
    (default,) = [row for row in await store.list_namespaces() if row.name == "default"]
    assert await store.update_namespace(default)
    assert not await store.update_namespace(default)
    assert await store.put_token_key(1, b"secret")
    assert not await store.put_token_key(1, b"secret")
    assert await store.count_runs(VisibilityFilter(NAMESPACE)) >= 0
