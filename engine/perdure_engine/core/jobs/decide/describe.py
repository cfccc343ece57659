"""What a job is, and how far it is."""

from __future__ import annotations

from perdure_engine.core.jobs.decide.attempts import job_of, shown_status
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import DescribeJob
from perdure_engine.core.jobs.model import JobRun, JobState, JobStatus
from perdure_engine.core.jobs.replies import EndedJob, JobDescription, JobInfo


def decide(draft: JobDraft, intent: DescribeJob) -> JobDescription:
    run = job_of(draft, intent)
    return JobDescription(info_of(run), run.result)


def info_of(run: JobRun) -> JobInfo:
    return JobInfo(
        job_id=run.job_id,
        namespace_id=run.namespace_id,
        task_name=run.task_name,
        queue=run.queue,
        user_id=run.user_id,
        schedule_id=run.schedule_id,
        batch_id=run.batch_id,
        concurrency_key=run.spec.concurrency.key if run.spec.concurrency is not None else "",
        status=shown_status(run),
        attempt=run.attempt,
        priority=run.priority,
        created_us=run.created_us,
        scheduled_us=run.scheduled_us,
        closed_us=run.closed_us,
        spec=run.spec,
        state=state_of(run),
    )


def state_of(run: JobRun) -> JobState:
    """What of it changes and is no column."""
    timer, expiry = run.timer, run.expiry
    return JobState(
        run.due_us,
        run.ready_us,
        run.started_us,
        run.worker_id,
        run.worker_identity,
        run.failures,
        run.progress,
        run.progress_version,
        run.cancel_us,
        run.reason,
        None if timer is None else (timer.wake_us, timer.timer_id),
        None if expiry is None else (expiry.wake_us, expiry.timer_id),
        run.request_id,
        run.key_place,
        run.request_body,
        run.crashes,
    )


def ended(run: JobRun) -> EndedJob:
    """The end of a job that has ended."""
    failed = run.status in (JobStatus.FAILED, JobStatus.CANCELLED) and run.failures
    failure = run.failures[-1].failure if failed else None
    return EndedJob(run.job_id, run.status, run.result, failure, run.reason)
