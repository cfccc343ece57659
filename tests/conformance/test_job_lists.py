"""Lists and counts of jobs: the same on both stores, whatever is asked for."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.conformance.jobs import COMPLETED, FAILED, PENDING, POISONED, SUSPENDED, job_row
from tests.conformance.owner import NAMESPACE, START_US, Owner, new_id

from perdure_engine.ports.jobs import (
    LISTED_SPEC_BYTES_MAX,
    LISTED_STATES_BYTES_MAX,
    JobFilter,
    JobPage,
)
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import Store

SHARDS = (1, 2, 3, 4)


@pytest.fixture
async def rows(owner: Owner) -> list[JobRunRow]:
    """In no order: each name, status and time with each other, some times twice, in all shards."""
    users, schedules, tasks = ("", "anna", "ben"), ("", "daily"), ("mail", "report")
    made = [
        job_row(
            SHARDS[number % 4],
            user_id=user,
            schedule_id=schedule,
            task_name=task,
            queue="q" if number % 3 else "other",
            batch_id="nightly" if number % 5 == 0 else "",
            status=status,
            scheduled_us=START_US + number * 7 % 48,
        )
        for number, (user, schedule, task, status) in enumerate(
            itertools.product(users, schedules, tasks, range(1, 10))
        )
    ]
    other = job_row(1, namespace_id=new_id(), user_id="anna", status=FAILED, task_name="mail")
    await owner.commit(owner.batch(job_runs=[*made, other]))
    return made


LISTED_STATUSES: tuple[tuple[int, ...], ...] = (
    *((), (FAILED,), (PENDING, COMPLETED), (COMPLETED, COMPLETED)),
    *((FAILED, POISONED, SUSPENDED), (POISONED,)),
)


def filters() -> Iterator[JobFilter]:
    for user, schedule, task in itertools.product(("", "anna"), ("", "daily"), ("", "mail")):
        for statuses in LISTED_STATUSES:
            yield JobFilter(NAMESPACE, user, statuses, task, schedule_id=schedule)
    yield JobFilter(NAMESPACE, queue="other")
    yield JobFilter(NAMESPACE, batch_id="nightly", statuses=(FAILED,))
    yield JobFilter(NAMESPACE, user_id="anna", queue="q", batch_id="nightly")
    yield JobFilter(NAMESPACE, from_us=START_US + 10, to_us=START_US + 20)
    yield JobFilter(NAMESPACE, user_id="ben", from_us=START_US + 10)
    yield JobFilter(NAMESPACE, schedule_id="daily", to_us=START_US + 20, statuses=(PENDING,))
    yield JobFilter(NAMESPACE, user_id="nobody")
    yield JobFilter(bytes(15) + b"\x09")


def wanted(rows: list[JobRunRow], where: JobFilter) -> list[JobRunRow]:
    return [
        row
        for row in rows
        if row.namespace_id == where.namespace_id
        and where.user_id in ("", row.user_id)
        and (not where.statuses or row.status in where.statuses)
        and where.task_name in ("", row.task_name)
        and where.queue in ("", row.queue)
        and where.schedule_id in ("", row.schedule_id)
        and where.batch_id in ("", row.batch_id)
        and row.scheduled_us >= where.from_us
        and row.scheduled_us < (where.to_us or START_US * 2)
    ]


async def pages(
    store: Store, where: JobFilter, limit: int, *, look: int, oldest_first: bool = False
) -> list[JobPage]:
    found: list[JobPage] = []
    while not found or found[-1].end is not None:
        past = found[-1].end if found else None
        page = await store.list_jobs(where, past, limit, oldest_first=oldest_first, look=look)
        assert len(page.rows) <= limit
        found.append(page)
    return found


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("look", [1, 3, 512])
async def test_a3_each_filter_in_pages(
    store: Store, rows: list[JobRunRow], oldest_first: bool, look: int
) -> None:
    """However far the store looks for a page: each job once, in order."""
    for where in filters():
        listed = await pages(store, where, 7, look=look, oldest_first=oldest_first)
        found = [row for page in listed for row in page.rows]

        in_order = sorted(
            wanted(rows, where),
            key=lambda row: (row.scheduled_us, row.job_id),
            reverse=not oldest_first,
        )
        assert found == in_order, where


async def test_a3_each_filter_counted(store: Store, rows: list[JobRunRow]) -> None:
    for where in filters():
        counted = Counter(row.status for row in wanted(rows, where))

        assert await store.count_jobs(where) == sorted(counted.items()), where


async def test_a_list_is_not_weighed_down(store: Store, owner: Owner) -> None:
    """By what a job was given or gave back: a page of thousand has some megabytes at most."""
    small = job_row(spec=b"s" * LISTED_SPEC_BYTES_MAX, result=b"r", status=COMPLETED)
    large = job_row(spec=b"s" * (LISTED_SPEC_BYTES_MAX + 1), state=b"t" * 9_000)
    await owner.commit(owner.batch(job_runs=[small, large]))

    page = await store.list_jobs(JobFilter(NAMESPACE), None, 9, oldest_first=True)

    assert page.end is None
    assert page.rows == [small._replace(result=b""), large._replace(spec=b"")]
    assert await store.load_jobs(1, [large.job_id]) == [large]


async def test_a_page_of_heavy_jobs_is_short(store: Store, owner: Owner) -> None:
    """Of what is kept of their failures some megabytes at most, and one more job."""
    quarter = b"f" * (LISTED_STATES_BYTES_MAX // 4)
    heavy = [job_row(state=quarter, scheduled_us=START_US + number) for number in range(6)]
    await owner.commit(owner.batch(job_runs=heavy))

    for oldest_first in (True, False):
        first, second = await pages(
            store, JobFilter(NAMESPACE), 9, look=512, oldest_first=oldest_first
        )

        assert len(first.rows) == 4
        in_order = heavy if oldest_first else heavy[::-1]
        assert first.rows + second.rows == in_order


async def test_what_no_index_knows_is_looked_for_in_bounds(store: Store, owner: Owner) -> None:
    """A page may be empty while the jobs that it looks for are still to come."""
    common = [job_row(scheduled_us=START_US + number) for number in range(1, 40)]
    rare = job_row(scheduled_us=START_US, task_name="rare", queue="seldom")
    await owner.commit(owner.batch(job_runs=[*common, rare]))

    for where in (
        JobFilter(NAMESPACE, task_name="rare"),
        JobFilter(NAMESPACE, queue="seldom"),
        JobFilter(NAMESPACE, task_name="never"),
    ):
        listed = await pages(store, where, 5, look=10)

        assert [len(page.rows) for page in listed[:3]] == [0, 0, 0]
        found = [row for page in listed for row in page.rows]
        assert found == ([] if where.task_name == "never" else [rare])
