"""A job ends, whatever the reason."""

from __future__ import annotations

from perdure_engine.core.failures import Failure
from perdure_engine.core.jobs.decide import places
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import JobBatch
from perdure_engine.core.jobs.model import FAILURES_KEPT_MAX, JobFailure, JobRun, JobStatus
from perdure_engine.core.jobs.transitions import move


def end(
    draft: JobDraft, run: JobRun, status: JobStatus, *, result: bytes = b"", reason: str = ""
) -> None:
    """Its row and its last step. Whoever waits for its place of a key, or for its batch, has it from here."""
    move(run, status)
    draft.make_unready(run)
    draft.release(run)
    run.closed_us = draft.env.now_us
    run.result = result
    run.reason = reason
    if run.timer is not None:
        draft.drop_wake(run)
    if run.expiry is not None:
        draft.drop_expiry(run)
    draft.jobs[run.job_id] = run
    draft.ended.append(run)
    if run.batch_id:
        _leave_batch(draft, run)
    if run.spec.concurrency is not None:
        places.leave(draft, run)


def keep_failure(draft: JobDraft, run: JobRun, failure: Failure, identity: str) -> None:
    kept = run.failures[-(FAILURES_KEPT_MAX - 1) :]
    run.failures = (*kept, JobFailure(run.attempt, draft.env.now_us, identity, failure))


def _leave_batch(draft: JobDraft, run: JobRun) -> None:
    batch = draft.memory.batches[run.namespace_id, run.batch_id]
    if batch.closed:
        return  # a job of it was redriven after its end: that changes nothing of the batch
    batch.open -= 1
    count(batch, run.status, 1)
    draft.batches[batch.namespace_id, batch.batch_id] = batch
    if batch.sealed and not batch.open:
        draft.over.append(batch)


def count(batch: JobBatch, status: JobStatus, by: int) -> None:
    match status:
        case JobStatus.COMPLETED:
            batch.completed += by
        case JobStatus.FAILED:
            batch.failed += by
        case JobStatus.CANCELLED:
            batch.cancelled += by
        case _:
            batch.skipped += by
