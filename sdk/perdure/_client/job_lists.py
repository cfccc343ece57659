"""Many jobs at once: lists, counts, and dead letters begun anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from perdure._client import job_calls
from perdure._client.core import ClientCore
from perdure._client.job_inputs import CountJobsInput, ListJobsInput, RedriveJobsInput
from perdure._jobs import JobStatus
from perdure._wire.job_info import JobCount, JobInfo


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
        asked = ListJobsInput(
            user_id=user_id,
            status=status,
            task_name=task_name,
            queue=queue,
            schedule_id=schedule_id,
            batch_id=batch_id,
            scheduled_time_min=scheduled_time_min,
            scheduled_time_max=scheduled_time_max,
            failure_type=failure_type,
            rpc_timeout=rpc_timeout,
            oldest_first=oldest_first,
            archived=archived,
            limit=limit,
        )
        outbound = self._core.outbound
        if outbound is None:
            return job_calls.list_jobs(self._core, asked)
        return outbound.list_jobs(asked)

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
        asked = CountJobsInput(
            user_id=user_id,
            status=status,
            task_name=task_name,
            queue=queue,
            schedule_id=schedule_id,
            batch_id=batch_id,
            scheduled_time_min=scheduled_time_min,
            scheduled_time_max=scheduled_time_max,
            failure_type=failure_type,
            rpc_timeout=rpc_timeout,
        )
        outbound = self._core.outbound
        if outbound is None:
            return await job_calls.count(self._core, asked)
        return await outbound.count_jobs(asked)

    async def redrive(
        self,
        ids: Sequence[str] = (),
        *,
        status: JobStatus | Sequence[JobStatus] = (),
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
        """Failed, poisoned and suspended jobs begin anew, with all their attempts and no crash
        counted; what failed stays on them.

        These, or all that fit every filter given; `status` restricts to some of the three. Returns
        how many; with `dry_run` how many it would be.
        """
        asked = RedriveJobsInput(
            ids=ids,
            status=status,
            user_id=user_id,
            task_name=task_name,
            queue=queue,
            schedule_id=schedule_id,
            batch_id=batch_id,
            scheduled_time_min=scheduled_time_min,
            scheduled_time_max=scheduled_time_max,
            failure_type=failure_type,
            rpc_timeout=rpc_timeout,
            reason=reason,
            dry_run=dry_run,
        )
        outbound = self._core.outbound
        if outbound is None:
            return await job_calls.redrive(self._core, asked)
        return await outbound.redrive_jobs(asked)
