"""What is known of jobs, towards the wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.intents import CreatedJob
from perdure_engine.core.jobs.model import Concurrency, JobFailure, JobStatus
from perdure_engine.core.jobs.replies import EndedJob, JobDescription, JobInfo
from perdure_engine.core.poison import NO_CRASHES
from perdure_engine.frontend.handlers.create_jobs import Made
from perdure_engine.frontend.handlers.get_job_batch import JobBatchInfo
from perdure_engine.frontend.job_ids import unknown_job
from perdure_engine.frontend.job_rows import failure_type_of
from perdure_engine.transport.grpc.convert.failures import cut, failure_fields
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.retries import policy_fields
from perdure_engine.transport.grpc.errors import Errors

RESULT_ENVELOPE_BYTES = 256
LISTED_MESSAGE_BYTES_MAX = 1_000  # of the last failure, in lists


def created(made: Sequence[Made], errors: Errors) -> pb.CreateJobsResponse:
    """The same refusal of many jobs is encoded once."""
    told: dict[int, bytes] = {}

    def fields_of(one: Made) -> Fields:
        if isinstance(one, CreatedJob):
            return {
                "job_id": uuid_text(one.job_id),
                "created": one.created,
                "status": int(one.status),
            }
        encoded = told.get(id(one))
        if encoded is None:
            encoded = told[id(one)] = errors.encoded(one)
        return {"error": encoded}

    return pb.CreateJobsResponse(jobs=[fields_of(one) for one in made])


def info_fields(info: JobInfo, now_us: int) -> Fields:
    spec, state = info.spec, info.state
    waits = info.status is JobStatus.RETRY or (
        info.status in (JobStatus.PENDING, JobStatus.POISONED) and state.due_us > now_us
    )
    crashes = state.crashes or NO_CRASHES
    return {
        "job_id": uuid_text(info.job_id),
        "task_name": info.task_name,
        "task_queue": info.queue,
        "status": int(info.status),
        "attempt": info.attempt,
        "user_id": info.user_id,
        "schedule_id": info.schedule_id,
        "batch_id": info.batch_id,
        "create_time_us": info.created_us,
        "scheduled_time_us": info.scheduled_us,
        "next_attempt_time_us": state.due_us if waits else 0,
        "start_time_us": state.started_us,
        "close_time_us": info.closed_us,
        "priority": info.priority,
        "unique_key": "" if spec.unique is None else spec.unique.key,
        "concurrency_key": info.concurrency_key,
        "reason": state.reason,
        "idempotency_key": spec.idempotency_key,
        "failure_type": failure_type_of(info),
        "failure_message": _failure_message(state.failures),
        "crashes": crashes.count,
        "first_crash_time_us": crashes.first_us,
    }


def _failure_message(failures: Sequence[JobFailure]) -> str:
    return cut(failures[-1].failure.message, LISTED_MESSAGE_BYTES_MAX) if failures else ""


def details_message(described: JobDescription, now_us: int) -> pb.JobDetails:
    failures = _last_failures(described.info.state.failures)
    return pb.JobDetails(**details_fields(described, now_us), failures=failures)


def details_fields(described: JobDescription, now_us: int) -> Fields:
    """All but the failures, of which not all may fit into an answer."""
    info = described.info
    spec, state = info.spec, info.state
    concurrency, crashes = spec.concurrency, state.crashes
    last_crash = crashes.last if crashes is not None else None
    return {
        "info": info_fields(info, now_us),
        "input": spec.input,
        "result": described.result,
        "progress": state.progress,
        "timeout_ms": spec.timeout_ms,
        "retry_policy": policy_fields(spec.retry),
        "worker_identity": state.worker_identity,
        "cancel_requested": bool(state.cancel_us),
        "expire_time_us": spec.expire_us,
        "concurrency": None if concurrency is None else _concurrency_fields(concurrency),
        "last_crash": None if last_crash is None else failure_fields(last_crash),
    }


def _last_failures(failures: Sequence[JobFailure]) -> list[pb.JobFailure]:
    """Oldest first. Of those that do not fit into an answer together the last ones."""
    shown: list[pb.JobFailure] = []
    room = limits.JOB_FAILURES_BYTES_MAX
    for failed in reversed(failures):
        message = pb.JobFailure(**job_failure_fields(failed))
        room -= message.ByteSize()
        if room < 0 and shown:
            break
        shown.append(message)
    return shown[::-1]


def job_failure_fields(failed: JobFailure) -> Fields:
    return {
        "attempt": failed.attempt,
        "time_us": failed.time_us,
        "identity": failed.identity,
        "failure": failure_fields(failed.failure),
    }


def _concurrency_fields(concurrency: Concurrency) -> Fields:
    return {
        "key": concurrency.key,
        "limit": concurrency.limit,
        "policy": int(concurrency.policy),
        "rate_per_s": concurrency.rate_per_s,
    }


def results(ended: Iterable[pb.JobResult]) -> pb.GetJobResultsResponse:
    """As many as fit into a message, and at least one: who asks again is told the others."""
    messages: list[pb.JobResult] = []
    room = limits.BATCH_MESSAGE_BYTES_MAX
    for message in ended:
        room -= message.ByteSize() + RESULT_ENVELOPE_BYTES
        if room < 0 and messages:
            break
        messages.append(message)
    return pb.GetJobResultsResponse(results=messages)


def result(ended: EndedJob, errors: Errors) -> pb.JobResult:
    if ended.status is None:
        return pb.JobResult(job_id=uuid_text(ended.job_id), error=errors.encoded(unknown_job()))
    fields: Fields = {
        "job_id": uuid_text(ended.job_id),
        "status": int(ended.status),
        "result": ended.result,
        "reason": ended.reason,
    }
    if ended.failure is not None:
        fields["failure"] = failure_fields(ended.failure)
    return pb.JobResult(**fields)


def counted(counts: Sequence[tuple[int, int]]) -> pb.CountJobsResponse:
    by_status: list[Fields] = [{"status": status, "count": count} for status, count in counts]
    return pb.CountJobsResponse(count=sum(count for _, count in counts), by_status=by_status)


def batch_message(batch: JobBatchInfo) -> pb.GetJobBatchResponse:
    state = batch.state
    return pb.GetJobBatchResponse(
        batch_id=batch.batch_id,
        total=batch.total,
        open=batch.open,
        completed=state.completed,
        failed=state.failed,
        cancelled=state.cancelled,
        skipped=state.skipped,
        sealed=batch.sealed,
        callback_job_id=uuid_text(state.callback_job_id) if state.callback_job_id else "",
    )
