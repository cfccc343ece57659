"""Many jobs at once: lists, counts, and failed ones begun anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from perdure._client.core import ClientCore
from perdure._client.paging import read_pages
from perdure._jobs import JobStatus
from perdure._wire.job_info import JobCount, JobFilter, JobInfo

_PAGE_SIZE = 100
_PAGE_SIZE_MAX = 1_000


class JobLists:
    """The part of `Jobs` that is about many."""

    _core: ClientCore

    def list(
        self,
        *,
        user_id: str = "",
        status: JobStatus | Sequence[JobStatus] = (),
        task_name: str = "",
        queue: str = "",
        schedule_id: str = "",
        batch_id: str = "",
        scheduled_time_min: datetime | None = None,
        scheduled_time_max: datetime | None = None,
        failure_type: str = "",
        oldest_first: bool = False,
        archived: bool = False,
        limit: int | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> AsyncIterator[JobInfo]:
        """Jobs that fit every filter given, newest scheduled time first, fetched as they are read.

        Times are from `scheduled_time_min`, inclusive, to `scheduled_time_max`, exclusive.
        `failure_type` is that of the last failure. `rpc_timeout` is each page's.

        `archived`: instead those that were over their retention and have left the tables, by the day
        of their end, the newest first. FAILED_PRECONDITION: the installation has no archive.
        """
        core = self._core
        wanted = _filter(
            *(user_id, status, task_name, queue, schedule_id, batch_id),
            *(scheduled_time_min, scheduled_time_max, failure_type),
        )
        page = partial(
            core.job_service.list,
            *(core.namespace, wanted),
            oldest_first=oldest_first,
            archived=archived,
        )
        page_size = _PAGE_SIZE if limit is None else _PAGE_SIZE_MAX
        return read_pages(core, page, page_size, limit, rpc_timeout)

    async def count(
        self,
        *,
        user_id: str = "",
        status: JobStatus | Sequence[JobStatus] = (),
        task_name: str = "",
        queue: str = "",
        schedule_id: str = "",
        batch_id: str = "",
        scheduled_time_min: datetime | None = None,
        scheduled_time_max: datetime | None = None,
        failure_type: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> JobCount:
        """How many jobs a list would show, in all and of each status."""
        core = self._core
        wanted = _filter(
            *(user_id, status, task_name, queue, schedule_id, batch_id),
            *(scheduled_time_min, scheduled_time_max, failure_type),
        )
        return await core.unary(
            partial(core.job_service.count, core.namespace, wanted), rpc_timeout
        )

    async def redrive(
        self,
        ids: Sequence[str] = (),
        *,
        task_name: str = "",
        queue: str = "",
        user_id: str = "",
        schedule_id: str = "",
        batch_id: str = "",
        scheduled_time_min: datetime | None = None,
        scheduled_time_max: datetime | None = None,
        failure_type: str = "",
        reason: str = "",
        dry_run: bool = False,
        rpc_timeout: timedelta | None = None,
    ) -> int:
        """Failed jobs begin anew, with all their attempts; what failed stays on them.

        These, or all failed ones that fit every filter given. Returns how many; with `dry_run` how
        many it would be.
        """
        core = self._core
        wanted = _filter(
            *(user_id, (), task_name, queue, schedule_id, batch_id),
            *(scheduled_time_min, scheduled_time_max, failure_type),
        )
        if ids and wanted != JobFilter():
            raise ValueError("give ids or filters, not both")
        redrive = partial(
            core.job_service.redrive,
            *(core.namespace, ids, wanted),
            dry_run=dry_run,
            identity=core.identity,
            reason=reason,
            request_id=core.surroundings.new_uuid(),
        )
        return await core.unary(redrive, rpc_timeout)


def _filter(
    user_id: str,
    status: JobStatus | Sequence[JobStatus],
    task_name: str,
    queue: str,
    schedule_id: str,
    batch_id: str,
    scheduled_time_min: datetime | None,
    scheduled_time_max: datetime | None,
    failure_type: str,
) -> JobFilter:
    return JobFilter(
        user_id=user_id,
        statuses=(status,) if isinstance(status, JobStatus) else tuple(status),
        task_name=task_name,
        queue=queue,
        schedule_id=schedule_id,
        batch_id=batch_id,
        scheduled_time_min=scheduled_time_min,
        scheduled_time_max=scheduled_time_max,
        failure_type=failure_type,
    )
