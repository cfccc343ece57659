"""Another time for a job that has not started."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.decide import places
from perdure_engine.core.jobs.decide.attempts import job_of, shown_status, started
from perdure_engine.core.jobs.decide.auditing import note
from perdure_engine.core.jobs.decide.cancel import require_open
from perdure_engine.core.jobs.decide.due import become_due
from perdure_engine.core.jobs.decide.repeats import applied, is_repeat
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import RescheduleJob
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.replies import JobAnswered


def decide(draft: JobDraft, intent: RescheduleJob) -> JobAnswered:
    run = job_of(draft, intent)
    if not is_repeat(run, intent):
        require_open(run)
        if run.status is not JobStatus.PENDING or started(run):
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "JOB_STARTED",
                f"the job has started: {shown_status(run).name}",
            )
        if run.held:
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "JOB_OF_SCHEDULE",
                f"the job waits for its schedule {run.schedule_id!r}: change that",
            )
        applied(run, intent)
        draft.touch(run)
        _reschedule(draft, run, intent.due_us)
        note(draft, Action.RESCHEDULE_JOB, intent, run, JobStatus.PENDING)
    return JobAnswered(shown_status(run))


def _reschedule(draft: JobDraft, run: JobRun, due_us: int) -> None:
    now_us = draft.env.now_us
    run.scheduled_us = max(due_us, now_us)
    if due_us <= now_us and run.task_id:
        return  # it is ready, or waits for its key: sooner is not possible, and it keeps its turn
    draft.drop_wake(run)
    draft.make_unready(run)
    if run.spec.concurrency is not None:
        places.leave(draft, run)
    if due_us > now_us:
        draft.wake_at(run, due_us)
    else:
        run.due_us = now_us
        become_due(draft, run)
