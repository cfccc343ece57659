"""Calls about a job that come again: the last one that was applied is known."""

from __future__ import annotations

from perdure_engine.core.jobs.decide.attempts import Operation
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.repeats import body_of, require_same


def is_repeat(run: JobRun, intent: Operation) -> bool:
    """Raises INVALID_ARGUMENT for another call of the same request id."""
    if run.request_id != intent.request_id:
        return False
    require_same(run.request_body, intent)
    return True


def applied(run: JobRun, intent: Operation) -> None:
    run.request_id = intent.request_id
    run.request_body = body_of(intent)
