"""What a shard loads: one run whole, or rows in key order, page by page."""

from __future__ import annotations

import pytest
from tests.conformance.owner import (
    NAMESPACE,
    QUEUE,
    Owner,
    Run,
    current_row,
    head_row,
    inbox_row,
    listed_row,
    no_keys,
    snapshot_row,
    task_row,
    timer_row,
)

from perdure_engine.core.tasks import MESSAGE_QUEUE_NO, TaskState
from perdure_engine.ports.rows import ROW_GONE, HistoryRow, InboxRow, SnapshotRow
from perdure_engine.ports.store import FenceLost, Store

SHARD = 1


async def test_a_run_with_snapshot_tail_inbox_and_tasks(store: Store, owner: Owner) -> None:
    run, other = Run(SHARD), Run(SHARD)
    history = [HistoryRow(SHARD, run.run_id, n, 0, b"%d" % n) for n in (1, 4, 65, 70)]
    tail_part = HistoryRow(SHARD, run.run_id, 70, 1, b"70 again")
    tasks = [task_row(run, n, 1, 1) for n in (5, 6, 7)]
    await owner.commit(
        owner.batch(
            executions=[head_row(run, 1, 80, 1, inbox_done=2), head_row(other, 1, 3, 1)],
            current_runs=[current_row(run, 1, 1)],
            history=[tail_part, *history, HistoryRow(SHARD, other.run_id, 99, 0, b"other")],
            inbox=[inbox_row(run, n) for n in (4, 1, 3, 2)] + [inbox_row(other, 9)],
            tasks=tasks,
            snapshots=[snapshot_row(run, 1, 64), snapshot_row(run, 0, 64)],
        )
    )
    seen: list[bytes] = []

    def keys(head: bytes) -> list[tuple[int, int]]:
        seen.append(head)
        return [(QUEUE, 7), (QUEUE, 5), (QUEUE, 1_000)]

    record = await store.load_run(SHARD, run.run_id, keys)

    assert record is not None
    assert seen == [b"head"]
    assert record.execution == head_row(run, 1, 80, 1, inbox_done=2)
    assert record.current == current_row(run, 1, 1)
    assert record.snapshot == [snapshot_row(run, 0, 64), snapshot_row(run, 1, 64)]
    assert record.history == [history[2], history[3], tail_part]
    assert record.inbox == [inbox_row(run, 3), inbox_row(run, 4)]
    assert record.tasks == [tasks[0], tasks[2]]
    assert isinstance(record.history[0], HistoryRow)
    assert isinstance(record.inbox[0], InboxRow)
    assert isinstance(record.snapshot[0], SnapshotRow)


async def test_a_run_that_is_not_there(store: Store, owner: Owner) -> None:
    assert await store.load_run(SHARD, Run(SHARD).run_id, no_keys) is None
    assert await store.load_current_runs([(SHARD, NAMESPACE, "nobody")]) == []
    assert await store.load_current_runs([]) == []


async def test_a_shorter_snapshot_hides_what_a_longer_one_left(store: Store, owner: Owner) -> None:
    run = Run(SHARD)
    await owner.commit(
        owner.batch(
            executions=[head_row(run, 1, 80, 1)],
            snapshots=[snapshot_row(run, part, 64) for part in (0, 1, 2)],
        )
    )
    await owner.commit(
        owner.batch(
            executions=[head_row(run, 1, 140, -1)],
            snapshots=[snapshot_row(run, part, 128) for part in (0, 1)],
        )
    )

    record = await store.load_run(SHARD, run.run_id, no_keys)

    assert record is not None
    assert record.snapshot == [snapshot_row(run, 0, 128), snapshot_row(run, 1, 128)]


async def test_the_current_run_may_be_another(store: Store, owner: Owner) -> None:
    old = Run(SHARD, workflow_id="w")
    await owner.start([old])
    await owner.close([old])
    new = Run(SHARD, workflow_id="w", current_version=2)
    await owner.start([new])

    record = await store.load_run(SHARD, old.run_id, no_keys)

    assert record is not None
    assert record.current == current_row(new, 1, 3)


async def test_many_current_runs_in_one_read(store: Store, owner: Owner) -> None:
    runs = owner.runs(8)
    await owner.start(runs)
    keys = [(run.shard_id, NAMESPACE, run.workflow_id) for run in runs]
    absent = [(1, NAMESPACE, "nobody"), (1, bytes(16), runs[0].workflow_id), (2, *keys[0][1:])]

    rows = await store.load_current_runs(absent + keys)

    assert sorted(rows) == sorted(current_row(run, 1, 1) for run in runs)


async def test_tasks_are_paged_in_key_order_over_queues(store: Store, owner: Owner) -> None:
    run = Run(SHARD)
    keys = [(queue_no, task_id) for queue_no in (3, 1, 2) for task_id in (30, 10, 20)]
    await owner.commit(
        owner.batch(
            tasks=[
                task_row(run, task_id, ROW_GONE if task_id == 20 else 1, 1, queue_no=queue_no)
                for queue_no, task_id in keys
            ]
            + [task_row(Run(2), 1, 1, 1)]
        )
    )
    found: list[tuple[int, int]] = []

    while page := await store.load_tasks(SHARD, found[-1] if found else (0, 0), 4):
        found += [(row.queue_no, row.task_id) for row in page]

    assert found == sorted(keys)
    queue = await store.load_queue_tasks(SHARD, 2, 10, 5)
    assert [(row.queue_no, row.task_id) for row in queue] == [(2, 20), (2, 30)]
    assert len(await store.load_queue_tasks(SHARD, 2, 0, 2)) == 2


async def test_messages_to_other_runs_come_before_all_queues(store: Store, owner: Owner) -> None:
    """A take-over finds them on its first page; their queue number is below every hash."""
    run = Run(SHARD)
    messages = [
        task_row(run, task_id, TaskState.TO_SEND, 1, queue_no=MESSAGE_QUEUE_NO)
        for task_id in (30, 10, 20)
    ]
    await owner.commit(owner.batch(tasks=[task_row(run, 5, 1, 1, queue_no=0), *messages]))

    first = await store.load_tasks(SHARD, (-1, -1), 2)
    rest = await store.load_tasks(SHARD, (first[-1].queue_no, first[-1].task_id), 5)

    assert [(row.queue_no, row.task_id) for row in first + rest] == [
        (MESSAGE_QUEUE_NO, 10),
        (MESSAGE_QUEUE_NO, 20),
        (MESSAGE_QUEUE_NO, 30),
        (0, 5),
    ]
    assert {row.state for row in first} == {TaskState.TO_SEND}
    page = await store.load_queue_tasks(SHARD, MESSAGE_QUEUE_NO, 10, 5)
    assert [row.task_id for row in page] == [20, 30]
    gone = [row._replace(state=ROW_GONE, version=-1) for row in messages]
    await owner.commit(owner.batch(tasks=gone))
    page = await store.load_queue_tasks(SHARD, MESSAGE_QUEUE_NO, 0, 5)
    assert {(row.state, row.version) for row in page} == {(ROW_GONE, 2)}


async def test_timers_are_paged_in_time_order_up_to_the_window(store: Store, owner: Owner) -> None:
    run = Run(SHARD)
    keys = [(20, 2), (10, 5), (20, 1), (30, 1), (40, 1), (10, 3)]
    await owner.commit(owner.batch(timers=[timer_row(run, *key) for key in keys]))
    found: list[tuple[int, int]] = []

    while page := await store.load_timers(SHARD, found[-1] if found else (0, 0), 40, 2):
        found += [(row.wake_us, row.timer_id) for row in page]

    assert found == [(10, 3), (10, 5), (20, 1), (20, 2), (30, 1)]


@pytest.mark.parametrize(
    ("from_event_id", "limit", "firsts", "more"),
    [
        (1, 2, [1, 1, 4], True),
        (3, 2, [1, 1, 4], True),
        (4, 2, [4, 9, 9], False),
        (6, 1, [4], True),
        (9, 1, [9, 9], False),
        (500, 1, [9, 9], False),
        (0, 9, [1, 1, 4, 9, 9], False),
    ],
)
async def test_history_is_paged_by_batches_never_cut_between_parts(
    store: Store, owner: Owner, from_event_id: int, limit: int, firsts: list[int], more: bool
) -> None:
    run = Run(SHARD)
    parts = [(9, 1), (1, 0), (1, 1), (4, 0), (9, 0)]
    await owner.commit(
        owner.batch(history=[HistoryRow(SHARD, run.run_id, *part, b"x") for part in parts])
    )

    page = await store.load_history(SHARD, run.run_id, from_event_id, limit)

    assert [row.first_event_id for row in page.rows] == firsts
    assert [(row.first_event_id, row.part) for row in page.rows] == sorted(
        (row.first_event_id, row.part) for row in page.rows
    )
    assert page.more is more


async def test_what_the_archive_reads_of_many_runs(store: Store, owner: Owner) -> None:
    first, second, other = [Run(SHARD) for _ in range(3)]
    events = [
        HistoryRow(SHARD, first.run_id, n, part, b"%d" % n) for n in (1, 5) for part in (0, 1)
    ]
    lonely = HistoryRow(SHARD, second.run_id, 1, 0, b"1")
    unasked = HistoryRow(SHARD, other.run_id, 1, 0, b"1")
    listed = [listed_row(run, 2) for run in (first, second, other)]
    await owner.commit(owner.batch(history=[*reversed(events), lonely, unasked], visibility=listed))
    asked = [first.run_id, second.run_id, Run(SHARD).run_id]

    histories = await store.load_histories(SHARD, asked)

    assert [row for row in histories if row.run_id == first.run_id] == events
    assert [row for row in histories if row.run_id != first.run_id] == [lonely]
    assert isinstance(histories[0], HistoryRow)
    assert sorted(await store.load_listed_runs(SHARD, asked)) == sorted(listed[:2])
    assert await store.load_listed_runs(SHARD + 1, asked) == []
    assert await store.load_histories(SHARD, []) == []


async def test_the_history_of_nobody_is_empty(store: Store) -> None:
    page = await store.load_history(SHARD, Run(SHARD).run_id, 1, 10)

    assert (page.rows, page.more) == ([], False)


async def test_invariant_15_no_row_appears_below_what_a_reader_has_passed(
    store: Store, owner: Owner
) -> None:
    """Ids of a range are made by its owner alone: a late batch of an earlier range is refused, so
    the new owner's cursor, which begins behind its own reading, passes nothing by.
    """
    late = Run(SHARD)
    late_batch = owner.start_batch([late])
    successor = await Owner.take(store, [SHARD])
    passed = await store.load_tasks(SHARD, (0, 0), 100)

    with pytest.raises(FenceLost):
        await store.commit(late_batch)
    await successor.start([Run(SHARD)])

    before = {(row.queue_no, row.task_id) for row in passed}
    (new,) = [
        row
        for row in await store.load_tasks(SHARD, (0, 0), 100)
        if (row.queue_no, row.task_id) not in before
    ]
    assert (new.queue_no, new.task_id) > max(before, default=(0, 0))


async def test_a_read_sees_what_was_committed_before_it(store: Store, owner: Owner) -> None:
    for _ in range(20):
        (run,) = owner.runs(1)
        await owner.start([run])
        assert await store.load_run(run.shard_id, run.run_id, no_keys) is not None
