"""Cancel a job: one that has not started ends at once; one that runs is asked to stop."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.decide.attempts import job_of, shown_status, started
from perdure_engine.core.jobs.decide.auditing import note
from perdure_engine.core.jobs.decide.ending import end
from perdure_engine.core.jobs.decide.repeats import applied, is_repeat
from perdure_engine.core.jobs.decide.save_starts import save_start
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import CancelJob
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.replies import JobAnswered


def decide(draft: JobDraft, intent: CancelJob) -> JobAnswered:
    run = job_of(draft, intent)
    if not is_repeat(run, intent):
        require_open(run)
        before = shown_status(run)
        applied(run, intent)
        stop(draft, run, intent.reason)
        note(draft, Action.CANCEL_JOB, intent, run, before)
    return JobAnswered(shown_status(run))


def stop(draft: JobDraft, run: JobRun, reason: str) -> None:
    """End a job that has not started, and ask one that runs to stop. The first to ask is the one that is remembered."""
    if not started(run):
        end(draft, run, JobStatus.CANCELLED, reason=reason)
        return
    if not run.cancel_us:
        run.cancel_us = draft.env.now_us
        run.reason = reason
    save_start(draft, run)


def require_open(run: JobRun) -> None:
    if not run.open:
        raise Rejected(
            Code.FAILED_PRECONDITION, "JOB_ENDED", f"the job has ended: {run.status.name}"
        )
