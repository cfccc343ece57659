"""Timers of jobs: the time of an attempt has come, a job is too late to start, or has been poisoned for too long."""

from __future__ import annotations

from perdure_engine.core.jobs.decide import ladder, places
from perdure_engine.core.jobs.decide.attempts import started
from perdure_engine.core.jobs.decide.due import EXPIRED, become_due
from perdure_engine.core.jobs.decide.ending import end
from perdure_engine.core.jobs.decide.save_starts import save_start
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import FireJobTimers
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.tasks import TimerKind


def decide(draft: JobDraft, intent: FireJobTimers) -> None:
    """A timer that its job does not know any more changes nothing: the job was given another time, or has ended."""
    for _, timer_id, kind, job_id in intent.timers:
        run = draft.memory.jobs.get(job_id)
        if run is None:
            continue
        if kind == TimerKind.JOB_DUE:
            _due(draft, run, timer_id)
        else:
            _expire(draft, run, timer_id)


def _due(draft: JobDraft, run: JobRun, timer_id: int) -> None:
    if run.timer is not None and run.timer.timer_id == timer_id:
        draft.drop_wake(run)
        draft.touch(run)
        if run.task_id < 0:  # the rate of its key held it up
            places.admit(draft, places.room_of(draft, run))
        elif run.crashes is not None and run.crashes.is_over_time(draft.env.now_us):
            ladder.suspend(draft, run)
        else:
            become_due(draft, run, again=run.status is JobStatus.POISONED)


def _expire(draft: JobDraft, run: JobRun, timer_id: int) -> None:
    if run.expiry is None or run.expiry.timer_id != timer_id:
        return
    draft.drop_expiry(run)
    draft.touch(run)
    if started(run):
        if run.status is JobStatus.POISONED:
            # else the next owner of its shard would know of neither start nor timer
            save_start(draft, run)
        return
    if run.status is JobStatus.PENDING:
        end(draft, run, JobStatus.SKIPPED, reason=EXPIRED)
    elif run.status is JobStatus.POISONED:
        ladder.suspend(draft, run)
