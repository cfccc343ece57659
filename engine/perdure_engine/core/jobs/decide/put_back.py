"""The worker that took an attempt is gone, or never got it: the job is ready again, and nothing is counted."""

from __future__ import annotations

from perdure_engine.core.failures import worker_lost_failure
from perdure_engine.core.jobs.decide.attempts import runs_as
from perdure_engine.core.jobs.decide.ending import end, keep_failure
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import PutBackJobs
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.transitions import move


def decide(draft: JobDraft, intent: PutBackJobs) -> None:
    for job_id, start_no, worker_dead in intent.starts:
        run = draft.memory.jobs.get(job_id)
        if run is not None and runs_as(run, start_no):
            _put_back(draft, run, worker_dead)


def _put_back(draft: JobDraft, run: JobRun, worker_dead: bool) -> None:
    if worker_dead and run.spec.retry.maximum_attempts == 1:
        keep_failure(draft, run, worker_lost_failure(run.worker_identity), run.worker_identity)
        end(draft, run, JobStatus.FAILED)
    elif run.cancel_us:
        end(draft, run, JobStatus.CANCELLED, reason=run.reason)
    elif run.status is JobStatus.IN_PROGRESS:
        move(run, JobStatus.PENDING if run.attempt == 1 else JobStatus.RETRY)
        draft.release(run)
        draft.make_ready(run)
    else:
        # its row says that it is ready, and where it stands in its queue: that is so again
        draft.release(run)
        draft.ready.append(run)
