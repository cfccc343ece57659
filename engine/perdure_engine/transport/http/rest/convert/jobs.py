"""Jobs: bodies to requests, what is known of jobs to bodies.

The latter is made of the contract's messages, which jobs that are here and those that are archived become alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core.errors import invalid
from perdure_engine.core.jobs.model import (
    DEFAULT_JOB_RETRY,
    Concurrency,
    ConcurrencyPolicy,
    JobStatus,
    Unique,
    UniqueScope,
)
from perdure_engine.core.schedules.intents import ScheduleInfo
from perdure_engine.core.schedules.model import JobAction
from perdure_engine.frontend.new_jobs import AskedJob, JobOptions
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.transport.grpc.convert.retries import policy_of
from perdure_engine.transport.http.rest.bodies import jobs
from perdure_engine.transport.http.rest.bodies.fields import name_of
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.messages import failure_of
from perdure_engine.transport.http.rest.convert.times import (
    instant,
    instant_or_unset,
    seconds_or_unset,
    to_ms,
    to_us_or_zero,
)
from perdure_engine.transport.http.rest.convert.workflows import canonical, retry_body, retry_policy


class Sharing:
    """Jobs of one call, most of which differ in nothing but their parameters: what is the same is looked at once."""

    def __init__(self) -> None:
        self._options: dict[tuple[bytes, int], JobOptions] = {}

    def asked(self, body: jobs.NewJob, due_us: int) -> AskedJob:
        """The body is spent afterwards. Raises INVALID_ARGUMENT."""
        given = payloads.from_parameters(body.parameters)
        body.parameters = {}
        key = (canonical(body), due_us)
        options = self._options.get(key)
        if options is None:
            expire_us = to_us_or_zero(body.expires_at)
            options = options_of(body, due_us, body.idempotency_key, expire_us)
            self._options[key] = options
        return AskedJob(options, given)


def options_of(
    body: jobs.JobSettings, due_us: int = 0, idempotency_key: str = "", expire_us: int = 0
) -> JobOptions:
    return JobOptions(
        task_name=body.task_id,
        queue=body.queue,
        due_us=due_us,
        user_id=body.user_id,
        timeout_ms=to_ms(body.timeout),
        heartbeat_timeout_ms=to_ms(body.heartbeat_timeout),
        retry=DEFAULT_JOB_RETRY
        if body.retry is None
        else retry_policy(body.retry, DEFAULT_JOB_RETRY.maximum_attempts),
        priority=body.priority,
        idempotency_key=idempotency_key,
        unique=_unique(body),
        concurrency=None if body.concurrency is None else _concurrency(body.concurrency),
        expire_us=expire_us,
    )


def _unique(body: jobs.JobSettings) -> Unique | None:
    if not body.unique_key:
        if body.unique_period is not None:
            raise invalid("unique_key", "is required with a period")
        return None
    return Unique(body.unique_key, UniqueScope[body.unique_scope], to_ms(body.unique_period))


def _concurrency(body: jobs.Concurrency) -> Concurrency:
    return Concurrency(body.key, body.limit, ConcurrencyPolicy[body.policy], body.rate_per_s)


def filter_of(
    told: jobs.JobsQuery | jobs.JobFilter, namespace_id: bytes, statuses: Sequence[str] = ()
) -> JobFilter:
    return JobFilter(
        namespace_id=namespace_id,
        user_id=told.user_id,
        statuses=statuses_of(statuses),
        task_name=told.task_id,
        queue=told.queue,
        schedule_id=told.schedule_id,
        batch_id=told.batch_id,
        from_us=to_us_or_zero(told.start_time),
        to_us=to_us_or_zero(told.end_time),
    )


def statuses_of(names: Sequence[str]) -> tuple[int, ...]:
    return tuple([int(JobStatus[name]) for name in names])


# ---- what is told


def info_body(message: pb.JobInfo) -> jobs.JobInfo:
    return jobs.JobInfo(
        job_id=message.job_id,
        task_id=message.task_name,
        queue=message.task_queue,
        status=JobStatus(message.status).name,
        attempt=message.attempt,
        user_id=message.user_id,
        schedule_id=message.schedule_id,
        batch_id=message.batch_id,
        priority=message.priority,
        create_time=instant(message.create_time_us),
        scheduled_time=instant(message.scheduled_time_us),
        next_attempt_time=instant_or_unset(message.next_attempt_time_us),
        start_time=instant_or_unset(message.start_time_us),
        close_time=instant_or_unset(message.close_time_us),
        unique_key=message.unique_key,
        concurrency_key=message.concurrency_key,
        reason=message.reason,
        failure_type=message.failure_type,
        failure_message=message.failure_message,
        crashes=message.crashes,
        first_crash_time=instant_or_unset(message.first_crash_time_us),
        archived=message.archived,
    )


def job_body(details: pb.JobDetails) -> jobs.Job:
    """Of a job that runs once."""
    info = details.info
    status = JobStatus(info.status)
    told = details.concurrency
    return jobs.Job(
        job_id=info.job_id,
        task_id=info.task_name,
        recurring=False,
        queue=info.task_queue,
        status=status.name,
        user_id=info.user_id,
        priority=info.priority,
        create_time=instant(info.create_time_us),
        **_input(details.input),
        next_run=instant_or_unset(info.next_attempt_time_us),
        timeout=seconds_or_unset(details.timeout_ms),
        retry=retry_body(policy_of(details.retry_policy)),
        expires_at=instant_or_unset(details.expire_time_us),
        unique_key=info.unique_key,
        concurrency=concurrency_body(
            Concurrency(told.key, told.limit, ConcurrencyPolicy(told.policy), told.rate_per_s)
            if details.HasField("concurrency")
            else None
        ),
        schedule_id=info.schedule_id,
        batch_id=info.batch_id,
        attempt=info.attempt,
        scheduled_time=instant(info.scheduled_time_us),
        start_time=instant_or_unset(info.start_time_us),
        close_time=instant_or_unset(info.close_time_us),
        worker_identity=details.worker_identity or UNSET,
        cancel_requested=details.cancel_requested,
        reason=info.reason,
        result=payloads.result_of(details.result) if status is JobStatus.COMPLETED else UNSET,
        progress=payloads.values_of(details.progress),
        failures=[_failure(one) for one in details.failures],
        crashes=info.crashes,
        first_crash_time=instant_or_unset(info.first_crash_time_us),
        last_crash=failure_of(details.last_crash) if details.HasField("last_crash") else UNSET,
        archived=info.archived,
    )


def recurring_body(info: ScheduleInfo, action: JobAction, description: str) -> jobs.Job:
    """Of a recurring job: the schedule that it is."""
    spec = action.spec
    status = JobStatus.PENDING if info.next_us else JobStatus.COMPLETED
    if info.paused:
        status = JobStatus.SUSPENDED
    return jobs.Job(
        job_id=info.schedule_id,
        task_id=action.task_name,
        recurring=True,
        queue=action.queue,
        status=status.name,
        user_id=info.user_id,
        priority=action.priority,
        create_time=instant(info.created_us),
        next_run=instant_or_unset(info.next_us),
        schedule=description,
        schedule_id=info.schedule_id,
        batch_id="",
        cancel_requested=False,
        reason=info.note,
        **_input(spec.input),
        timeout=seconds_or_unset(spec.timeout_ms),
        retry=retry_body(spec.retry),
        unique_key="" if spec.unique is None else spec.unique.key,
        concurrency=concurrency_body(spec.concurrency),
        archived=False,
    )


def _input(data: bytes) -> dict[str, Any]:
    parameters = payloads.parameters_of(data)
    if parameters is None:
        return {"args": payloads.values_of(data)}
    return {"parameters": parameters}


def concurrency_body(concurrency: Concurrency | None) -> jobs.Concurrency | UnsetType:
    if concurrency is None:
        return UNSET
    return jobs.Concurrency(
        key=concurrency.key,
        limit=concurrency.limit,
        policy=name_of(concurrency.policy),
        rate_per_s=concurrency.rate_per_s,
    )


def _failure(message: pb.JobFailure) -> jobs.JobFailure:
    return jobs.JobFailure(
        attempt=message.attempt,
        time=instant(message.time_us),
        worker_identity=message.identity,
        failure=failure_of(message.failure),
    )
