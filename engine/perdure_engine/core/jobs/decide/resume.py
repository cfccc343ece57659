"""An operator lets a job go on that is poisoned or suspended."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.decide import ladder
from perdure_engine.core.jobs.decide.attempts import job_of, shown_status, started
from perdure_engine.core.jobs.decide.auditing import note
from perdure_engine.core.jobs.decide.repeats import applied, is_repeat
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import ResumeJob
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobAnswered


def decide(draft: JobDraft, intent: ResumeJob) -> JobAnswered:
    run = job_of(draft, intent)
    if not is_repeat(run, intent):
        if run.status not in (JobStatus.POISONED, JobStatus.SUSPENDED) or started(run):
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "JOB_NOT_POISONED",
                f"only a poisoned or suspended job is resumed: this one is {shown_status(run).name}",
            )
        before = run.status
        applied(run, intent)
        ladder.resume(draft, run)
        note(draft, Action.RESUME_JOB, intent, run, before)
    return JobAnswered(shown_status(run))
