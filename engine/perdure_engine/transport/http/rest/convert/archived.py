"""What has left the tables, as bodies: runs by their rows and histories, jobs by the messages that are kept of them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core.jobs.model import ConcurrencyPolicy, JobStatus
from perdure_engine.frontend.archived import refusals_of_archive
from perdure_engine.ports.archive import ArchivedJob, ArchivedRun
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.transport.grpc.convert import archived
from perdure_engine.transport.grpc.convert.retries import policy_of
from perdure_engine.transport.http.rest.bodies import jobs, workflows
from perdure_engine.transport.http.rest.bodies.fields import Failure, name_of
from perdure_engine.transport.http.rest.convert import descriptions, payloads
from perdure_engine.transport.http.rest.convert.jobs import given_body
from perdure_engine.transport.http.rest.convert.messages import event_message_body, fields
from perdure_engine.transport.http.rest.convert.times import (
    instant,
    instant_or_unset,
    seconds_or_unset,
    to_seconds,
)
from perdure_engine.transport.http.rest.convert.workflows import retry_body
from perdure_engine.transport.json.jobs import details_from_json


def row_body(row: VisibilityRow) -> workflows.WorkflowInfo:
    body = descriptions.row_body(row)
    body.archived = True
    return body


def event_bodies(texts: list[bytes]) -> list[workflows.Event]:
    """Raises Rejected DATA_LOSS."""
    return [event_message_body(message) for message in archived.archived_events(texts)]


def description_body(run: ArchivedRun) -> workflows.WorkflowDescription:
    """Raises Rejected DATA_LOSS."""
    told = archived.described(run)
    return workflows.WorkflowDescription(
        info=row_body(run.row),
        attempt=told.attempt,
        execution_timeout=seconds_or_unset(told.execution_timeout_ms),
        run_timeout=seconds_or_unset(told.run_timeout_ms),
        task_timeout=to_seconds(told.task_timeout_ms),
        cron_schedule=told.cron_schedule or UNSET,
        static_summary=_single(told.static_summary),
        static_details=_single(told.static_details),
        cancel_requested=told.cancel_requested,
        buffered_events=0,
        execution_deadline=instant_or_unset(told.execution_deadline_us),
        first_run_id=told.first_run_id or UNSET,
        continued_from_run_id=told.continued_from_run_id or UNSET,
        next_run_id=told.next_run_id or UNSET,
        parent=workflows.Relative(
            workflow_id=told.parent_workflow_id, run_id=told.parent_run_id or UNSET
        )
        if told.parent_workflow_id
        else UNSET,
        pending_activities=[],
        pending_timers=[],
        pending_children=[],
    )


def info_bodies(found: list[ArchivedJob]) -> list[jobs.JobInfo]:
    """Raises Rejected DATA_LOSS."""
    return [_info_body(message) for message in archived.job_infos(found)]


def info_body_of(job: ArchivedJob) -> jobs.JobInfo:
    """Of a job that came with its details. Raises Rejected DATA_LOSS."""
    return _info_body(_details(job).info)


def job_body(job: ArchivedJob) -> jobs.Job:
    """Of a job that ran once. Raises Rejected DATA_LOSS."""
    told = _details(job)
    info = told.info
    status = JobStatus(info.status)
    return jobs.Job(
        job_id=info.job_id,
        task_id=info.task_name,
        recurring=False,
        queue=info.task_queue,
        status=status.name,
        user_id=info.user_id,
        priority=info.priority,
        create_time=instant(info.create_time_us),
        timeout=seconds_or_unset(told.timeout_ms),
        retry=retry_body(policy_of(told.retry_policy)),
        expires_at=instant_or_unset(told.expire_time_us),
        unique_key=info.unique_key,
        concurrency=_concurrency(told.concurrency) if told.HasField("concurrency") else UNSET,
        schedule_id=info.schedule_id,
        batch_id=info.batch_id,
        attempt=info.attempt,
        scheduled_time=instant(info.scheduled_time_us),
        start_time=instant_or_unset(info.start_time_us),
        close_time=instant_or_unset(info.close_time_us),
        worker_identity=told.worker_identity or UNSET,
        cancel_requested=told.cancel_requested,
        reason=info.reason,
        result=payloads.result_of(told.result) if status is JobStatus.COMPLETED else UNSET,
        progress=payloads.values_of(told.progress),
        failures=[_failure(one) for one in told.failures],
        archived=True,
        **given_body(told.input),
    )


def _info_body(info: pb.JobInfo) -> jobs.JobInfo:
    return jobs.JobInfo(
        job_id=info.job_id,
        task_id=info.task_name,
        queue=info.task_queue,
        status=JobStatus(info.status).name,
        attempt=info.attempt,
        user_id=info.user_id,
        schedule_id=info.schedule_id,
        batch_id=info.batch_id,
        priority=info.priority,
        create_time=instant(info.create_time_us),
        scheduled_time=instant(info.scheduled_time_us),
        start_time=instant_or_unset(info.start_time_us),
        close_time=instant_or_unset(info.close_time_us),
        unique_key=info.unique_key,
        concurrency_key=info.concurrency_key,
        reason=info.reason,
        archived=True,
    )


def _details(job: ArchivedJob) -> pb.JobDetails:
    with refusals_of_archive():
        return details_from_json(job.text)


def _concurrency(message: pb.Concurrency) -> jobs.Concurrency:
    return jobs.Concurrency(
        key=message.key,
        limit=message.limit,
        policy=name_of(ConcurrencyPolicy(message.policy)),
        rate_per_s=message.rate_per_s,
    )


def _failure(message: pb.JobFailure) -> jobs.JobFailure:
    return jobs.JobFailure(
        attempt=message.attempt,
        time=instant(message.time_us),
        worker_identity=message.identity,
        failure=msgspec.convert(fields(message.failure), Failure),
    )


def _single(payload: bytes) -> Any:
    return payloads.single_value_of(payload) if payload else UNSET
