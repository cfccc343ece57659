"""The sweep deletes what is dead, under the fence, and never a row that is not."""

from __future__ import annotations

import pytest
from tests.conformance.owner import (
    QUEUE,
    Owner,
    Run,
    contents,
    head_row,
    inbox_row,
    new_id,
    task_row,
    timer_row,
)

from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.ports.store import FenceLost, GuardFailed, Store, Sweep

SHARD = 2


@pytest.fixture
async def run(owner: Owner) -> Run:
    """A run with tasks 1-4 (3 is live), timers at 10-40 µs (40 is live), inbox 1-3 (3 is live)."""
    run = Run(SHARD)
    await owner.commit(
        owner.batch(
            executions=[head_row(run, 1, 3, 1, inbox_done=2)],
            tasks=[task_row(run, n, 1 if n == 3 else ROW_GONE, 1) for n in (1, 2, 3, 4)],
            timers=[timer_row(run, n, n, 1 if n == 40 else ROW_GONE) for n in (10, 20, 30, 40)],
            inbox=[inbox_row(run, n) for n in (1, 2, 3)],
        )
    )
    return run


def a_sweep(owner: Owner) -> Sweep:
    return Sweep(
        batch_id=new_id(),
        fence=owner.fence(SHARD),
        task_keys=[],
        task_ranges=[],
        timer_keys=[],
        timer_range=None,
        inbox_keys=[],
    )


async def test_exact_keys_go(store: Store, owner: Owner, run: Run) -> None:
    sweep = a_sweep(owner)
    sweep.task_keys = [(QUEUE, 1), (QUEUE, 4), (QUEUE, 99)]
    sweep.timer_keys = [(10, 10), (20, 99)]
    sweep.inbox_keys = [(run.run_id, 1), (run.run_id, 2), (new_id(), 3)]

    assert await store.sweep(sweep) > 0

    assert [row.task_id for row in await store.load_tasks(SHARD, (0, 0), 9)] == [2, 3]
    assert [row.wake_us for row in await store.load_timers(SHARD, (0, 0), 99, 9)] == [20, 30, 40]
    (state,) = await store.read_fences([SHARD])
    assert (state.commit_seq, state.batch_id) == (3, sweep.batch_id)


async def test_ranges_are_half_open(store: Store, owner: Owner, run: Run) -> None:
    sweep = a_sweep(owner)
    sweep.task_keys = [(QUEUE, 4)]
    sweep.task_ranges = [(QUEUE, 1, 3), (QUEUE + 1, 0, 1_000)]
    sweep.timer_range = (10, 30)

    await store.sweep(sweep)

    assert [row.task_id for row in await store.load_tasks(SHARD, (0, 0), 9)] == [3]
    assert [row.wake_us for row in await store.load_timers(SHARD, (0, 0), 99, 9)] == [30, 40]


async def test_the_end_of_the_timer_range_is_the_mark_and_never_goes_back(
    store: Store, owner: Owner, run: Run
) -> None:
    marks = []
    for timer_range in ((0, 30), (0, 20), None):
        sweep = a_sweep(owner)
        sweep.timer_range = timer_range
        await store.sweep(sweep)
        owner.fences[SHARD].commit_seq += 1
        marks.append([shard.timer_mark_us for shard in await store.list_shards()])

    assert marks == [[0, 30, 0, 0]] * 3


@pytest.mark.parametrize("live", ["task", "task range", "timer", "timer range", "inbox"])
async def test_invariant_14_a_live_row_is_never_deleted(
    store: Store, owner: Owner, run: Run, live: str
) -> None:
    sweep = a_sweep(owner)
    sweep.task_keys = [(QUEUE, 1)]
    sweep.timer_keys = [(10, 10)]
    sweep.inbox_keys = [(run.run_id, 1)]
    if live == "task":
        sweep.task_keys.append((QUEUE, 3))
    elif live == "task range":
        sweep.task_ranges = [(QUEUE, 2, 5)]
    elif live == "timer":
        sweep.timer_keys.append((40, 40))
    elif live == "timer range":
        sweep.timer_range = (0, 41)
    else:
        sweep.inbox_keys.append((run.run_id, 3))
    before = await contents(store, [run])

    with pytest.raises(GuardFailed):
        await store.sweep(sweep)

    assert await contents(store, [run]) == before


async def test_invariant_25_a_sweep_is_fenced(store: Store, owner: Owner, run: Run) -> None:
    sweep = a_sweep(owner)
    sweep.task_keys = [(QUEUE, 1)]
    sweep.timer_range = (0, 30)
    sweep.inbox_keys = [(run.run_id, 1)]
    await Owner.take(store, [SHARD])
    before = await contents(store, [run])

    with pytest.raises(FenceLost):
        await store.sweep(sweep)

    assert await contents(store, [run]) == before


async def test_the_inbox_of_a_run_that_was_deleted_may_go(store: Store, owner: Owner) -> None:
    orphan = Run(SHARD)
    await owner.commit(owner.batch(inbox=[inbox_row(orphan, 1)]))
    sweep = a_sweep(owner)
    sweep.inbox_keys = [(orphan.run_id, 1)]

    await store.sweep(sweep)


async def test_another_shards_rows_are_out_of_reach(store: Store, owner: Owner, run: Run) -> None:
    elsewhere = Run(1)
    await owner.commit(owner.batch(tasks=[task_row(elsewhere, 1, ROW_GONE, 1)]))
    sweep = a_sweep(owner)
    sweep.task_keys = [(QUEUE, 1)]

    await store.sweep(sweep)

    assert [row.task_id for row in await store.load_tasks(1, (0, 0), 9)] == [1]
