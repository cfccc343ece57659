"""The legal moves of every automaton, one table each.

`apply` looks every event up here; what is not in the table raises `IllegalMove` before anything changes, and
means that memory, history and code do not agree. `decide` never emits such an event.

A workflow task's and an activity's Started events are written together with their outcome (design §6), so the
STARTED phases last only for the rest of their batch of events.
"""

from __future__ import annotations

import enum
from typing import TypeVar

from perdure_engine.core.events import EventType as E
from perdure_engine.core.status import Status


class WorkflowTaskPhase(enum.IntEnum):
    NONE = 0
    SCHEDULED = 1
    STARTED = 2


class ActivityPhase(enum.IntEnum):
    SCHEDULED = 1
    CANCEL_REQUESTED = 2
    STARTED = 3
    CLOSED = 4


class TimerPhase(enum.IntEnum):
    PENDING = 1
    FIRED = 2
    CANCELED = 3


class UpdatePhase(enum.IntEnum):
    ADMITTED = 1  # in the inbox; history knows nothing of it
    ACCEPTED = 2
    COMPLETED = 3


class ChildPhase(enum.IntEnum):
    INITIATED = 1  # its start is on its way, or answered and not numbered yet
    STARTED = 2
    CLOSED = 3
    START_FAILED = 4


class ExternalPhase(enum.IntEnum):
    """Of a signal or a request to cancel that is carried to another run."""

    INITIATED = 1
    ARRIVED = 2
    FAILED = 3


class IllegalMove(Exception):
    """An event that the automaton's table does not allow in its present phase."""


P = TypeVar(
    "P",
    Status,
    WorkflowTaskPhase,
    ActivityPhase,
    TimerPhase,
    UpdatePhase,
    ChildPhase,
    ExternalPhase,
)
Table = dict[tuple[P, E], P]

WORKFLOW: Table[Status] = {
    (Status.RUNNING, E.WORKFLOW_EXECUTION_SIGNALED): Status.RUNNING,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_CANCEL_REQUESTED): Status.RUNNING,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_COMPLETED): Status.COMPLETED,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_FAILED): Status.FAILED,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_TIMED_OUT): Status.TIMED_OUT,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_CANCELED): Status.CANCELED,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_TERMINATED): Status.TERMINATED,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_CONTINUED_AS_NEW): Status.CONTINUED_AS_NEW,
    (Status.RUNNING, E.UPSERT_WORKFLOW_SEARCH_ATTRIBUTES): Status.RUNNING,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_PAUSED): Status.PAUSED,
    (Status.PAUSED, E.WORKFLOW_EXECUTION_UNPAUSED): Status.RUNNING,
    (Status.PAUSED, E.WORKFLOW_EXECUTION_SIGNALED): Status.PAUSED,
    (Status.PAUSED, E.WORKFLOW_EXECUTION_CANCEL_REQUESTED): Status.PAUSED,
    (Status.PAUSED, E.WORKFLOW_EXECUTION_TIMED_OUT): Status.TIMED_OUT,
    (Status.PAUSED, E.WORKFLOW_EXECUTION_TERMINATED): Status.TERMINATED,
    (Status.RUNNING, E.WORKFLOW_EXECUTION_OPTIONS_UPDATED): Status.RUNNING,
    (Status.PAUSED, E.WORKFLOW_EXECUTION_OPTIONS_UPDATED): Status.PAUSED,
}

WORKFLOW_TASK: Table[WorkflowTaskPhase] = {
    (WorkflowTaskPhase.NONE, E.WORKFLOW_TASK_SCHEDULED): WorkflowTaskPhase.SCHEDULED,
    (WorkflowTaskPhase.SCHEDULED, E.WORKFLOW_TASK_STARTED): WorkflowTaskPhase.STARTED,
    (WorkflowTaskPhase.STARTED, E.WORKFLOW_TASK_COMPLETED): WorkflowTaskPhase.NONE,
    (WorkflowTaskPhase.STARTED, E.WORKFLOW_TASK_FAILED): WorkflowTaskPhase.NONE,
    (WorkflowTaskPhase.STARTED, E.WORKFLOW_TASK_TIMED_OUT): WorkflowTaskPhase.NONE,
}

ACTIVITY: Table[ActivityPhase] = {
    (ActivityPhase.SCHEDULED, E.ACTIVITY_TASK_STARTED): ActivityPhase.STARTED,
    (ActivityPhase.SCHEDULED, E.ACTIVITY_TASK_CANCEL_REQUESTED): ActivityPhase.CANCEL_REQUESTED,
    (ActivityPhase.SCHEDULED, E.ACTIVITY_TASK_TIMED_OUT): ActivityPhase.CLOSED,
    (ActivityPhase.CANCEL_REQUESTED, E.ACTIVITY_TASK_STARTED): ActivityPhase.STARTED,
    (ActivityPhase.CANCEL_REQUESTED, E.ACTIVITY_TASK_CANCELED): ActivityPhase.CLOSED,
    (ActivityPhase.CANCEL_REQUESTED, E.ACTIVITY_TASK_TIMED_OUT): ActivityPhase.CLOSED,
    (ActivityPhase.STARTED, E.ACTIVITY_TASK_COMPLETED): ActivityPhase.CLOSED,
    (ActivityPhase.STARTED, E.ACTIVITY_TASK_FAILED): ActivityPhase.CLOSED,
    (ActivityPhase.STARTED, E.ACTIVITY_TASK_TIMED_OUT): ActivityPhase.CLOSED,
    (ActivityPhase.STARTED, E.ACTIVITY_TASK_CANCELED): ActivityPhase.CLOSED,
}

TIMER: Table[TimerPhase] = {
    (TimerPhase.PENDING, E.TIMER_FIRED): TimerPhase.FIRED,
    (TimerPhase.PENDING, E.TIMER_CANCELED): TimerPhase.CANCELED,
}

UPDATE: Table[UpdatePhase] = {
    (UpdatePhase.ADMITTED, E.WORKFLOW_EXECUTION_UPDATE_ACCEPTED): UpdatePhase.ACCEPTED,
    (UpdatePhase.ACCEPTED, E.WORKFLOW_EXECUTION_UPDATE_COMPLETED): UpdatePhase.COMPLETED,
}

CHILD: Table[ChildPhase] = {
    (ChildPhase.INITIATED, E.CHILD_WORKFLOW_EXECUTION_STARTED): ChildPhase.STARTED,
    (ChildPhase.INITIATED, E.START_CHILD_WORKFLOW_EXECUTION_FAILED): ChildPhase.START_FAILED,
    # the start was taken back before it was sent
    (ChildPhase.INITIATED, E.CHILD_WORKFLOW_EXECUTION_CANCELED): ChildPhase.CLOSED,
    (ChildPhase.STARTED, E.CHILD_WORKFLOW_EXECUTION_COMPLETED): ChildPhase.CLOSED,
    (ChildPhase.STARTED, E.CHILD_WORKFLOW_EXECUTION_FAILED): ChildPhase.CLOSED,
    (ChildPhase.STARTED, E.CHILD_WORKFLOW_EXECUTION_CANCELED): ChildPhase.CLOSED,
    (ChildPhase.STARTED, E.CHILD_WORKFLOW_EXECUTION_TIMED_OUT): ChildPhase.CLOSED,
    (ChildPhase.STARTED, E.CHILD_WORKFLOW_EXECUTION_TERMINATED): ChildPhase.CLOSED,
}

EXTERNAL_SIGNAL: Table[ExternalPhase] = {
    (ExternalPhase.INITIATED, E.EXTERNAL_WORKFLOW_EXECUTION_SIGNALED): ExternalPhase.ARRIVED,
    (ExternalPhase.INITIATED, E.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED): ExternalPhase.FAILED,
}

EXTERNAL_CANCEL: Table[ExternalPhase] = {
    (
        ExternalPhase.INITIATED,
        E.EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED,
    ): ExternalPhase.ARRIVED,
    (
        ExternalPhase.INITIATED,
        E.REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED,
    ): ExternalPhase.FAILED,
}


def move(table: dict[tuple[P, E], P], phase: P, event: E) -> P:
    """The phase after `event`. Raises IllegalMove when the table has no such move."""
    after = table.get((phase, event))
    if after is None:
        raise IllegalMove(f"{event.name} in {type(phase).__name__}.{phase.name}")
    return after
