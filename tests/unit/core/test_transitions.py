"""The tables of legal moves, proved through `apply` on real folds: what is allowed happens, what is not raises
before anything changes, and nothing comes after the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from tests.unit.core import samples

from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.apply import apply, begin, fold
from perdure_engine.core.events import EventType as E
from perdure_engine.core.failures import RetryState, TimeoutType
from perdure_engine.core.state import Folded
from perdure_engine.core.status import Status
from perdure_engine.core.transitions import (
    ACTIVITY,
    CHILD,
    EXTERNAL_CANCEL,
    EXTERNAL_SIGNAL,
    TIMER,
    UPDATE,
    WORKFLOW,
    WORKFLOW_TASK,
    ActivityPhase,
    ChildPhase,
    ExternalPhase,
    IllegalMove,
    TimerPhase,
    UpdatePhase,
    WorkflowTaskPhase,
)

FAILURE = samples.FAILURE
Make = Callable[[int], ev.Event]  # an event, given its id

TIME_US = samples.TIME_US
SCHEDULED_ID = (
    2  # the activity's Scheduled, the timer's Started, the workflow task's Scheduled event
)

CANCEL_ID = 3  # RequestCancelExternal's Initiated event
CHILD_OF = ("child-1", samples.RUN, "Ship")

EVENT: dict[E, Make] = {
    E.WORKFLOW_EXECUTION_STARTED: lambda n: msgspec.structs.replace(samples.STARTED, event_id=n),
    E.WORKFLOW_EXECUTION_COMPLETED: lambda n: ev.WorkflowExecutionCompleted(n, TIME_US, b"", 4),
    E.WORKFLOW_EXECUTION_FAILED: lambda n: ev.WorkflowExecutionFailed(
        n, TIME_US, FAILURE, RetryState.RETRY_POLICY_NOT_SET, 4
    ),
    E.WORKFLOW_EXECUTION_TIMED_OUT: lambda n: ev.WorkflowExecutionTimedOut(
        n, TIME_US, RetryState.TIMEOUT
    ),
    E.WORKFLOW_EXECUTION_CANCELED: lambda n: ev.WorkflowExecutionCanceled(n, TIME_US, b"", 4),
    E.WORKFLOW_EXECUTION_TERMINATED: lambda n: ev.WorkflowExecutionTerminated(
        n, TIME_US, "", b"", "", b"r", b"h"
    ),
    E.WORKFLOW_EXECUTION_CONTINUED_AS_NEW: lambda n: ev.WorkflowExecutionContinuedAsNew(
        n, TIME_US, b"n", "Order", "orders", b"", b"", b"", 0, 10_000, 4, ev.Initiator.WORKFLOW
    ),
    E.WORKFLOW_EXECUTION_SIGNALED: lambda n: ev.WorkflowExecutionSignaled(
        n, TIME_US, "paid", b"", "", b"", b"r", b"h"
    ),
    E.WORKFLOW_EXECUTION_CANCEL_REQUESTED: lambda n: ev.WorkflowExecutionCancelRequested(
        n, TIME_US, "", "", b"r", b"h"
    ),
    E.WORKFLOW_TASK_SCHEDULED: lambda n: ev.WorkflowTaskScheduled(n, TIME_US, "orders", 10_000, 1),
    E.WORKFLOW_TASK_STARTED: lambda n: ev.WorkflowTaskStarted(
        n, TIME_US, SCHEDULED_ID, "", 0, False
    ),
    E.WORKFLOW_TASK_COMPLETED: lambda n: ev.WorkflowTaskCompleted(
        n, TIME_US, SCHEDULED_ID, 3, "", ""
    ),
    E.WORKFLOW_TASK_FAILED: lambda n: ev.WorkflowTaskFailed(
        n, TIME_US, SCHEDULED_ID, 3, ev.WorkflowTaskFailedCause.BAD_COMMAND, FAILURE, ""
    ),
    E.WORKFLOW_TASK_TIMED_OUT: lambda n: ev.WorkflowTaskTimedOut(
        n, TIME_US, SCHEDULED_ID, 3, TimeoutType.START_TO_CLOSE
    ),
    E.ACTIVITY_TASK_SCHEDULED: lambda n: msgspec.structs.replace(samples.SCHEDULED, event_id=n),
    E.ACTIVITY_TASK_STARTED: lambda n: ev.ActivityTaskStarted(
        n, TIME_US, SCHEDULED_ID, "", 1, None
    ),
    E.ACTIVITY_TASK_COMPLETED: lambda n: ev.ActivityTaskCompleted(
        n, TIME_US, b"", SCHEDULED_ID, 3, ""
    ),
    E.ACTIVITY_TASK_FAILED: lambda n: ev.ActivityTaskFailed(
        n, TIME_US, FAILURE, SCHEDULED_ID, 3, "", RetryState.TIMEOUT
    ),
    E.ACTIVITY_TASK_TIMED_OUT: lambda n: ev.ActivityTaskTimedOut(
        n, TIME_US, FAILURE, SCHEDULED_ID, 3, RetryState.TIMEOUT
    ),
    E.ACTIVITY_TASK_CANCEL_REQUESTED: lambda n: ev.ActivityTaskCancelRequested(
        n, TIME_US, SCHEDULED_ID, 4
    ),
    E.ACTIVITY_TASK_CANCELED: lambda n: ev.ActivityTaskCanceled(
        n, TIME_US, b"", 3, SCHEDULED_ID, 0, ""
    ),
    E.TIMER_STARTED: lambda n: ev.TimerStarted(n, TIME_US, "t", 1_000, 4),
    E.TIMER_FIRED: lambda n: ev.TimerFired(n, TIME_US, "t", SCHEDULED_ID),
    E.TIMER_CANCELED: lambda n: ev.TimerCanceled(n, TIME_US, "t", SCHEDULED_ID, 4, ""),
    E.WORKFLOW_EXECUTION_UPDATE_ACCEPTED: lambda n: ev.WorkflowExecutionUpdateAccepted(
        n, TIME_US, "u", "set", b"", b"", "", b"h", 4
    ),
    E.WORKFLOW_EXECUTION_UPDATE_COMPLETED: lambda n: ev.WorkflowExecutionUpdateCompleted(
        n, TIME_US, "u", SCHEDULED_ID, b"", None, 4
    ),
    E.WORKFLOW_EXECUTION_UPDATE_ADMITTED: lambda n: ev.WorkflowExecutionUpdateAdmitted(
        n, TIME_US, "u", "set", b"", b"", "", b"h"
    ),
    E.MARKER_RECORDED: lambda n: ev.MarkerRecorded(n, TIME_US, "m", b"", 4, b"", None),
    E.WORKFLOW_PROPERTIES_MODIFIED: lambda n: ev.WorkflowPropertiesModified(n, TIME_US, 4, b""),
    E.UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: lambda n: ev.UpsertWorkflowSearchAttributes(
        n, TIME_US, samples.ATTRIBUTES, 4
    ),
    E.REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: lambda n: msgspec.structs.replace(
        samples.CANCEL_INITIATED, event_id=n
    ),
    E.REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED: lambda n: (
        out.RequestCancelExternalWorkflowExecutionFailed(
            n, TIME_US, CANCEL_ID, "order-18", b"", out.ExternalFailedCause.NOT_FOUND
        )
    ),
    E.EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED: lambda n: (
        out.ExternalWorkflowExecutionCancelRequested(n, TIME_US, CANCEL_ID, "order-18", b"")
    ),
    E.START_CHILD_WORKFLOW_EXECUTION_INITIATED: lambda n: msgspec.structs.replace(
        samples.CHILD_INITIATED, event_id=n
    ),
    E.START_CHILD_WORKFLOW_EXECUTION_FAILED: lambda n: out.StartChildWorkflowExecutionFailed(
        n, TIME_US, SCHEDULED_ID, "child-1", "Ship", out.StartChildFailedCause.ALREADY_EXISTS
    ),
    E.CHILD_WORKFLOW_EXECUTION_STARTED: lambda n: out.ChildWorkflowExecutionStarted(
        n, TIME_US, SCHEDULED_ID, "child-1", samples.RUN, "Ship"
    ),
    E.CHILD_WORKFLOW_EXECUTION_COMPLETED: lambda n: out.ChildWorkflowExecutionCompleted(
        n, TIME_US, SCHEDULED_ID, 3, *CHILD_OF, b""
    ),
    E.CHILD_WORKFLOW_EXECUTION_FAILED: lambda n: out.ChildWorkflowExecutionFailed(
        n, TIME_US, SCHEDULED_ID, 3, *CHILD_OF, FAILURE, RetryState.TIMEOUT
    ),
    E.CHILD_WORKFLOW_EXECUTION_CANCELED: lambda n: out.ChildWorkflowExecutionCanceled(
        n, TIME_US, SCHEDULED_ID, 3, *CHILD_OF, b""
    ),
    E.CHILD_WORKFLOW_EXECUTION_TIMED_OUT: lambda n: out.ChildWorkflowExecutionTimedOut(
        n, TIME_US, SCHEDULED_ID, 3, *CHILD_OF, RetryState.TIMEOUT
    ),
    E.CHILD_WORKFLOW_EXECUTION_TERMINATED: lambda n: out.ChildWorkflowExecutionTerminated(
        n, TIME_US, SCHEDULED_ID, 3, *CHILD_OF
    ),
    E.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: lambda n: msgspec.structs.replace(
        samples.SIGNAL_INITIATED, event_id=n
    ),
    E.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED: lambda n: (
        out.SignalExternalWorkflowExecutionFailed(
            n, TIME_US, SCHEDULED_ID, "order-18", b"", out.ExternalFailedCause.LIMIT
        )
    ),
    E.EXTERNAL_WORKFLOW_EXECUTION_SIGNALED: lambda n: out.ExternalWorkflowExecutionSignaled(
        n, TIME_US, SCHEDULED_ID, "order-18", b""
    ),
    E.WORKFLOW_EXECUTION_PAUSED: lambda n: ev.WorkflowExecutionPaused(
        n, TIME_US, "", "", b"p", b"h"
    ),
    E.WORKFLOW_EXECUTION_UNPAUSED: lambda n: ev.WorkflowExecutionUnpaused(
        n, TIME_US, "", "", b"u", b"h"
    ),
    E.WORKFLOW_EXECUTION_OPTIONS_UPDATED: lambda n: ev.WorkflowExecutionOptionsUpdated(
        n, TIME_US, None, "", b"request", b"hash"
    ),
}

CHILD_OPENS = [E.START_CHILD_WORKFLOW_EXECUTION_INITIATED]
CHILD_STARTS = [*CHILD_OPENS, E.CHILD_WORKFLOW_EXECUTION_STARTED]
EXTERNALS = [
    E.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
    E.REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
]
# The events that bring a new run into each phase of each automaton.
A = E.ACTIVITY_TASK_SCHEDULED
T = E.TIMER_STARTED
W = E.WORKFLOW_TASK_SCHEDULED
PATHS: dict[str, list[E]] = {
    "Status.RUNNING": [],
    "Status.COMPLETED": [E.WORKFLOW_EXECUTION_COMPLETED],
    "Status.FAILED": [E.WORKFLOW_EXECUTION_FAILED],
    "Status.TIMED_OUT": [E.WORKFLOW_EXECUTION_TIMED_OUT],
    "Status.CANCELED": [E.WORKFLOW_EXECUTION_CANCELED],
    "Status.TERMINATED": [E.WORKFLOW_EXECUTION_TERMINATED],
    "Status.PAUSED": [E.WORKFLOW_EXECUTION_PAUSED],
    "WorkflowTaskPhase.NONE": [],
    "WorkflowTaskPhase.SCHEDULED": [W],
    "WorkflowTaskPhase.STARTED": [W, E.WORKFLOW_TASK_STARTED],
    "ActivityPhase.SCHEDULED": [A],
    "ActivityPhase.CANCEL_REQUESTED": [A, E.ACTIVITY_TASK_CANCEL_REQUESTED],
    "ActivityPhase.STARTED": [A, E.ACTIVITY_TASK_STARTED],
    "ActivityPhase.CLOSED": [A, E.ACTIVITY_TASK_STARTED, E.ACTIVITY_TASK_COMPLETED],
    "TimerPhase.PENDING": [T],
    "TimerPhase.FIRED": [T, E.TIMER_FIRED],
    "TimerPhase.CANCELED": [T, E.TIMER_CANCELED],
    "UpdatePhase.ADMITTED": [],
    "UpdatePhase.ACCEPTED": [E.WORKFLOW_EXECUTION_UPDATE_ACCEPTED],
    "UpdatePhase.COMPLETED": [
        E.WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        E.WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    ],
    "ChildPhase.INITIATED": CHILD_OPENS,
    "ChildPhase.STARTED": CHILD_STARTS,
    "ChildPhase.CLOSED": [*CHILD_STARTS, E.CHILD_WORKFLOW_EXECUTION_COMPLETED],
    "ChildPhase.START_FAILED": [*CHILD_OPENS, E.START_CHILD_WORKFLOW_EXECUTION_FAILED],
    "ExternalPhase.INITIATED": EXTERNALS,
    "ExternalPhase.ARRIVED": [
        *EXTERNALS,
        E.EXTERNAL_WORKFLOW_EXECUTION_SIGNALED,
        E.EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED,
    ],
    "ExternalPhase.FAILED": [
        *EXTERNALS,
        E.SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED,
        E.REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED,
    ],
}
TABLES: dict[str, tuple[dict[Any, Any], list[Any]]] = {
    # continue-as-new has no event yet, so no run is brought to that status
    "WORKFLOW": (WORKFLOW, [s for s in Status if s is not Status.CONTINUED_AS_NEW]),
    "WORKFLOW_TASK": (WORKFLOW_TASK, list(WorkflowTaskPhase)),
    "ACTIVITY": (ACTIVITY, list(ActivityPhase)),
    "TIMER": (TIMER, list(TimerPhase)),
    "UPDATE": (UPDATE, list(UpdatePhase)),
    "CHILD": (CHILD, list(ChildPhase)),
    "EXTERNAL_SIGNAL": (EXTERNAL_SIGNAL, list(ExternalPhase)),
    "EXTERNAL_CANCEL": (EXTERNAL_CANCEL, list(ExternalPhase)),
}
LEGAL = [
    (name, phase, event, after)
    for name, (table, _) in TABLES.items()
    for (phase, event), after in table.items()
]
ILLEGAL = [
    (name, phase, event)
    for name, (table, phases) in TABLES.items()
    for phase, event in itertools.product(phases, sorted({event for _, event in table}))
    if (phase, event) not in table
]


def text(value: Any) -> str:
    return value if isinstance(value, str) else value.name


def run_in(phase: Any) -> Folded:
    """A real fold whose automaton is in that phase."""
    folded = begin(samples.STARTED)
    for event in PATHS[f"{type(phase).__name__}.{phase.name}"]:
        apply(folded, EVENT[event](folded.next_event_id))
    return folded


def phase_of(name: str, folded: Folded, event: ev.Event) -> Any:
    match name:
        case "WORKFLOW":
            return folded.status
        case "WORKFLOW_TASK":
            return folded.workflow_task
        case "ACTIVITY":
            activity = folded.activities.get(SCHEDULED_ID)
            return ActivityPhase.CLOSED if activity is None else activity.phase
        case "UPDATE":
            return (folded.updates or {})["u"].phase
        case "CHILD":
            child = (folded.children or {}).get(SCHEDULED_ID)
            if child is not None:
                return child.phase
            failed = isinstance(event, out.StartChildWorkflowExecutionFailed)
            return ChildPhase.START_FAILED if failed else ChildPhase.CLOSED
        case "EXTERNAL_SIGNAL" | "EXTERNAL_CANCEL":
            initiated = SCHEDULED_ID if name == "EXTERNAL_SIGNAL" else CANCEL_ID
            if initiated in (folded.externals or {}):
                return ExternalPhase.INITIATED
            return ExternalPhase.FAILED if hasattr(event, "cause") else ExternalPhase.ARRIVED
        case _:
            if "t" in folded.timers:
                return TimerPhase.PENDING
            return TimerPhase.FIRED if isinstance(event, ev.TimerFired) else TimerPhase.CANCELED


@pytest.mark.parametrize(("name", "phase", "event_type", "after"), LEGAL, ids=text)
def test_a_legal_move_happens(name: str, phase: Any, event_type: E, after: Any) -> None:
    folded = run_in(phase)
    event = EVENT[event_type](folded.next_event_id)

    apply(folded, event)

    assert phase_of(name, folded, event) is after
    assert folded.next_event_id == event.event_id + 1
    assert folded.last_time_us == event.time_us


@pytest.mark.parametrize(("name", "phase", "event_type"), ILLEGAL, ids=text)
def test_an_illegal_move_raises_and_changes_nothing(name: str, phase: Any, event_type: E) -> None:
    assert refused(run_in(phase), event_type)


def refused(folded: Folded, event_type: E) -> bool:
    """Whether the event raises IllegalMove. If so, the fold is as it was, byte for byte."""
    before = msgspec.msgpack.encode(folded)
    try:
        apply(folded, EVENT[event_type](folded.next_event_id))
    except IllegalMove:
        assert msgspec.msgpack.encode(folded) == before
        return True
    return False


OPEN = (Status.RUNNING, Status.PAUSED)
CLOSINGS = [
    event
    for (before, event), after in WORKFLOW.items()
    if before is Status.RUNNING and after not in OPEN
]


@pytest.mark.parametrize("event_type", list(E), ids=text)
@pytest.mark.parametrize("closing", CLOSINGS, ids=text)
def test_invariant_3_no_event_follows_the_terminal_one(closing: E, event_type: E) -> None:
    folded = begin(samples.STARTED)
    apply(folded, EVENT[closing](2))

    assert refused(folded, event_type)


def test_every_terminal_event_ends_whatever_was_pending() -> None:
    for closing in CLOSINGS:
        folded = begin(samples.STARTED)
        for event in (E.ACTIVITY_TASK_SCHEDULED, E.TIMER_STARTED, E.WORKFLOW_TASK_SCHEDULED):
            apply(folded, EVENT[event](folded.next_event_id))
        apply(folded, EVENT[closing](5))
        assert (folded.activities, folded.timers) == ({}, {})
        assert folded.workflow_task is WorkflowTaskPhase.NONE
        assert folded.closed == EVENT[closing](5)


def test_the_terminal_events_are_the_closing_ones() -> None:
    assert {type(EVENT[event](2)) for event in CLOSINGS} == set(get_args(ev.ClosingEvent))


@pytest.mark.parametrize("event_id", [0, 1, 3, 99])
def test_invariant_1_a_gap_or_a_repeat_in_the_numbers_is_illegal(event_id: int) -> None:
    folded = begin(samples.STARTED)
    before = msgspec.msgpack.encode(folded)

    with pytest.raises(IllegalMove):
        apply(folded, EVENT[E.WORKFLOW_TASK_SCHEDULED](event_id))

    assert msgspec.msgpack.encode(folded) == before


def test_invariant_3_a_history_begins_with_started_and_has_it_once() -> None:
    with pytest.raises(IllegalMove):
        fold([EVENT[E.WORKFLOW_TASK_SCHEDULED](1)])
    with pytest.raises(IllegalMove):
        fold([])
    assert refused(begin(samples.STARTED), E.WORKFLOW_EXECUTION_STARTED)


@pytest.mark.parametrize(
    "event_type",
    [
        E.ACTIVITY_TASK_STARTED,
        E.ACTIVITY_TASK_CANCEL_REQUESTED,
        E.ACTIVITY_TASK_COMPLETED,
        E.ACTIVITY_TASK_FAILED,
        E.ACTIVITY_TASK_TIMED_OUT,
        E.ACTIVITY_TASK_CANCELED,
        E.TIMER_FIRED,
        E.TIMER_CANCELED,
        E.WORKFLOW_EXECUTION_UPDATE_COMPLETED,
        E.WORKFLOW_EXECUTION_UPDATE_ADMITTED,
        *sorted({e for table in (CHILD, EXTERNAL_SIGNAL, EXTERNAL_CANCEL) for _, e in table}),
    ],
    ids=text,
)
def test_what_was_never_there_does_not_move(event_type: E) -> None:
    assert refused(begin(samples.STARTED), event_type)


def test_a_timer_that_is_pending_is_not_started_again() -> None:
    assert refused(run_in(TimerPhase.PENDING), E.TIMER_STARTED)


def test_invariant_22_the_outcome_of_an_older_timer_of_that_name_does_not_end_the_new_one() -> None:
    folded = run_in(TimerPhase.FIRED)
    apply(folded, EVENT[E.TIMER_STARTED](folded.next_event_id))

    assert refused(folded, E.TIMER_FIRED)
    assert refused(folded, E.TIMER_CANCELED)


def test_every_event_type_is_applied_here() -> None:
    assert EVENT.keys() == set(E)
    assert [type(make(2)) for make in EVENT.values()] == [
        t for e in EVENT for t in get_args(ev.Event) if t.__struct_config__.tag == e
    ]


def test_a_fold_goes_on_from_a_snapshot() -> None:
    history = [
        samples.STARTED,
        *(EVENT[e](n) for n, e in enumerate((E.TIMER_STARTED, W, E.TIMER_FIRED), start=2)),
    ]

    for cut in range(1, len(history)):
        assert fold(history[cut:], fold(history[:cut])) == fold(history)
