"""ListJobs: job runs by their scheduled time, or archived ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobInfo
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import refusals_of_archive, require_archive
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_rows import failure_type_of, info_of
from perdure_engine.frontend.reading import read_page
from perdure_engine.frontend.seal import page_scope
from perdure_engine.ports.archive import ArchivedJob, ArchivedJobFilter, ArchivePlace
from perdure_engine.ports.jobs import JobFilter

STATUSES = frozenset(JobStatus)
# Read at once while a type of failure is looked for, which stands in the jobs' states.
LOOKED_THROUGH = 500


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
    """Up to where the page before has looked."""

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

    async def read(past: Last | None, limit: int) -> tuple[list[tuple[Last, JobInfo]], Last | None]:
        limit = LOOKED_THROUGH if asked.failure_type else limit
        page = await frontend.jobs.list_jobs(
            asked.where, _key(past), limit, oldest_first=asked.oldest_first
        )
        infos = [info_of(frontend, row) for row in page.rows]
        fitting = [
            (Last(info.scheduled_us, info.job_id), info)
            for info in infos
            if asked.failure_type in ("", failure_type_of(info))
        ]
        return fitting, None if page.end is None else Last(*page.end)

    shown, past = await read_page(frontend.clock, read, past, size)
    return JobsPage(shown, b"" if past is None else frontend.sealer.seal_page(past, scope))


async def all_jobs(frontend: Frontend, asked: ListJobs) -> AsyncGenerator[JobInfo, None]:
    """All that the filter finds but for the type of failure, read in pages."""
    past: tuple[int, bytes] | None = None
    while True:
        page = await frontend.jobs.list_jobs(
            asked.where, past, limits.PAGE_SIZE_MAX, oldest_first=asked.oldest_first
        )
        for row in page.rows:
            yield info_of(frontend, row)
        past = page.end
        if past is None:
            return


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
