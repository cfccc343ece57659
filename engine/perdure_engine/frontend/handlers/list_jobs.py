"""ListJobs: job runs by their scheduled time, or archived ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobInfo
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import refusals_of_archive, require_archive
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_rows import failure_type_of, info_of
from perdure_engine.frontend.seal import page_scope
from perdure_engine.ports.archive import ArchivedJob, ArchivedJobFilter, ArchivePlace
from perdure_engine.ports.jobs import JobFilter

STATUSES = frozenset(JobStatus)
# Of one call that looks for a type of failure, which no index knows: what it has not seen by then is the next page's.
ROWS_READ_MAX = 10_000


class ListJobs(msgspec.Struct, frozen=True, kw_only=True):
    """`failure_type`: of the last failure; '' is any."""

    where: JobFilter
    failure_type: str = ""
    page_size: int = 0
    page_token: bytes = b""
    oldest_first: bool = False
    archived: bool = False


class JobsPage(msgspec.Struct, frozen=True):
    jobs: list[JobInfo]
    next_page_token: bytes


class ArchivedJobsPage(msgspec.Struct, frozen=True):
    jobs: list[ArchivedJob]
    next_page_token: bytes


class Last(msgspec.Struct, frozen=True, array_like=True):
    """The last row that the page before has read."""

    scheduled_us: int
    job_id: bytes


async def list_archived_jobs(frontend: Frontend, asked: ListJobs) -> ArchivedJobsPage:
    """By the day of their end, the newest first. A page may be empty and have a token."""
    check_filter(asked.where, asked.failure_type)
    archive = require_archive(frontend)
    size = checks.page_size("page_size", asked.page_size)
    if asked.oldest_first:
        raise invalid("oldest_first", "archived jobs are listed by the day of their end")
    where = ArchivedJobFilter(asked.where, asked.failure_type)
    scope = page_scope(b"list_archived_jobs", where)
    past: ArchivePlace | None = None
    if asked.page_token:
        past = frontend.sealer.open_page("page_token", asked.page_token, scope, ArchivePlace)
    with refusals_of_archive():
        page = await archive.list_jobs(where, past, size)
    token = b"" if page.end is None else frontend.sealer.seal_page(page.end, scope)
    return ArchivedJobsPage([job for job, _ in page.rows], token)


async def list_jobs(frontend: Frontend, asked: ListJobs) -> JobsPage:
    """A page may have fewer jobs than asked for, and even none, while its token says that there may be more."""
    check_filter(asked.where, asked.failure_type)
    size = checks.page_size("page_size", asked.page_size)
    scope = page_scope(b"list_jobs", (asked.where, asked.failure_type, asked.oldest_first))
    past: Last | None = None
    if asked.page_token:
        past = frontend.sealer.open_page("page_token", asked.page_token, scope, Last)
    if asked.failure_type:
        shown, past = await _looked_through(frontend, asked, size, past)
    else:
        rows = await frontend.jobs.list_jobs(
            asked.where, _key(past), size + 1, oldest_first=asked.oldest_first
        )
        shown = [info_of(frontend, row) for row in rows[:size]]
        past = _last(shown[-1]) if len(rows) > size else None
    return JobsPage(shown, b"" if past is None else frontend.sealer.seal_page(past, scope))


async def _looked_through(
    frontend: Frontend, asked: ListJobs, size: int, past: Last | None
) -> tuple[list[JobInfo], Last | None]:
    """The jobs with that failure among the next rows, and how far it was read; None: to the end."""
    shown: list[JobInfo] = []
    read = 0
    async with aclosing(all_jobs(frontend, asked, past)) as found:
        async for info in found:
            read += 1
            if failure_type_of(info) == asked.failure_type:
                shown.append(info)
            if len(shown) == size or read == ROWS_READ_MAX:
                return shown, _last(info)
    return shown, None


async def all_jobs(
    frontend: Frontend, asked: ListJobs, past: Last | None = None
) -> AsyncGenerator[JobInfo, None]:
    """All that the filter finds but for the type of failure, read in pages."""
    while True:
        rows = await frontend.jobs.list_jobs(
            asked.where, _key(past), limits.PAGE_SIZE_MAX, oldest_first=asked.oldest_first
        )
        for row in rows:
            yield info_of(frontend, row)
        if len(rows) < limits.PAGE_SIZE_MAX:
            return
        past = Last(rows[-1].scheduled_us, rows[-1].job_id)


def check_filter(where: JobFilter, failure_type: str = "") -> None:
    for index, status in enumerate(where.statuses):
        if status not in STATUSES:
            raise invalid(f"filter.statuses[{index}]", "is not a status")
    if where.task_name:
        checks.type_name("filter.task_name", where.task_name)
    checks.label("filter.user_id", where.user_id)
    checks.label("filter.task_queue", where.queue)
    checks.label("filter.schedule_id", where.schedule_id)
    checks.label("filter.batch_id", where.batch_id)
    checks.instant("filter.start_time_us", where.from_us)
    checks.instant("filter.end_time_us", where.to_us)
    checks.label("filter.failure_type", failure_type)


def _key(last: Last | None) -> tuple[int, bytes] | None:
    return None if last is None else (last.scheduled_us, last.job_id)


def _last(info: JobInfo) -> Last:
    return Last(info.scheduled_us, info.job_id)
