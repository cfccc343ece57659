"""What interceptors of a client see of what it asks about jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from perdure._jobs import JobStatus, NewJob
from perdure._payload import Payload

__all__ = [
    "CancelJobInput",
    "CountJobsInput",
    "CreateJobInput",
    "CreateJobsInput",
    "DescribeJobBatchInput",
    "DescribeJobInput",
    "GetJobResultInput",
    "ListJobsInput",
    "RedriveJobsInput",
    "RescheduleJobInput",
    "ResumeJobInput",
]


@dataclass(kw_only=True)
class CreateJobInput:
    job: NewJob[Any]
    headers: Mapping[str, Payload]
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class CreateJobsInput:
    """Of `create_many`, and with a `batch_id` of `batch`. All of them have the same headers."""

    jobs: Sequence[NewJob[Any]]
    headers: Mapping[str, Payload]
    rpc_timeout: timedelta | None
    batch_id: str | None = None
    callback: NewJob[Any] | None = None
    sealed: bool = True


@dataclass(kw_only=True)
class GetJobResultInput:
    id: str
    ret_type: Any
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DescribeJobInput:
    id: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class CancelJobInput:
    id: str
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class RescheduleJobInput:
    id: str
    run_at: datetime | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class ResumeJobInput:
    id: str
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DescribeJobBatchInput:
    id: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class JobsWanted:
    """The filters that the calls about many jobs share."""

    user_id: str
    task_name: str
    queue: str
    schedule_id: str
    batch_id: str
    scheduled_time_min: datetime | None
    scheduled_time_max: datetime | None
    failure_type: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class ListJobsInput(JobsWanted):
    status: JobStatus | Sequence[JobStatus]
    oldest_first: bool
    archived: bool
    limit: int | None


@dataclass(kw_only=True)
class CountJobsInput(JobsWanted):
    status: JobStatus | Sequence[JobStatus]


@dataclass(kw_only=True)
class RedriveJobsInput(JobsWanted):
    """`ids` or filters, not both."""

    ids: Sequence[str]
    status: JobStatus | Sequence[JobStatus]
    reason: str
    dry_run: bool
