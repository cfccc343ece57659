"""What the engine is told when the database does not answer, or answers with an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from tests.conformance.jobs import job_row, key_row
from tests.conformance.owner import NAMESPACE, Owner, Run, fence_of, new_id, no_keys
from tests.faults.session import Fault, Faults, is_batch, is_bump, is_read, is_sweep

from perdure_engine.ports.store import (
    BatchRefused,
    Conflict,
    Fence,
    OutcomeUnknown,
    ReadTooLong,
    StoreError,
    StoreUnavailable,
    Sweep,
    VisibilityFilter,
)
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

BEFORE_EFFECT = {
    Fault.CONFLICT: Conflict,
    Fault.CONFLICT_AT_COMMIT: Conflict,
    Fault.DEADLOCK: Conflict,
    Fault.LOST_BEFORE: OutcomeUnknown,
    Fault.UNKNOWN_BEFORE: OutcomeUnknown,
    Fault.CANCELLED: OutcomeUnknown,
    Fault.SHUTDOWN_BEFORE: OutcomeUnknown,
    Fault.OUT_OF_MEMORY: BatchRefused,
}
AFTER_EFFECT = {
    Fault.LOST_AFTER: OutcomeUnknown,
    Fault.UNKNOWN_AFTER: OutcomeUnknown,
    Fault.SHUTDOWN_AFTER: OutcomeUnknown,
}


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
async def store(database_dsn: str, faults: Faults) -> AsyncIterator[SqlStore]:
    store = SqlStore(SqlStoreConfig(database_dsn), wrap=faults.wrap)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def owner(store: SqlStore) -> Owner:
    return await Owner.take(store, [1, 2])


@pytest.mark.parametrize("fault", BEFORE_EFFECT)
async def test_a_commit_that_failed_before_its_effect(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    faults.plan(fault, where=is_batch)

    with pytest.raises(BEFORE_EFFECT[fault]):
        await store.commit(batch)

    assert await store.load_run(run.shard_id, run.run_id, no_keys) is None
    await store.commit(batch)
    assert faults.met == [fault]


@pytest.mark.parametrize("fault", AFTER_EFFECT)
async def test_a_commit_that_failed_after_its_effect(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    """The same error as before the effect; the bump tells them apart."""
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    faults.plan(fault, where=is_batch)

    with pytest.raises(AFTER_EFFECT[fault]):
        await store.commit(batch)

    (state,) = await store.bump_fences(batch.fences, new_id())
    assert state.batch_id == batch.batch_id
    assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None


@pytest.mark.parametrize("fault", [*BEFORE_EFFECT, *AFTER_EFFECT])
@pytest.mark.parametrize("with_key", [False, True], ids=["job runs", "jobs"])
async def test_a_commit_of_jobs_that_failed(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault, with_key: bool
) -> None:
    """Both forms that carry nothing else: the bump tells whether it landed, and then it is all there or nothing."""
    job = job_row(1, task_id=5)
    keys = [key_row("report", job.job_id)] if with_key else []
    batch = owner.batch(job_runs=[job], job_keys=keys)
    faults.plan(fault, where=is_batch)

    with pytest.raises((BEFORE_EFFECT | AFTER_EFFECT)[fault]):
        await store.commit(batch)

    landed = fault in AFTER_EFFECT
    assert await store.load_jobs(1, [job.job_id]) == ([job] if landed else [])
    assert await store.load_job_keys([(1, NAMESPACE, 1, "report")]) == (keys if landed else [])
    (state,) = await store.bump_fences(batch.fences, new_id())
    assert (state.batch_id == batch.batch_id) == landed
    assert faults.met == [fault]


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.UNKNOWN_BEFORE])
async def test_a_bump_tells_that_a_lost_commit_did_not_land(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    batch = owner.start_batch(owner.runs(1))
    faults.plan(fault, where=is_batch)
    with pytest.raises(OutcomeUnknown):
        await store.commit(batch)

    (state,) = await store.bump_fences(batch.fences, new_id())

    assert state.batch_id != batch.batch_id


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.CONFLICT_AT_COMMIT, Fault.DEADLOCK])
async def test_a_bump_repeats_by_itself_on_a_conflict(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    for _ in range(3):
        faults.plan(fault, where=is_bump)

    (state,) = await store.bump_fences([owner.fence(1)], new_id())

    assert state.range_id == owner.fence(1).range_id + 1
    assert faults.met == [fault] * 3


@pytest.mark.parametrize("fault", AFTER_EFFECT)
async def test_a_bump_of_unknown_outcome_can_be_repeated(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    """Until the row shows our new owner or another's."""
    me = new_id()
    faults.plan(fault, where=is_bump)
    with pytest.raises(OutcomeUnknown):
        await store.bump_fences([owner.fence(1)], me)

    assert await store.bump_fences([owner.fence(1)], me) == []

    (state,) = await store.read_fences([1])
    assert state.owner_id == me


@pytest.mark.parametrize("fault", [*BEFORE_EFFECT, *AFTER_EFFECT])
async def test_a_sweep_is_translated_as_a_commit(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    sweep = Sweep(new_id(), owner.fence(1), [], [], [], (0, 9), [])
    faults.plan(fault, where=is_sweep)

    with pytest.raises({**BEFORE_EFFECT, **AFTER_EFFECT}[fault]):
        await store.sweep(sweep)


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.DEADLOCK])
async def test_a_read_repeats_by_itself_on_a_conflict(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault
) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])
    faults.plan(fault, where=is_read)
    faults.plan(fault, where=is_read)

    assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None


@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize(
    "fault", [Fault.LOST_BEFORE, Fault.UNKNOWN_BEFORE, Fault.CANCELLED, Fault.SHUTDOWN_BEFORE]
)
async def test_a_read_that_got_no_answer(
    store: SqlStore, owner: Owner, faults: Faults, fault: Fault, at: int
) -> None:
    """In the first or in the second round trip of its transaction; the next read gets a new
    session.
    """
    (run,) = owner.runs(1)
    await owner.start([run])
    faults.plan(fault, skip=at)

    with pytest.raises(StoreUnavailable):
        await store.load_run(run.shard_id, run.run_id, no_keys)

    assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None


async def test_a_conflict_in_the_second_round_trip_begins_again(
    store: SqlStore, owner: Owner, faults: Faults
) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])
    faults.plan(Fault.CONFLICT, skip=1)

    assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None
    assert await store.load_tasks(run.shard_id, (0, 0), 9) != []


async def test_a_server_that_is_not_there(database_dsn: str) -> None:
    """Certainly not sent, so not unknown."""
    store = SqlStore(SqlStoreConfig(psycopg.conninfo.make_conninfo(database_dsn, port=1)))
    batch = Owner(store, {1: Fence(1, 1, 1, new_id())}).batch([1])

    with pytest.raises(StoreUnavailable):
        await store.open()
    with pytest.raises(StoreUnavailable):
        await store.commit(batch)


async def test_a_closed_store_says_so(store: SqlStore, owner: Owner) -> None:
    await store.close()
    await store.close()

    with pytest.raises(StoreUnavailable):
        await owner.commit(owner.batch([1]))
    with pytest.raises(StoreUnavailable):
        await store.list_nodes()


async def test_sessions_that_the_server_ended_while_idle_are_replaced_unnoticed(
    store: SqlStore, owner: Owner, database_dsn: str
) -> None:
    """A restart of the database between two batches must not cost a bump."""
    await owner.commit(owner.batch([1]))
    with psycopg.connect(database_dsn, autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'perdure' and datname = current_database()"
        )

    await owner.commit(owner.batch([1]))
    assert len(await store.list_shards()) == 4


async def test_a_statement_whose_backend_is_killed_is_unknown(
    store: SqlStore, owner: Owner, database_dsn: str
) -> None:
    """The real thing: the batch waits for a row lock when its server process is killed."""
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    with psycopg.connect(database_dsn) as other:
        other.execute("select 1 from shard_fence where shard_id = 1 for update")
        commit = asyncio.ensure_future(store.commit(batch))
        await _until_waiting(database_dsn)
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'perdure' and wait_event_type = 'Lock'"
        )
        with pytest.raises(OutcomeUnknown):
            await commit
        other.rollback()

    await owner.commit(batch)


async def test_a_statement_beyond_the_servers_timeout_is_unknown(database_dsn: str) -> None:
    store = SqlStore(SqlStoreConfig(database_dsn, statement_timeout_ms=50))
    owner = await Owner.take(store, [1])
    with psycopg.connect(database_dsn) as other:
        other.execute("select 1 from shard_fence where shard_id = 1 for update")

        with pytest.raises(OutcomeUnknown, match="57014"):
            await store.commit(owner.batch([1]))

    await owner.commit(owner.batch([1]))
    await store.close()


async def test_b23_lists_that_take_too_long_end_and_hold_no_load_up(database_dsn: str) -> None:
    """Four readers, six counts that wait for a lock: a run is loaded all the same."""
    store = SqlStore(SqlStoreConfig(database_dsn, statement_timeout_ms=2_000))
    owner = await Owner.take(store, [1])
    (run,) = owner.runs(1)
    await owner.start([run])
    where = VisibilityFilter(NAMESPACE)
    with psycopg.connect(database_dsn) as other:
        other.execute("lock table visibility in access exclusive mode")
        counts = [asyncio.ensure_future(store.count_runs(where)) for _ in range(6)]
        await _until_waiting(database_dsn)
        async with asyncio.timeout(1):
            assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None

        with pytest.raises(ReadTooLong):
            await counts[0]
    assert await counts[5] == 1
    await asyncio.gather(*counts, return_exceptions=True)
    await store.close()


async def test_a_batch_whose_caller_was_cancelled_leaves_no_half_sent_statement(
    store: SqlStore, owner: Owner, faults: Faults
) -> None:
    """Its session is closed, whatever the moment; others get whole ones."""
    for moment in (Fault.SLOW, Fault.NEVER_SENT):
        (run,) = owner.runs(1)
        faults.waiting.clear()
        faults.plan(moment, where=is_batch)
        commit = asyncio.ensure_future(store.commit(owner.start_batch([run])))
        await faults.waiting.wait()

        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit

        (state,) = await store.bump_fences([owner.fence(1)], new_id())
        owner.fences[1] = fence_of(state)
        record = await store.load_run(run.shard_id, run.run_id, no_keys)
        assert (record is not None) == (moment is Fault.SLOW)


async def test_a_real_statement_that_was_cancelled_is_not_reused(
    store: SqlStore, owner: Owner, database_dsn: str, faults: Faults
) -> None:
    """The statement waits for a row lock in the server; the cancelled caller does not wait for
    it.
    """
    await owner.commit(owner.batch([1]))
    before = faults.opened
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    with psycopg.connect(database_dsn) as other:
        other.execute("select 1 from shard_fence where shard_id = 1 for update")
        commit = asyncio.ensure_future(store.commit(batch))
        await _until_waiting(database_dsn)

        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit

    (state,) = await store.bump_fences(batch.fences, new_id())
    assert faults.opened == before + 1
    landed = await store.load_run(run.shard_id, run.run_id, no_keys)
    assert (landed is not None) == (state.batch_id == batch.batch_id)


async def test_a_cancelled_read_does_not_wait_for_the_server(
    store: SqlStore, owner: Owner, database_dsn: str
) -> None:
    """Its pipeline holds answers that nobody will read; the server is still busy with the first."""
    (run,) = owner.runs(1)
    await owner.start([run])
    with psycopg.connect(database_dsn) as other:
        other.execute("lock table executions in access exclusive mode")
        load = asyncio.ensure_future(store.load_run(run.shard_id, run.run_id, no_keys))
        await _until_waiting(database_dsn)

        load.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await load

    assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None


async def test_an_answer_that_does_not_come_is_unknown(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own timeout: the server, or the way to it, hangs."""
    monkeypatch.setattr("perdure_engine.store.sql.store._ANSWER_S", 0.05)
    faults = Faults()
    store = SqlStore(SqlStoreConfig(database_dsn, statement_timeout_ms=10), wrap=faults.wrap)
    owner = await Owner.take(store, [1])
    faults.plan(Fault.SLOW, where=is_batch)
    batch = owner.start_batch([Run(1)])

    with pytest.raises(OutcomeUnknown):
        await store.commit(batch)

    faults.plan(Fault.SLOW)
    with pytest.raises(StoreUnavailable):
        await store.list_nodes()
    await store.close()


async def test_any_fault_is_one_of_ours(store: SqlStore, owner: Owner, faults: Faults) -> None:
    for fault in set(Fault) - {Fault.SLOW, Fault.NEVER_SENT}:
        faults.plan(fault)
        with pytest.raises(StoreError):
            await store.commit(owner.start_batch([Run(1)]))


async def _until_waiting(dsn: str) -> None:
    """Until a session of the store waits for a lock."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as watcher:
        for _ in range(500):
            cursor = await watcher.execute(
                "select count(*) from pg_stat_activity where application_name = 'perdure'"
                " and wait_event_type = 'Lock' and datname = current_database()"
            )
            row = await cursor.fetchone()
            if row and row[0]:
                return
            await watcher.execute("select pg_sleep(0.01)")
    raise AssertionError("no statement waits")
