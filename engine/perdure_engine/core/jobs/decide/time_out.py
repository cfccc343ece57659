"""An attempt has taken longer than it may, or its worker has said nothing of it for too long."""

from __future__ import annotations

from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.jobs.decide.attempts import runs_as
from perdure_engine.core.jobs.decide.complete import fail
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import TimeOutJob


def decide(draft: JobDraft, intent: TimeOutJob) -> None:
    run = draft.memory.jobs.get(intent.job_id)
    if run is None or not run.open or not runs_as(run, intent.start_no):
        return
    name = intent.timeout_type.name.replace("_", "-").lower()
    failure = Failure(
        FailureKind.TIMEOUT,
        f"job {name} timeout",
        details=run.progress,
        timeout_type=intent.timeout_type,
    )
    fail(draft, run, failure, run.worker_identity)
