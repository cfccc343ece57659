"""What a saved draft adds to the figures that the engine shows (ports.metrics)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from perdure_engine.core import events as ev
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.poison import Rung
from perdure_engine.core.tasks import TimerKind, TimerRecord
from perdure_engine.ports.metrics import Counter, Metrics


def count(metrics: Metrics, drafts: Sequence[Draft]) -> None:
    """Called once for what one statement has saved: a batch that is decided again counts once.

    Types are counted at C speed, for this is on every workflow's way; what few events say besides
    is looked at only when there are any.
    """
    events = list(map(type, chain.from_iterable([draft.events for draft in drafts])))
    kinds = set(events)
    for kind in kinds & _COUNTED.keys():
        _COUNTED[kind](metrics, events.count(kind))
    if not _LOOKED_AT.isdisjoint(kinds):
        _look(metrics, drafts)
    for draft in drafts:
        folded = draft.state.folded
        if folded.closed is not None and draft.events:
            metrics.workflow_closed.inc(folded.status.name)
            metrics.history_events.observe(folded.next_event_id - 1)
            metrics.history_bytes.observe(draft.state.history_bytes)
        for timer in draft.timers:
            if timer.kind is TimerKind.ACTIVITY_RETRY and not _is_poisoned(draft, timer):
                metrics.activity_retries.inc()
        if draft.ahead is not None or draft.climbed is not None:
            _count_noted(metrics, draft)


def _count_noted(metrics: Metrics, draft: Draft) -> None:
    for counts in draft.ahead or ():
        metrics.workflow_tasks_ahead.inc("counted" if counts else "left")
    for rung, task_kind in draft.climbed or ():
        _RUNGS[rung](metrics).inc(task_kind.name.lower())


def _is_poisoned(draft: Draft, timer: TimerRecord) -> bool:
    """Whether the timer is of an activity that waits for the surgical pool."""
    record = draft.state.tasks.get(timer.reference)
    return record is not None and bool(record.pool)


def _look(metrics: Metrics, drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        for event in draft.events:
            match event:
                case ev.WorkflowTaskFailed(cause=cause):
                    metrics.workflow_task_failed.inc(cause.name)
                    if cause is WorkflowTaskFailedCause.NON_DETERMINISM:
                        metrics.nondeterminism.inc()
                case ev.ActivityTaskTimedOut(failure=failure):
                    metrics.activity_timeout.inc(failure.timeout_type.name)
                case _:
                    pass


_RUNGS: dict[Rung, Callable[[Metrics], Counter]] = {
    Rung.CRASHED: lambda metrics: metrics.task_crashes,
    Rung.POISONED: lambda metrics: metrics.tasks_poisoned,
    Rung.SUSPENDED: lambda metrics: metrics.tasks_suspended,
}
_LOOKED_AT = frozenset((ev.WorkflowTaskFailed, ev.ActivityTaskTimedOut))
_COUNTED: dict[type[ev.Event], Callable[[Metrics, int], None]] = {
    ev.WorkflowExecutionStarted: lambda metrics, number: metrics.workflow_started.inc(by=number),
    ev.WorkflowTaskTimedOut: lambda metrics, number: metrics.workflow_task_failed.inc(
        "TIMED_OUT", by=number
    ),
    ev.ActivityTaskCompleted: lambda metrics, number: metrics.activity_completed.inc(by=number),
    ev.ActivityTaskFailed: lambda metrics, number: metrics.activity_failed.inc(by=number),
}
