"""What the history will say next, if nothing else happens to the run: for a worker that goes ahead.

Of a run in memory all is known but the numbers and times that the engine gives; and those follow
from the commands, one event for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perdure._replay.messages import (
    ActivityTaskCompleted,
    ActivityTaskScheduled,
    CancelTimer,
    Command,
    Event,
    MarkerRecorded,
    ModifyProperties,
    OtherEvent,
    Payloads,
    RecordMarker,
    ScheduleActivity,
    StartTimer,
    Task,
    TimerCanceled,
    TimerStarted,
    UpsertSearchAttributes,
    UpsertWorkflowSearchAttributes,
    WorkflowPropertiesModified,
    WorkflowTaskCompleted,
    WorkflowTaskStarted,
)
from perdure._replay.run import WorkflowRun


def _scheduled(command: ScheduleActivity, event_id: int, time_us: int) -> Event:
    return ActivityTaskScheduled(
        event_id=event_id,
        time_us=time_us,
        activity_id=command.activity_id,
        activity_type=command.activity_type,
        version=command.version,
    )


def _timer_started(command: StartTimer, event_id: int, time_us: int) -> Event:
    return TimerStarted(
        event_id=event_id,
        time_us=time_us,
        timer_id=command.timer_id,
        start_to_fire_ms=command.start_to_fire_ms,
    )


def _timer_canceled(command: CancelTimer, event_id: int, time_us: int) -> Event:
    return TimerCanceled(
        event_id=event_id, time_us=time_us, timer_id=command.timer_id, started_event_id=0
    )


def _marker(command: RecordMarker, event_id: int, time_us: int) -> Event:
    return MarkerRecorded(
        event_id=event_id,
        time_us=time_us,
        marker_name=command.marker_name,
        marker_id=command.marker_id,
        details=command.details,
        failure=command.failure,
    )


def _properties(_: ModifyProperties, event_id: int, time_us: int) -> Event:
    return WorkflowPropertiesModified(event_id=event_id, time_us=time_us)


def _attributes(_: UpsertSearchAttributes, event_id: int, time_us: int) -> Event:
    return UpsertWorkflowSearchAttributes(event_id=event_id, time_us=time_us)


# Those of which the engine makes one event each, whatever happens. Nobody goes ahead over the others.
_EVENT_OF: dict[type[Command], Callable[[Any, int, int], Event]] = {
    ScheduleActivity: _scheduled,
    StartTimer: _timer_started,
    CancelTimer: _timer_canceled,
    RecordMarker: _marker,
    ModifyProperties: _properties,
    UpsertSearchAttributes: _attributes,
}


class Known(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How far a run in memory has come."""

    last_event_id: int  # that it has read
    ran_event_id: int  # of the Started event of the last workflow task that was run; 0: none
    is_completed: bool  # it has read that one's Completed, and what its commands became
    version: tuple[str, str]  # of the worker: deployment and build


def task_ahead(
    run: WorkflowRun, known: Known, activity_id: str, result: Payloads, now_us: int
) -> Task | None:
    """The workflow task that the activity's result leads to. None: that is not certain, or the run
    waits for other activities too, whose outcomes may come between."""
    begun = run.started
    if begun is None or not known.ran_event_id:
        return None
    if run.local is not None and not run.local.is_quiet:
        return None  # its outcomes belong to the task that comes
    asked = [] if known.is_completed else _events_asked_for(run, known, now_us)
    if asked is None:
        return None
    scheduled_event_id = _sole_activity(run, asked, activity_id)
    if not scheduled_event_id:
        return None
    event_id = known.last_event_id + len(asked)
    events = [
        *asked,
        OtherEvent(event_id=event_id + 1, time_us=now_us),  # ActivityTaskStarted
        ActivityTaskCompleted(
            event_id=event_id + 2,
            time_us=now_us,
            scheduled_event_id=scheduled_event_id,
            result=result,
        ),
        OtherEvent(event_id=event_id + 3, time_us=now_us),  # WorkflowTaskScheduled
        WorkflowTaskStarted(
            event_id=event_id + 4,
            time_us=now_us,
            history_size_bytes=run.history_size_bytes,
            suggest_continue_as_new=run.suggest_continue_as_new,
        ),
    ]
    return Task(
        token=b"",
        workflow_id=begun.workflow_id,
        run_id=begun.run_id,
        workflow_type=begun.workflow_type,
        attempt=1,
        previous_started_event_id=known.ran_event_id,
        started_event_id=events[-1].event_id,
        events=events,
        queries=[],
        query_only=False,
        history_size_bytes=run.history_size_bytes,
        suggest_continue_as_new=run.suggest_continue_as_new,
    )


def _events_asked_for(run: WorkflowRun, known: Known, time_us: int) -> list[Event] | None:
    """The Completed of the last workflow task and what its commands become. None: that is not certain."""
    event_id = known.last_event_id + 1
    deployment_name, build_id = known.version
    events: list[Event] = [
        WorkflowTaskCompleted(
            event_id=event_id, time_us=time_us, build_id=build_id, deployment_name=deployment_name
        )
    ]
    for command in run.ledger.unconfirmed:
        make = _EVENT_OF.get(type(command))
        if make is None:
            return None
        event_id += 1
        events.append(make(command, event_id, time_us))
    return events


def _sole_activity(run: WorkflowRun, asked: Sequence[Event], activity_id: str) -> int:
    """By the id of its Scheduled event. 0: it is not the only one that is open."""
    open_ids = [
        (one.event_id, one.activity_id) for one in asked if isinstance(one, ActivityTaskScheduled)
    ]
    open_ids += [(event_id, one.activity_id) for event_id, one in run.activities.items()]
    if len(open_ids) != 1 or open_ids[0][1] != activity_id:
        return 0
    return open_ids[0][0]
