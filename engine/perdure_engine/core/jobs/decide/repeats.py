"""Calls about a job that come again: the last one that was applied is known."""

from __future__ import annotations

from perdure_engine.core.jobs.intents import CancelJob, RedriveJob, RescheduleJob
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.repeats import body_of, require_same


def is_repeat(run: JobRun, intent: CancelJob | RescheduleJob | RedriveJob) -> bool:
    """Raises INVALID_ARGUMENT for another call of the same request id."""
    if run.request_id != intent.request_id:
        return False
    require_same(run.request_body, intent)
    return True


def applied(run: JobRun, intent: CancelJob | RescheduleJob | RedriveJob) -> None:
    run.request_id = intent.request_id
    run.request_body = body_of(intent)
