"""What a saved draft adds to the figures that the engine shows (ports.metrics)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_engine.core import events as ev
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.tasks import TimerKind
from perdure_engine.ports.metrics import Metrics


def count(metrics: Metrics, draft: Draft) -> None:
    """Called once for each draft that was saved: a batch that is decided again counts once."""
    for event in draft.events:
        counted = _COUNTED.get(type(event))
        if counted is not None:
            counted(metrics, event)
    state = draft.state
    if not state.open and draft.events:
        folded = state.folded
        metrics.workflow_closed.inc(folded.status.name)
        metrics.history_events.observe(folded.next_event_id - 1)
        metrics.history_bytes.observe(state.history_bytes)
    for timer in draft.timers:
        if timer.kind is TimerKind.ACTIVITY_RETRY:
            metrics.activity_retries.inc()


def _started(metrics: Metrics, event: ev.WorkflowExecutionStarted) -> None:
    metrics.workflow_started.inc()


def _task_failed(metrics: Metrics, event: ev.WorkflowTaskFailed) -> None:
    metrics.workflow_task_failed.inc(event.cause.name)
    if event.cause is WorkflowTaskFailedCause.NON_DETERMINISM:
        metrics.nondeterminism.inc()


def _task_timed_out(metrics: Metrics, event: ev.WorkflowTaskTimedOut) -> None:
    metrics.workflow_task_failed.inc("TIMED_OUT")


def _activity_completed(metrics: Metrics, event: ev.ActivityTaskCompleted) -> None:
    metrics.activity_completed.inc()


def _activity_failed(metrics: Metrics, event: ev.ActivityTaskFailed) -> None:
    metrics.activity_failed.inc()


def _activity_timed_out(metrics: Metrics, event: ev.ActivityTaskTimedOut) -> None:
    metrics.activity_timeout.inc(event.failure.timeout_type.name)


_COUNTED: dict[type, Callable[[Metrics, Any], None]] = {
    ev.WorkflowExecutionStarted: _started,
    ev.WorkflowTaskFailed: _task_failed,
    ev.WorkflowTaskTimedOut: _task_timed_out,
    ev.ActivityTaskCompleted: _activity_completed,
    ev.ActivityTaskFailed: _activity_failed,
    ev.ActivityTaskTimedOut: _activity_timed_out,
}
