"""What is over of jobs and schedules is deleted under the fence, and never what is not."""

from __future__ import annotations

import pytest
from tests.conformance.jobs import (
    CANCELLED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    NO_JOB,
    OPEN,
    PENDING,
    RETRY,
    batch_row,
    job_contents,
    job_row,
    jobs_of,
    key_row,
    schedule_row,
    slot_row,
)
from tests.conformance.owner import NAMESPACE, START_US, Owner, new_id

from perdure_engine.ports.jobs import LISTED_SPEC_BYTES_MAX, ClosedJob
from perdure_engine.ports.rows import JobBatchRow, ScheduleSlotRow
from perdure_engine.ports.store import FenceLost, GuardFailed, JobRemoval, Store, Sweep

SHARD = 2


def a_removal(owner: Owner, *job_ids: bytes) -> JobRemoval:
    return JobRemoval(new_id(), owner.fence(SHARD), list(job_ids))


def a_sweep(owner: Owner) -> Sweep:
    return Sweep(new_id(), owner.fence(SHARD), [], [], [], None, [])


# ---- the removal


async def test_ended_jobs_go_with_the_keys_that_name_them(store: Store, owner: Owner) -> None:
    gone = [job_row(SHARD, status=status) for status in (COMPLETED, FAILED, CANCELLED)]
    stays, running = job_row(SHARD, status=COMPLETED), job_row(SHARD, status=IN_PROGRESS)
    elsewhere = job_row(1, status=COMPLETED, job_id=gone[0].job_id)
    keys = [
        key_row("mine", gone[0].job_id, shard_id=SHARD),
        key_row("taken since", running.job_id, shard_id=SHARD),
        key_row("free", NO_JOB, shard_id=SHARD),
        key_row("mine", gone[0].job_id),
    ]
    await owner.commit(owner.batch(job_runs=[*gone, stays, running, elsewhere], job_keys=keys))
    removal = a_removal(owner, *(row.job_id for row in gone), new_id())
    removal.keys = [
        (NAMESPACE, 1, "mine", gone[0].job_id),
        (NAMESPACE, 1, "taken since", gone[1].job_id),
        (NAMESPACE, 1, "free", gone[2].job_id),
        (NAMESPACE, 1, "never there", gone[2].job_id),
    ]

    assert await store.remove_jobs(removal) > 0

    (state,) = await store.read_fences([SHARD])
    assert state.batch_id == removal.batch_id
    assert state.commit_seq == removal.fence.commit_seq + 1
    left = [stays, running, elsewhere]
    assert await jobs_of(store, [*gone, *left]) == left
    asked = [(row.shard_id, NAMESPACE, 1, row.key) for row in keys]
    assert sorted(await store.load_job_keys(asked)) == sorted(keys[1:])


@pytest.mark.parametrize("status", OPEN)
async def test_invariant_57_an_open_job_is_never_removed(
    store: Store, owner: Owner, status: int
) -> None:
    ended, open_ = job_row(SHARD, status=COMPLETED), job_row(SHARD, status=status)
    key = key_row("report", open_.job_id, shard_id=SHARD)
    await owner.commit(owner.batch(job_runs=[ended, open_], job_keys=[key]))
    removal = a_removal(owner, ended.job_id, open_.job_id)
    removal.keys = [(NAMESPACE, 1, "report", open_.job_id)]
    before = await job_contents(store)

    with pytest.raises(GuardFailed):
        await store.remove_jobs(removal)

    assert await job_contents(store) == before


async def test_batches_and_slots_go_by_key(store: Store, owner: Owner) -> None:
    batches = [batch_row(name, SHARD, open=0, sealed=True) for name in ("a", "b")]
    slots = [
        slot_row("daily", START_US + nominal, SHARD, origin=origin)
        for nominal, origin in ((0, 1), (0, 2), (5, 1))
    ]
    elsewhere = [slot_row("daily", START_US)]
    await owner.commit(owner.batch(job_batches=batches, schedule_slots=[*slots, *elsewhere]))
    removal = a_removal(owner)
    removal.batches = [(NAMESPACE, "a"), (NAMESPACE, "never there")]
    removal.slots = [(NAMESPACE, "daily", START_US, 1), (NAMESPACE, "daily", START_US + 5, 1)]

    await store.remove_jobs(removal)

    assert await store.load_job_batches(SHARD, (bytes(16), ""), 9) == batches[1:]
    assert await store.load_slots(SHARD, (bytes(16), "", 0, 0), 9) == [slots[1]]
    assert await store.load_slots(1, (bytes(16), "", 0, 0), 9) == elsewhere


@pytest.mark.parametrize(
    "row",
    [
        batch_row("a", SHARD, open=1, sealed=True),
        batch_row("a", SHARD, open=0, sealed=False),
        slot_row("daily", START_US, SHARD, outcome=1),
        slot_row("daily", START_US, SHARD, outcome=7),
    ],
    ids=["open", "not sealed", "firing", "buffered"],
)
async def test_what_has_not_ended_is_never_removed(
    store: Store, owner: Owner, row: JobBatchRow | ScheduleSlotRow
) -> None:
    removal = a_removal(owner)
    if isinstance(row, JobBatchRow):
        await owner.commit(owner.batch(job_batches=[row]))
        removal.batches = [(NAMESPACE, "a")]
    else:
        await owner.commit(owner.batch(schedule_slots=[row]))
        removal.slots = [(NAMESPACE, "daily", START_US, 1)]
    removal.fence = owner.fence(SHARD)
    before = await job_contents(store)

    with pytest.raises(GuardFailed):
        await store.remove_jobs(removal)

    assert await job_contents(store) == before


async def test_invariant_25_a_removal_is_fenced(store: Store, owner: Owner) -> None:
    ended = job_row(SHARD, status=COMPLETED)
    await owner.commit(owner.batch(job_runs=[ended]))
    removal = a_removal(owner, ended.job_id)
    await Owner.take(store, [SHARD])

    with pytest.raises(FenceLost):
        await store.remove_jobs(removal)

    assert await jobs_of(store, [ended]) == [ended]


async def test_ended_jobs_are_read_in_pages_of_rows(store: Store, owner: Owner) -> None:
    states = (PENDING, COMPLETED, IN_PROGRESS, RETRY, FAILED)
    rows = [job_row(SHARD, status=status, spec=b"%d" % status) for status in states]
    await owner.commit(owner.batch(job_runs=[*rows, job_row(1, status=COMPLETED)]))

    found: list[ClosedJob] = []
    after: bytes | None = bytes(16)
    pages = 0
    while after is not None:
        page = await store.load_closed_jobs(SHARD, after, 2)
        found += page.jobs
        after, pages = page.last_job_id, pages + 1

    assert pages == 3
    assert [(job.job_id, job.namespace_id, job.closed_us, job.spec) for job in found] == [
        (row.job_id, NAMESPACE, row.closed_us, row.spec) for row in (rows[1], rows[4])
    ]


async def test_a_page_of_ended_jobs_is_not_weighed_down(store: Store, owner: Owner) -> None:
    """It says how much they are, and leaves out what is large."""
    small = job_row(SHARD, status=COMPLETED, spec=b"s" * LISTED_SPEC_BYTES_MAX, result=b"r" * 9)
    large = job_row(SHARD, status=FAILED, spec=b"s" * (LISTED_SPEC_BYTES_MAX + 1), state=b"t" * 7)
    await owner.commit(owner.batch(job_runs=[small, large]))

    page = await store.load_closed_jobs(SHARD, bytes(16), 9)

    assert {(job.job_id, job.spec, job.row_bytes) for job in page.jobs} == {
        (row.job_id, spec, len(row.spec) + len(row.state) + len(row.result))
        for row, spec in ((small, small.spec), (large, b""))
    }


async def test_batches_and_slots_of_a_shard_in_pages(store: Store, owner: Owner) -> None:
    batches = [batch_row(name, SHARD) for name in ("a", "b", "c")]
    slots = [
        slot_row(name, START_US + nominal, SHARD, origin=origin)
        for name in ("a", "b")
        for nominal, origin in ((0, 1), (0, 2), (5, 1))
    ]
    await owner.commit(owner.batch(job_batches=batches, schedule_slots=slots))

    assert await store.load_job_batches(SHARD, (bytes(16), ""), 2) == batches[:2]
    assert await store.load_job_batches(SHARD, (NAMESPACE, "b"), 2) == batches[2:]
    found: list[ScheduleSlotRow] = []
    after = (bytes(16), "", 0, 0)
    while page := await store.load_slots(SHARD, after, 2):
        found += page
        last = page[-1]
        after = (last.namespace_id, last.schedule_id, last.nominal_us, last.origin)
    assert found == slots


# ---- the sweep


async def test_a_schedule_that_is_gone_is_swept(store: Store, owner: Owner) -> None:
    await owner.commit(owner.batch(schedules=[schedule_row(name, SHARD) for name in ("a", "b")]))
    gone = schedule_row("a", SHARD, version=-1, gone=True)
    await owner.commit(owner.batch(schedules=[gone]))
    sweep = a_sweep(owner)
    sweep.schedules = [(NAMESPACE, "a"), (NAMESPACE, "never there")]

    await store.sweep(sweep)

    assert await store.load_schedules(SHARD, None, 9) == [schedule_row("b", SHARD)]


async def test_what_is_made_anew_before_the_sweep_is_not_swept(store: Store, owner: Owner) -> None:
    """A schedule of the same id: the sweep was told of what was before."""
    await owner.commit(owner.batch(schedules=[schedule_row("a", SHARD, gone=True)]))
    await owner.commit(owner.batch(schedules=[schedule_row("a", SHARD, version=-1)]))
    before = await job_contents(store)
    sweep = a_sweep(owner)
    sweep.schedules = [(NAMESPACE, "a")]

    with pytest.raises(GuardFailed):
        await store.sweep(sweep)

    assert await job_contents(store) == before
    assert [row.schedule_id for row in await store.list_schedules(NAMESPACE, "", "", "", 9)] == [
        "a"
    ]
