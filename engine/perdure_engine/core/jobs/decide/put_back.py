"""The worker that took an attempt is gone, or never got it: the job is ready again, and no attempt is counted."""

from __future__ import annotations

from perdure_engine.core.failures import Failure, worker_lost_failure
from perdure_engine.core.jobs.decide import ladder
from perdure_engine.core.jobs.decide.attempts import runs_as
from perdure_engine.core.jobs.decide.ending import end, keep_failure
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import PutBackJobs
from perdure_engine.core.jobs.model import JobRun, JobStatus


def decide(draft: JobDraft, intent: PutBackJobs) -> None:
    for job_id, start_no, worker_dead, crashed in intent.starts:
        run = draft.memory.jobs.get(job_id)
        if run is None or not runs_as(run, start_no):
            continue
        if not worker_dead:
            put_back(draft, run)
        else:
            failure = worker_lost_failure(run.worker_identity)
            counted = crashed and not _was_dead(run)
            lose(draft, run, run.worker_id, failure, counted=counted)


def _was_dead(run: JobRun) -> bool:
    """Whether its worker had died with the job before, and was not heard of since: it never got it this time, but a
    poll of it was still open (invariant 35: an answer that gets lost is no crash)."""
    return run.crashes is not None and run.worker_id in run.crashes.worker_ids


def lose(
    draft: JobDraft, run: JobRun, worker_id: bytes, failure: Failure, *, counted: bool
) -> None:
    """The worker that had the attempt has died, or (b"") only the process that the attempt had to itself. `counted`: as
    a crash."""
    if run.spec.retry.maximum_attempts == 1:
        keep_failure(draft, run, failure, run.worker_identity)
        end(draft, run, JobStatus.FAILED)
    elif counted and not run.cancel_us:
        ladder.count(draft, run, worker_id, failure)
    else:
        put_back(draft, run)


def put_back(draft: JobDraft, run: JobRun) -> None:
    if run.cancel_us:
        end(draft, run, JobStatus.CANCELLED, reason=run.reason)
    else:
        ladder.ready_again(draft, run)
