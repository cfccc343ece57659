"""What the engine tells of jobs: in lists, at length in a description, and how they ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from perdure._failure_info import FailureInfo
from perdure._jobs import DEFAULT_RETRY_POLICY, Concurrency, ConcurrencyPolicy, JobStatus
from perdure._wire.failures import failure_from_message
from perdure._wire.payloads import payloads_from_bytes
from perdure._wire.policies import (
    duration_from_ms,
    instant_from_us,
    instant_to_us,
    retry_policy_from_message,
)
from perdure.common import RetryPolicy
from perdure.converter import Payload
from perdure_api.v1 import job_service_pb2 as pb


@dataclass(frozen=True, kw_only=True)
class JobInfo:
    """One job run, as lists show it. Lists are never stale. A text that is empty is not set."""

    id: str
    task_name: str
    queue: str
    status: JobStatus | None
    """None: one that this SDK does not know yet."""
    attempt: int
    user_id: str
    schedule_id: str
    batch_id: str
    create_time: datetime | None
    scheduled_time: datetime | None
    """When it is, or was, to start first."""
    next_attempt_time: datetime | None
    """Of one that waits for its time."""
    start_time: datetime | None
    """Of the last attempt that is known to have started."""
    close_time: datetime | None
    priority: int
    """1 (first) to 5."""
    idempotency_key: str
    unique_key: str
    concurrency_key: str
    reason: str
    """Why it was skipped, cancelled or suspended, or waits."""
    failure_type: str
    """Of the last failure: an application failure's type, or the kind's name."""
    failure_message: str
    """Its beginning."""
    crashes: int = 0
    """How many workers in a row have died with it in hand; from 3 on it is poisoned."""
    first_crash_time: datetime | None = None
    """Kept until it succeeds."""
    archived: bool = False
    """It was over its retention and has left the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """One attempt that failed."""

    attempt: int
    time: datetime | None
    worker_identity: str
    failure: FailureInfo


@dataclass(frozen=True, kw_only=True)
class JobDescription(JobInfo):
    """One job run, with everything that is kept of it."""

    args: Sequence[Any]
    """Decoded without type hints, as `result` and `progress` are."""
    result: Any
    progress: Sequence[Any]
    failures: Sequence[JobFailure]
    """Oldest first; the last 100 at most."""
    timeout: timedelta | None
    retry_policy: RetryPolicy
    worker_identity: str
    """Of the last attempt that is known to have started."""
    cancel_requested: bool
    expire_time: datetime | None
    concurrency: Concurrency | None
    last_crash: FailureInfo | None = None
    """Its `stack_trace` is the report of the supervisor of the process that died."""


@dataclass(frozen=True, slots=True)
class JobCount:
    count: int
    by_status: Mapping[JobStatus, int]
    """None that no job has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBatchInfo:
    """How far a batch of jobs is."""

    id: str
    total: int
    open: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    sealed: bool
    """No further jobs come."""
    callback_job_id: str
    """Empty: there is none, or it is not made yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list, count or redrive. What is left out does not restrict."""

    user_id: str = ""
    statuses: Sequence[JobStatus] = ()
    task_name: str = ""
    queue: str = ""
    schedule_id: str = ""
    batch_id: str = ""
    scheduled_time_min: datetime | None = None
    """Inclusive."""
    scheduled_time_max: datetime | None = None
    """Exclusive."""
    failure_type: str = ""


_STATUSES = {int(status): status for status in JobStatus}
_CONCURRENCY_POLICIES = {int(policy): policy for policy in ConcurrencyPolicy}


def status_from_number(number: int) -> JobStatus | None:
    return _STATUSES.get(number)


def info_from_message(message: pb.JobInfo) -> JobInfo:
    return JobInfo(**_info_fields(message))


def description_from_message(
    message: pb.JobDetails, decode: Callable[[Payload], Any]
) -> JobDescription:
    def values(data: bytes) -> list[Any]:
        return [decode(one) for one in payloads_from_bytes(data)]

    return JobDescription(
        **_info_fields(message.info),
        args=values(message.input),
        result=next(iter(values(message.result)), None),
        progress=values(message.progress),
        failures=[_failure(one) for one in message.failures],
        timeout=duration_from_ms(message.timeout_ms),
        retry_policy=(
            retry_policy_from_message(message.retry_policy)
            if message.HasField("retry_policy")
            else DEFAULT_RETRY_POLICY
        ),
        worker_identity=message.worker_identity,
        cancel_requested=message.cancel_requested,
        expire_time=instant_from_us(message.expire_time_us),
        concurrency=_concurrency(message.concurrency) if message.HasField("concurrency") else None,
        last_crash=(
            failure_from_message(message.last_crash) if message.HasField("last_crash") else None
        ),
    )


def _info_fields(message: pb.JobInfo) -> dict[str, Any]:
    return {
        "id": message.job_id,
        "task_name": message.task_name,
        "queue": message.task_queue,
        "status": _STATUSES.get(message.status),
        "attempt": message.attempt,
        "user_id": message.user_id,
        "schedule_id": message.schedule_id,
        "batch_id": message.batch_id,
        "create_time": instant_from_us(message.create_time_us),
        "scheduled_time": instant_from_us(message.scheduled_time_us),
        "next_attempt_time": instant_from_us(message.next_attempt_time_us),
        "start_time": instant_from_us(message.start_time_us),
        "close_time": instant_from_us(message.close_time_us),
        "priority": message.priority,
        "idempotency_key": message.idempotency_key,
        "unique_key": message.unique_key,
        "concurrency_key": message.concurrency_key,
        "reason": message.reason,
        "failure_type": message.failure_type,
        "failure_message": message.failure_message,
        "crashes": message.crashes,
        "first_crash_time": instant_from_us(message.first_crash_time_us),
        "archived": message.archived,
    }


def _failure(message: pb.JobFailure) -> JobFailure:
    return JobFailure(
        attempt=message.attempt,
        time=instant_from_us(message.time_us),
        worker_identity=message.identity,
        failure=failure_from_message(message.failure),
    )


def _concurrency(message: pb.Concurrency) -> Concurrency:
    return Concurrency(
        key=message.key,
        limit=message.limit or 1,
        policy=_CONCURRENCY_POLICIES.get(message.policy, ConcurrencyPolicy.QUEUE),
        rate_per_s=message.rate_per_s,
    )


def count_from_message(message: pb.CountJobsResponse) -> JobCount:
    by_status = {
        _STATUSES[one.status]: one.count for one in message.by_status if one.status in _STATUSES
    }
    return JobCount(message.count, by_status)


def batch_from_message(message: pb.GetJobBatchResponse) -> JobBatchInfo:
    return JobBatchInfo(
        id=message.batch_id,
        total=message.total,
        open=message.open,
        completed=message.completed,
        failed=message.failed,
        cancelled=message.cancelled,
        skipped=message.skipped,
        sealed=message.sealed,
        callback_job_id=message.callback_job_id,
    )


def filter_to_message(wanted: JobFilter) -> pb.JobFilter:
    return pb.JobFilter(
        user_id=wanted.user_id,
        statuses=[pb.JobStatus.ValueType(int(one)) for one in wanted.statuses],
        task_name=wanted.task_name,
        task_queue=wanted.queue,
        schedule_id=wanted.schedule_id,
        batch_id=wanted.batch_id,
        start_time_us=instant_to_us(wanted.scheduled_time_min),
        end_time_us=instant_to_us(wanted.scheduled_time_max),
        failure_type=wanted.failure_type,
    )
