"""`apply(folded, event)`: one function for live and replayed events. It never refuses what `decide` emitted.

Each function below changes the fold in place, after the transition table has allowed the move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import structs

from perdure_engine.core import events as ev
from perdure_engine.core import memo
from perdure_engine.core import outside_events as out
from perdure_engine.core.events import Event, EventType
from perdure_engine.core.fan_out import FanOut
from perdure_engine.core.limits import REQUEST_MARK_EVERY
from perdure_engine.core.search_attributes import merged
from perdure_engine.core.state import (
    Activity,
    Child,
    ExternalInitiated,
    Folded,
    Timer,
    Update,
    memo_of,
)
from perdure_engine.core.transitions import (
    ACTIVITY,
    CHILD,
    EXTERNAL_CANCEL,
    EXTERNAL_SIGNAL,
    TIMER,
    UPDATE,
    WORKFLOW,
    WORKFLOW_TASK,
    ExternalPhase,
    IllegalMove,
    TimerPhase,
    UpdatePhase,
    WorkflowTaskPhase,
    move,
)
from perdure_engine.core.versions import Versioning


def begin(event: ev.WorkflowExecutionStarted) -> Folded:
    """The fold of the first event."""
    request_ids = {one[0]: one[1] for one in event.request_ids} if event.request_ids else {}
    return Folded(
        event,
        last_time_us=event.time_us,
        activities={},
        timers={},
        request_ids=request_ids,
        search_attributes=event.search_attributes,
        versioning=event.inherited_version,
        versioning_override=event.versioning_override,
    )


def fold(history: Iterable[Event], base: Folded | None = None) -> Folded:
    """Fold events from the first one on, or on top of `base`."""
    folded = base
    for event in history:
        if folded is None:
            if not isinstance(event, ev.WorkflowExecutionStarted):
                raise IllegalMove("a history begins with WorkflowExecutionStarted")
            folded = begin(event)
        else:
            apply(folded, event)
    if folded is None:
        raise IllegalMove("a history has at least one event")
    return folded


def apply(folded: Folded, event: Event) -> None:
    if event.event_id != folded.next_event_id:
        raise IllegalMove(f"event {event.event_id} where {folded.next_event_id} is next")
    if folded.closed is not None:
        raise IllegalMove(f"event {event.event_id} after the run has closed")
    _APPLY[type(event)](folded, event)
    folded.next_event_id += 1
    folded.last_time_us = event.time_us


def _close(event_type: EventType) -> Callable[[Folded, Any], None]:
    def close(folded: Folded, event: Any) -> None:
        folded.status = move(WORKFLOW, folded.status, event_type)
        folded.closed = event
        folded.activities.clear()
        folded.timers.clear()
        folded.workflow_task = WorkflowTaskPhase.NONE
        folded.workflow_task_scheduled_id = 0
        folded.paused = None

    return close


def _signaled(folded: Folded, event: ev.WorkflowExecutionSignaled) -> None:
    folded.status = move(WORKFLOW, folded.status, EventType.WORKFLOW_EXECUTION_SIGNALED)
    folded.signals += 1
    _remember(folded, event)


def _cancel_requested(folded: Folded, event: ev.WorkflowExecutionCancelRequested) -> None:
    folded.status = move(WORKFLOW, folded.status, EventType.WORKFLOW_EXECUTION_CANCEL_REQUESTED)
    folded.cancel_requested = True
    _remember(folded, event)


def _paused(folded: Folded, event: ev.WorkflowExecutionPaused) -> None:
    folded.status = move(WORKFLOW, folded.status, EventType.WORKFLOW_EXECUTION_PAUSED)
    folded.paused = event
    if not event.suspended:  # else it is nobody's request
        _remember(folded, event)


def _unpaused(folded: Folded, event: ev.WorkflowExecutionUnpaused) -> None:
    folded.status = move(WORKFLOW, folded.status, EventType.WORKFLOW_EXECUTION_UNPAUSED)
    if folded.paused is not None and folded.paused.suspended:
        _stood_still(folded, event.time_us - folded.paused.time_us)
    folded.paused = None
    _remember(folded, event)


def _stood_still(folded: Folded, for_us: int) -> None:
    """The timeouts of what waits for an outcome count as if it had been scheduled so much later."""
    for activity in folded.activities.values():
        scheduled = activity.scheduled
        activity.scheduled = structs.replace(scheduled, time_us=scheduled.time_us + for_us)


def _options_updated(folded: Folded, event: ev.WorkflowExecutionOptionsUpdated) -> None:
    folded.status = move(WORKFLOW, folded.status, EventType.WORKFLOW_EXECUTION_OPTIONS_UPDATED)
    folded.versioning_override = event.versioning_override
    _remember(folded, event)


def _remember(
    folded: Folded,
    event: ev.WorkflowExecutionSignaled
    | ev.WorkflowExecutionCancelRequested
    | ev.WorkflowExecutionPaused
    | ev.WorkflowExecutionUnpaused
    | ev.WorkflowExecutionOptionsUpdated,
) -> None:
    """The caller's request id is known from now on; every so often, since when (`core.decide.requests`)."""
    known = folded.request_ids
    known[event.request_id] = event.body_hash
    if len(known) % REQUEST_MARK_EVERY == 0:
        folded.request_marks = [*(folded.request_marks or ()), (len(known), event.time_us)]


def _task_scheduled(folded: Folded, event: ev.WorkflowTaskScheduled) -> None:
    folded.workflow_task = move(
        WORKFLOW_TASK, folded.workflow_task, EventType.WORKFLOW_TASK_SCHEDULED
    )
    folded.workflow_task_scheduled_id = event.event_id


def _task_started(folded: Folded, event: ev.WorkflowTaskStarted) -> None:
    folded.workflow_task = move(
        WORKFLOW_TASK, folded.workflow_task, EventType.WORKFLOW_TASK_STARTED
    )
    folded.workflow_task_started_id = event.event_id


def _task_completed(folded: Folded, event: ev.WorkflowTaskCompleted) -> None:
    _task_ended(folded, EventType.WORKFLOW_TASK_COMPLETED)
    folded.previous_started_id = event.started_event_id
    folded.fan_out = FanOut.of(event.wake_rules) if event.wake_rules else None
    if event.deployment_name:
        folded.versioning = Versioning(event.behavior, event.deployment_name, event.build_id)
    elif folded.versioning is not None:
        folded.versioning = None


def _task_failed(folded: Folded, event: ev.WorkflowTaskFailed) -> None:
    _task_ended(folded, EventType.WORKFLOW_TASK_FAILED)
    if event.base_run_id:
        _begin_anew(folded, event)


def _begin_anew(folded: Folded, event: ev.WorkflowTaskFailed) -> None:
    """After a reset what waits for an outcome is scheduled again: its timeouts count from now on."""
    for activity in folded.activities.values():
        activity.scheduled = msgspec.structs.replace(activity.scheduled, time_us=event.time_us)


def _task_timed_out(folded: Folded, event: ev.WorkflowTaskTimedOut) -> None:
    _task_ended(folded, EventType.WORKFLOW_TASK_TIMED_OUT)


def _task_ended(folded: Folded, event_type: EventType) -> None:
    folded.workflow_task = move(WORKFLOW_TASK, folded.workflow_task, event_type)
    folded.workflow_task_scheduled_id = 0
    folded.workflow_task_started_id = 0


def _activity_scheduled(folded: Folded, event: ev.ActivityTaskScheduled) -> None:
    folded.activities[event.event_id] = Activity(event)


def _activity(folded: Folded, scheduled_event_id: int) -> Activity:
    activity = folded.activities.get(scheduled_event_id)
    if activity is None:
        raise IllegalMove(f"no pending activity was scheduled by event {scheduled_event_id}")
    return activity


def _activity_started(folded: Folded, event: ev.ActivityTaskStarted) -> None:
    activity = _activity(folded, event.scheduled_event_id)
    activity.phase = move(ACTIVITY, activity.phase, EventType.ACTIVITY_TASK_STARTED)


def _activity_cancel_requested(folded: Folded, event: ev.ActivityTaskCancelRequested) -> None:
    activity = _activity(folded, event.scheduled_event_id)
    activity.phase = move(ACTIVITY, activity.phase, EventType.ACTIVITY_TASK_CANCEL_REQUESTED)
    activity.cancel_requested_event_id = event.event_id


def _activity_closed(event_type: EventType) -> Callable[[Folded, Any], None]:
    def closed(folded: Folded, event: Any) -> None:
        activity = _activity(folded, event.scheduled_event_id)
        activity.phase = move(ACTIVITY, activity.phase, event_type)
        del folded.activities[event.scheduled_event_id]
        if folded.fan_out is not None:
            completed = event_type is EventType.ACTIVITY_TASK_COMPLETED
            folded.fan_out.count(activity.scheduled.activity_id, completed=completed)

    return closed


def _timer_started(folded: Folded, event: ev.TimerStarted) -> None:
    if event.timer_id in folded.timers:
        raise IllegalMove(f"timer {event.timer_id!r} is pending already")
    fire_us = event.time_us + event.start_to_fire_ms * 1000
    folded.timers[event.timer_id] = Timer(event.event_id, event.timer_id, fire_us)


def _timer_ended(event_type: EventType) -> Callable[[Folded, Any], None]:
    def ended(folded: Folded, event: Any) -> None:
        timer = folded.timers.get(event.timer_id)
        if timer is None or timer.started_event_id != event.started_event_id:
            raise IllegalMove(
                f"no pending timer {event.timer_id!r} of event {event.started_event_id}"
            )
        move(TIMER, TimerPhase.PENDING, event_type)
        del folded.timers[event.timer_id]

    return ended


def _update_accepted(folded: Folded, event: ev.WorkflowExecutionUpdateAccepted) -> None:
    known = folded.updates.get(event.update_id) if folded.updates is not None else None
    move(
        UPDATE,
        UpdatePhase.ADMITTED if known is None else known.phase,
        EventType.WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    )
    if folded.updates is None:
        folded.updates = {}
    folded.updates[event.update_id] = Update(event.event_id, event.body_hash)
    folded.updates_running += 1


def _update_completed(folded: Folded, event: ev.WorkflowExecutionUpdateCompleted) -> None:
    known = folded.updates.get(event.update_id) if folded.updates is not None else None
    if known is None or known.accepted_event_id != event.accepted_event_id:
        raise IllegalMove(f"no update was accepted by event {event.accepted_event_id}")
    move(UPDATE, known.phase, EventType.WORKFLOW_EXECUTION_UPDATE_COMPLETED)
    known.completed_event_id = event.event_id
    folded.updates_running -= 1


def _update_admitted(folded: Folded, event: ev.WorkflowExecutionUpdateAdmitted) -> None:
    raise IllegalMove("an admitted update waits in the inbox and has no number")


def _marker_recorded(folded: Folded, event: ev.MarkerRecorded) -> None:
    """It says something to workers only."""


def _properties_modified(folded: Folded, event: ev.WorkflowPropertiesModified) -> None:
    folded.memo = memo.merged(memo_of(folded), event.upserted_memo)


def _search_attributes(folded: Folded, event: ev.UpsertWorkflowSearchAttributes) -> None:
    folded.status = move(WORKFLOW, folded.status, EventType.UPSERT_WORKFLOW_SEARCH_ATTRIBUTES)
    folded.search_attributes = merged(folded.search_attributes, event.search_attributes)


def _started_twice(folded: Folded, event: ev.WorkflowExecutionStarted) -> None:
    raise IllegalMove("WorkflowExecutionStarted is the first event and comes once")


# ---- children and other runs


def _child_initiated(folded: Folded, event: out.StartChildWorkflowExecutionInitiated) -> None:
    if folded.children is None:
        folded.children = {}
    folded.children[event.event_id] = Child(event)


def _child(folded: Folded, initiated_event_id: int) -> Child:
    child = folded.children.get(initiated_event_id) if folded.children is not None else None
    if child is None:
        raise IllegalMove(f"no pending child was initiated by event {initiated_event_id}")
    return child


def _child_started(folded: Folded, event: out.ChildWorkflowExecutionStarted) -> None:
    child = _child(folded, event.initiated_event_id)
    child.phase = move(CHILD, child.phase, EventType.CHILD_WORKFLOW_EXECUTION_STARTED)
    child.run_id = event.run_id
    child.started_event_id = event.event_id
    child.initiated = structs.replace(
        child.initiated,
        input=b"",
        header=b"",
        memo=b"",
        search_attributes=(),
        static_summary=b"",
        static_details=b"",
    )


def _child_ended(event_type: EventType) -> Callable[[Folded, Any], None]:
    def ended(folded: Folded, event: Any) -> None:
        child = _child(folded, event.initiated_event_id)
        child.phase = move(CHILD, child.phase, event_type)
        assert folded.children is not None
        del folded.children[event.initiated_event_id]
        folded.children = folded.children or None

    return ended


def _external_initiated(folded: Folded, event: ExternalInitiated) -> None:
    if folded.externals is None:
        folded.externals = {}
    folded.externals[event.event_id] = event


def _external_ended(event_type: EventType) -> Callable[[Folded, Any], None]:
    def ended(folded: Folded, event: Any) -> None:
        externals = folded.externals
        external = externals.get(event.initiated_event_id) if externals is not None else None
        if external is None:
            raise IllegalMove(f"nothing pending was initiated by event {event.initiated_event_id}")
        signals = isinstance(external, out.SignalExternalWorkflowExecutionInitiated)
        table = EXTERNAL_SIGNAL if signals else EXTERNAL_CANCEL
        move(table, ExternalPhase.INITIATED, event_type)
        assert externals is not None
        del externals[event.initiated_event_id]
        folded.externals = externals or None

    return ended


_APPLY: dict[type, Callable[[Folded, Any], None]] = {
    ev.WorkflowExecutionStarted: _started_twice,
    ev.WorkflowExecutionCompleted: _close(EventType.WORKFLOW_EXECUTION_COMPLETED),
    ev.WorkflowExecutionFailed: _close(EventType.WORKFLOW_EXECUTION_FAILED),
    ev.WorkflowExecutionTimedOut: _close(EventType.WORKFLOW_EXECUTION_TIMED_OUT),
    ev.WorkflowExecutionCanceled: _close(EventType.WORKFLOW_EXECUTION_CANCELED),
    ev.WorkflowExecutionTerminated: _close(EventType.WORKFLOW_EXECUTION_TERMINATED),
    ev.WorkflowExecutionContinuedAsNew: _close(EventType.WORKFLOW_EXECUTION_CONTINUED_AS_NEW),
    ev.WorkflowExecutionSignaled: _signaled,
    ev.WorkflowExecutionCancelRequested: _cancel_requested,
    ev.WorkflowTaskScheduled: _task_scheduled,
    ev.WorkflowTaskStarted: _task_started,
    ev.WorkflowTaskCompleted: _task_completed,
    ev.WorkflowTaskFailed: _task_failed,
    ev.WorkflowTaskTimedOut: _task_timed_out,
    ev.ActivityTaskScheduled: _activity_scheduled,
    ev.ActivityTaskStarted: _activity_started,
    ev.ActivityTaskCancelRequested: _activity_cancel_requested,
    ev.ActivityTaskCompleted: _activity_closed(EventType.ACTIVITY_TASK_COMPLETED),
    ev.ActivityTaskFailed: _activity_closed(EventType.ACTIVITY_TASK_FAILED),
    ev.ActivityTaskTimedOut: _activity_closed(EventType.ACTIVITY_TASK_TIMED_OUT),
    ev.ActivityTaskCanceled: _activity_closed(EventType.ACTIVITY_TASK_CANCELED),
    ev.TimerStarted: _timer_started,
    ev.TimerFired: _timer_ended(EventType.TIMER_FIRED),
    ev.TimerCanceled: _timer_ended(EventType.TIMER_CANCELED),
    ev.WorkflowExecutionUpdateAccepted: _update_accepted,
    ev.WorkflowExecutionUpdateCompleted: _update_completed,
    ev.WorkflowExecutionUpdateAdmitted: _update_admitted,
    ev.MarkerRecorded: _marker_recorded,
    ev.WorkflowPropertiesModified: _properties_modified,
    ev.UpsertWorkflowSearchAttributes: _search_attributes,
    out.StartChildWorkflowExecutionInitiated: _child_initiated,
    out.StartChildWorkflowExecutionFailed: _child_ended(
        EventType.START_CHILD_WORKFLOW_EXECUTION_FAILED
    ),
    out.ChildWorkflowExecutionStarted: _child_started,
    out.ChildWorkflowExecutionCompleted: _child_ended(EventType.CHILD_WORKFLOW_EXECUTION_COMPLETED),
    out.ChildWorkflowExecutionFailed: _child_ended(EventType.CHILD_WORKFLOW_EXECUTION_FAILED),
    out.ChildWorkflowExecutionCanceled: _child_ended(EventType.CHILD_WORKFLOW_EXECUTION_CANCELED),
    out.ChildWorkflowExecutionTimedOut: _child_ended(EventType.CHILD_WORKFLOW_EXECUTION_TIMED_OUT),
    out.ChildWorkflowExecutionTerminated: _child_ended(
        EventType.CHILD_WORKFLOW_EXECUTION_TERMINATED
    ),
    out.SignalExternalWorkflowExecutionInitiated: _external_initiated,
    out.SignalExternalWorkflowExecutionFailed: _external_ended(
        EventType.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
    ),
    out.ExternalWorkflowExecutionSignaled: _external_ended(
        EventType.EXTERNAL_WORKFLOW_EXECUTION_SIGNALED
    ),
    out.RequestCancelExternalWorkflowExecutionInitiated: _external_initiated,
    out.RequestCancelExternalWorkflowExecutionFailed: _external_ended(
        EventType.REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
    ),
    out.ExternalWorkflowExecutionCancelRequested: _external_ended(
        EventType.EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED
    ),
    ev.WorkflowExecutionPaused: _paused,
    ev.WorkflowExecutionUnpaused: _unpaused,
    ev.WorkflowExecutionOptionsUpdated: _options_updated,
}
