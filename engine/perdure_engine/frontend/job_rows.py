"""Jobs as the store has them, for lists."""

from __future__ import annotations

from perdure_engine.core.jobs.model import JobSpec, JobStatus
from perdure_engine.core.jobs.replies import EndedJob, JobInfo
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.rows import JobRunRow

NO_SPEC = JobSpec()


def info_of(frontend: Frontend, row: JobRunRow) -> JobInfo:
    """Without the input of one whose specification is large: lists leave it out."""
    codec = frontend.codec
    return JobInfo(
        job_id=row.job_id,
        namespace_id=row.namespace_id,
        task_name=row.task_name,
        queue=row.queue,
        user_id=row.user_id,
        schedule_id=row.schedule_id,
        batch_id=row.batch_id,
        concurrency_key=row.concurrency_key,
        status=JobStatus(row.status),
        attempt=row.attempt,
        priority=row.priority,
        created_us=row.created_us,
        scheduled_us=row.scheduled_us,
        closed_us=row.closed_us or 0,
        spec=codec.decode_job_spec(row.spec) if row.spec else NO_SPEC,
        state=codec.decode_job_state(row.state),
    )


def ended_of(frontend: Frontend, row: JobRunRow) -> EndedJob:
    """The end of one that has ended."""
    status = JobStatus(row.status)
    state = frontend.codec.decode_job_state(row.state)
    failed = status in (JobStatus.FAILED, JobStatus.CANCELLED) and state.failures
    failure = state.failures[-1].failure if failed else None
    return EndedJob(row.job_id, status, row.result, failure, state.reason)


def failure_type_of(info: JobInfo) -> str:
    """Of the last failure: an application failure's type, or the kind's name; '' when there is none."""
    if not info.state.failures:
        return ""
    failure = info.state.failures[-1].failure
    return failure.type or failure.kind.name
