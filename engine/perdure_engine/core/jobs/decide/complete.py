"""Attempts end: completed, failed, crashed, or stopped because they were asked to. Each outcome is applied at most
once."""

from __future__ import annotations

import hashlib
from typing import assert_never

from perdure_engine.core import poison
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind, RetryState
from perdure_engine.core.jobs.decide import ladder, places
from perdure_engine.core.jobs.decide.attempts import holder, note_start, started
from perdure_engine.core.jobs.decide.due import become_due
from perdure_engine.core.jobs.decide.ending import end, keep_failure
from perdure_engine.core.jobs.decide.put_back import lose
from perdure_engine.core.jobs.decide.save_progress import keep_progress
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import (
    CompleteJobs,
    JobCanceled,
    JobCompleted,
    JobCrashed,
    JobFailed,
    JobOutcome,
)
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.replies import JobsAnswered
from perdure_engine.core.jobs.transitions import move
from perdure_engine.core.retry import next_attempt

JITTER_SHARE = 0.2
"""Of a retry's delay, added to it at most: jobs that failed together do not come back together."""


def decide(draft: JobDraft, intent: CompleteJobs) -> JobsAnswered:
    refused: list[tuple[int, Rejected]] = []
    for index, outcome in enumerate(intent.outcomes):
        try:
            _apply(draft, outcome, intent.identity)
        except Rejected as refusal:
            refused.append((index, refusal))
    return JobsAnswered(refused)


def _apply(draft: JobDraft, outcome: JobOutcome, identity: str) -> None:
    token = outcome.token
    run = holder(draft, token)
    match outcome:
        case JobCompleted():
            note_start(run, token, identity)
            run.crashes = None
            end(draft, run, JobStatus.COMPLETED, result=outcome.result)
        case JobFailed():
            note_start(run, token, identity)
            if outcome.progress:
                keep_progress(run, outcome.progress, outcome.progress_version)
            fail(draft, run, outcome.failure, identity)
        case JobCanceled():
            if not run.cancel_us:
                raise Rejected(
                    Code.FAILED_PRECONDITION,
                    "CANCEL_NOT_REQUESTED",
                    "a job can end as cancelled only after somebody asked for it",
                )
            note_start(run, token, identity)
            stopped = Failure(FailureKind.CANCELED, "cancelled", details=outcome.details)
            keep_failure(draft, run, stopped, identity)
            end(draft, run, JobStatus.CANCELLED, reason=run.reason)
        case JobCrashed():
            _crash(draft, run, outcome, identity)
        case _:
            assert_never(outcome)


def _crash(draft: JobDraft, run: JobRun, outcome: JobCrashed, identity: str) -> None:
    """The process that the attempt had to itself has died; the worker lives."""
    note_start(run, outcome.token, identity)
    crashes = run.crashes
    if crashes is not None and not started(run) and crashes.is_counted(outcome.token.start_no):
        # It was thought dead, and its death counted: it is the same crash.
        run.crashes = poison.reported(crashes, outcome.failure)
        draft.touch(run)
    else:
        lose(draft, run, b"", outcome.failure, counted=True)
    run.start_no = draft.env.new_number()  # when the report comes again, its token is older


def fail(draft: JobDraft, run: JobRun, failure: Failure, identity: str) -> None:
    """An attempt has failed: the next one has its time, or there is none."""
    keep_failure(draft, run, failure, identity)
    if run.crashes is not None:
        ladder.forgive(draft, run)
    if run.cancel_us:
        end(draft, run, JobStatus.CANCELLED, reason=run.reason)
        return
    verdict = next_attempt(run.spec.retry, run.attempt, failure, draft.env.now_us, 0)
    if verdict.state is not RetryState.IN_PROGRESS:
        end(draft, run, JobStatus.FAILED)
        return
    delay_us = verdict.delay_ms * 1000
    if failure.next_retry_delay_ms is None:
        delay_us += int(delay_us * JITTER_SHARE * jitter(run.job_id, run.attempt))
    _back_off(draft, run, delay_us)


def _back_off(draft: JobDraft, run: JobRun, delay_us: int) -> None:
    move(run, JobStatus.RETRY)
    run.attempt += 1
    draft.make_unready(run)
    draft.release(run)
    draft.drop_wake(run)
    draft.drop_expiry(run)
    draft.touch(run)
    draft.retries += 1
    if run.spec.concurrency is not None:
        places.leave(draft, run)
    if delay_us:
        draft.wake_at(run, draft.env.now_us + delay_us)
    else:
        run.due_us = draft.env.now_us
        become_due(draft, run)


def jitter(job_id: bytes, attempt: int) -> float:
    """A number in [0, 1), always the same for an attempt."""
    digest = hashlib.blake2b(
        attempt.to_bytes(8, "big"), digest_size=4, key=job_id, person=b"perdure jitter"
    ).digest()
    return int.from_bytes(digest, "big") / (1 << 32)
