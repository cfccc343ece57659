"""Batch operations at rest: a job with a part in each shard, saved by whoever is first."""

from __future__ import annotations

import pytest
from tests.conformance.conftest import SHARDS
from tests.conformance.owner import NAMESPACE, START_US, Owner, Run, listed_row
from tests.conformance.test_audit import rows_of

from perdure_engine.core.audit import Action, AuditRow, Head
from perdure_engine.frontend.filters import read_condition
from perdure_engine.ports.audit import UNIQUE_VIOLATION
from perdure_engine.ports.batches import (
    BatchJob,
    BatchOperation,
    BatchRow,
    PartState,
    Target,
    TargetPage,
    targets_of,
)
from perdure_engine.ports.store import BatchRefused, Store

JOB = BatchJob(
    operation=BatchOperation.SIGNAL,
    query="WorkflowType = 'Order'",
    reason="ünïcode",
    identity="op@host",
    rps=7,
    total=3,
    body_hash=b"12345678",
    signal_name="wake",
    signal_input=b"\x00\xff",
)
OTHER = bytes(15) + b"\x02"


def row_of(job_id: str, started_us: int = START_US, namespace_id: bytes = NAMESPACE) -> BatchRow:
    return BatchRow(namespace_id, job_id, started_us, None, JOB)


def audited(count: int) -> list[AuditRow]:
    rows, _ = rows_of(count, Head(0), action=Action.START_BATCH)
    return rows


async def test_a_job_begins_with_an_open_part_in_each_shard(store: Store) -> None:
    row = row_of("job-1")
    (entry,) = audited(1)
    assert await store.start_batch(row, entry)
    assert await store.load_batch(NAMESPACE, "job-1") == row
    parts = await store.load_batch_parts(NAMESPACE, "job-1")
    assert [part.shard_id for part in parts] == list(SHARDS)
    assert {(part.state, part.position, part.pending) for part in parts} == {(1, bytes(16), ())}
    assert await store.load_open_batch_parts([3, 1]) == [parts[0], parts[2]]
    assert await store.load_audit(0, 0, 9) == [entry]
    assert await store.load_batch(OTHER, "job-1") is None


async def test_an_id_is_one_job_and_a_place_in_the_log_one_action(store: Store) -> None:
    first, second, third = audited(3)
    assert await store.start_batch(row_of("job-1"), first)
    assert not await store.start_batch(row_of("job-1", START_US + 1), second)
    with pytest.raises(BatchRefused) as caught:
        await store.start_batch(row_of("job-2"), first)
    assert caught.value.sqlstate == UNIQUE_VIOLATION
    assert await store.load_batch(NAMESPACE, "job-2") is None
    assert await store.load_batch_parts(NAMESPACE, "job-2") == []
    assert await store.start_batch(row_of("job-2"), second)
    assert await store.start_batch(row_of("job-1", namespace_id=OTHER), third)
    assert await store.load_audit(0, 0, 9) == [first, second, third]


async def test_invariant_7_a_part_is_saved_by_who_knows_what_is_stored(store: Store) -> None:
    (entry,) = audited(1)
    await store.start_batch(row_of("job-1"), entry)
    (part, *_) = await store.load_batch_parts(NAMESPACE, "job-1")
    taken = (Target(b"r" * 16, "order-ü"), Target(b"s" * 16, "order-2"))
    step = part._replace(
        position=b"s" * 16,
        pending=taken,
        done=5,
        failed=1,
        last_failure="no",
        saved_us=START_US + 9,
    )
    assert await store.save_batch_part(step)
    assert not await store.save_batch_part(step._replace(done=99))
    (stored, *_) = await store.load_batch_parts(NAMESPACE, "job-1")
    assert stored == step._replace(version=2)
    assert await store.save_batch_part(stored._replace(state=PartState.CLOSED, pending=()))
    assert await store.load_open_batch_parts([part.shard_id]) == []
    assert not await store.save_batch_part(step._replace(job_id="unknown"))
    assert await store.load_batch_parts(NAMESPACE, "unknown") == []


async def test_it_is_stopped_once(store: Store) -> None:
    started, stopped, again = audited(3)
    row = row_of("job-1")
    await store.start_batch(row, started)
    stop = row._replace(stopped_us=START_US + 5)
    assert await store.stop_batch(stop, stopped)
    assert not await store.stop_batch(stop._replace(stopped_us=START_US + 7), again)
    assert await store.load_batch(NAMESPACE, "job-1") == stop
    assert not await store.stop_batch(stop._replace(job_id="unknown"), again)
    assert await store.load_batch(NAMESPACE, "unknown") is None
    assert await store.load_audit(0, 0, 9) == [started, stopped]


async def test_lists_are_newest_first_and_a_removed_job_goes_with_its_parts(store: Store) -> None:
    rows = [row_of(f"job-{number % 3}-{number}", START_US + number // 2) for number in range(5)]
    for row, entry in zip(rows, audited(5), strict=True):
        await store.start_batch(row, entry)
    newest = sorted(rows, key=lambda row: (row.started_us, row.job_id), reverse=True)
    page = await store.list_batches(NAMESPACE, None, 3)
    last = (page[-1].started_us, page[-1].job_id)
    assert page + await store.list_batches(NAMESPACE, last, 3) == newest
    await store.remove_batch(NAMESPACE, newest[0].job_id)
    assert await store.list_batches(NAMESPACE, None, 9) == newest[1:]
    assert await store.load_batch_parts(NAMESPACE, newest[0].job_id) == []
    assert len(await store.load_batch_parts(NAMESPACE, newest[1].job_id)) == len(SHARDS)


async def test_targets_are_the_open_runs_of_one_shard_that_the_query_finds(
    store: Store, owner: Owner
) -> None:
    runs = [Run(2) for _ in range(6)]
    elsewhere = Run(3)
    late = Run(2, start_us=START_US + 60_000_000)
    rows = [listed_row(run, 1) for run in [*runs, elsewhere, late]]
    rows[1] = listed_row(runs[1], 2)
    rows[2] = listed_row(runs[2], 1, "Invoice")
    await owner.commit(owner.batch(visibility=rows))
    where = targets_of(NAMESPACE, JOB, START_US + 1, read_condition)

    async def found(**changes: object) -> TargetPage:
        asked = {"where": where, "after_run_id": bytes(16), "limit": 10} | changes
        return await store.load_batch_targets(2, **asked)  # type: ignore[arg-type]  # a dict of all

    wanted = [Target(run.run_id, run.workflow_id) for run in (runs[0], *runs[3:])]
    assert await found() == (wanted, None)
    assert await found(limit=2) == (wanted[:2], wanted[1].run_id)
    assert await found(after_run_id=wanted[1].run_id) == (wanted[2:], None)
    assert await found(where=targets_of(OTHER, JOB, START_US + 1, read_condition)) == ([], None)
    assert await found(limit=4) == (wanted, wanted[3].run_id)


async def test_a_page_looks_at_so_many_rows_and_says_where_the_next_begins(
    store: Store, owner: Owner
) -> None:
    """Few that are found among many: no page reads a whole shard."""
    runs = [Run(2) for _ in range(230)]
    await owner.commit(owner.batch(visibility=[listed_row(run, 1, "Invoice") for run in runs]))
    where = targets_of(NAMESPACE, JOB, START_US + 1, read_condition)
    after: bytes | None = bytes(16)
    pages = 0
    while after is not None:
        page = await store.load_batch_targets(2, where, after, 5)
        assert page.targets == []
        after, pages = page.last_run_id, pages + 1
    assert pages == 3
