"""A worker that was thought dead has come back: what it was said to have died of is no crash."""

from __future__ import annotations

from perdure_engine.core.jobs.decide import ladder
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import TakeBackCrashes
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.poison import came_back


def decide(draft: JobDraft, intent: TakeBackCrashes) -> None:
    """Of a suspended job nothing: whether it goes on is an operator's word (invariant 39)."""
    for job_id, worker_id in intent.marks:
        run = draft.memory.jobs.get(job_id)
        if run is None or not run.open or run.status is JobStatus.SUSPENDED or run.crashes is None:
            continue
        if worker_id in run.crashes.worker_ids:
            ladder.ease(draft, run, came_back(run.crashes, worker_id))
