"""What the code asked for, in order, and what the history says that it asked for.

Commands are entered while the code runs (`add`), leave together (`seal`), and stand there until the
history shows their workflow task completed (`confirm`); then the events that the engine made of
them follow in the same order (`record`), and nothing may be left over (`check_settled`). On replay
the same happens, only that the commands are not sent; so one comparison finds every deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import NoReturn

import msgspec

from perdure._replay.callsite import CallSite, call_site
from perdure._replay.external_messages import (
    RequestCancelExternalWorkflow,
    RequestCancelExternalWorkflowExecutionInitiated,
    SignalExternalWorkflow,
    SignalExternalWorkflowExecutionInitiated,
    StartChildWorkflow,
    StartChildWorkflowExecutionInitiated,
)
from perdure._replay.loop import BOUNDARY
from perdure._replay.machines.moves import Described
from perdure._replay.messages import (
    AcceptUpdate,
    ActivityTaskCancelRequested,
    ActivityTaskScheduled,
    CancelTimer,
    CancelWorkflow,
    Command,
    CompleteUpdate,
    CompleteWorkflow,
    ContinueAsNew,
    Event,
    FailWorkflow,
    MarkerRecorded,
    ModifyProperties,
    RecordMarker,
    RequestCancelActivity,
    ScheduleActivity,
    StartTimer,
    TimerCanceled,
    TimerStarted,
    UpdateAccepted,
    UpdateCompleted,
    UpsertSearchAttributes,
    UpsertWorkflowSearchAttributes,
    WorkflowExecutionClosed,
    WorkflowPropertiesModified,
)
from perdure.errors import NondeterminismError

# Which event the engine makes of a command, and the fields that must agree. A timer's duration or
# an activity's options may change between versions of the code: what happened stands.
_EVENTS: dict[type[Command], tuple[type[Event], tuple[str, ...]]] = {
    ScheduleActivity: (ActivityTaskScheduled, ("activity_id", "activity_type")),
    RequestCancelActivity: (ActivityTaskCancelRequested, ("scheduled_event_id",)),
    StartTimer: (TimerStarted, ("timer_id",)),
    CancelTimer: (TimerCanceled, ("timer_id",)),
    CompleteWorkflow: (WorkflowExecutionClosed, ()),
    FailWorkflow: (WorkflowExecutionClosed, ()),
    CancelWorkflow: (WorkflowExecutionClosed, ()),
    ContinueAsNew: (WorkflowExecutionClosed, ()),
    AcceptUpdate: (UpdateAccepted, ("update_id",)),
    CompleteUpdate: (UpdateCompleted, ("update_id",)),
    RecordMarker: (MarkerRecorded, ("marker_name", "marker_id")),
    ModifyProperties: (WorkflowPropertiesModified, ()),
    UpsertSearchAttributes: (UpsertWorkflowSearchAttributes, ()),
    StartChildWorkflow: (StartChildWorkflowExecutionInitiated, ("workflow_id", "workflow_type")),
    SignalExternalWorkflow: (
        SignalExternalWorkflowExecutionInitiated,
        ("workflow_id", "signal_name"),
    ),
    RequestCancelExternalWorkflow: (
        RequestCancelExternalWorkflowExecutionInitiated,
        ("workflow_id",),
    ),
}
_CLOSING_EVENTS: dict[type[Command], str] = {
    CompleteWorkflow: "WorkflowExecutionCompleted",
    FailWorkflow: "WorkflowExecutionFailed",
    CancelWorkflow: "WorkflowExecutionCanceled",
    ContinueAsNew: "WorkflowExecutionContinuedAsNew",
}
COMMAND_EVENTS = frozenset(kind for kind, _ in _EVENTS.values())


class Entry:
    """A command on its way. `command` is None once it was taken back."""

    __slots__ = ("command", "machine", "site")

    def __init__(self, command: Command, machine: Described | None, site: CallSite | None) -> None:
        self.command: Command | None = command
        self.machine = machine
        self.site = site


class Ledger:
    """`waiting` says where the code waits, for errors about what it did not do."""

    def __init__(self, waiting: Callable[[], str]) -> None:
        self._waiting = waiting
        self._made: list[Entry] = []
        self._unconfirmed: list[Entry] = []
        self._expected: list[Entry] = []  # in reverse: the next one is the last
        self.observe: Callable[[Event, Entry], None] | None = None  # of each event with its command
        self._closed = False

    def add(self, command: Command, machine: Described | None) -> Entry:
        entry = Entry(command, machine, call_site(BOUNDARY))
        if self._closed:
            self._add_late(entry)
        else:
            self._made.append(entry)
        return entry

    def close(self) -> None:
        """The last command ends the run: after it only answers to updates count, and go before it."""
        self._closed = True

    def _add_late(self, entry: Entry) -> None:
        if isinstance(entry.command, AcceptUpdate | CompleteUpdate):
            self._made.insert(len(self._made) - 1, entry)
        else:
            entry.command = None

    def add_for(self, command: Command, machine: Described | None, site: CallSite | None) -> None:
        """For what was asked for at `site`, some time ago."""
        if not self._closed:
            self._made.append(Entry(command, machine, site))

    def add_at(self, command: Command, code: CodeType, offset: int) -> None:
        self._made.append(Entry(command, None, CallSite(code, offset)))

    def seal(self) -> list[Command]:
        """The commands of this workflow task."""
        if not self._made:
            return []
        self._unconfirmed = [one for one in self._made if one.command is not None]
        self._made = []
        return [one.command for one in self._unconfirmed if one.command is not None]

    @property
    def unconfirmed(self) -> list[Command]:
        """Those that left last, as long as nothing is heard of them."""
        return [one.command for one in self._unconfirmed if one.command is not None]

    def confirm(self) -> None:
        """The workflow task that they were sent with was completed."""
        self._unconfirmed.reverse()
        self._expected, self._unconfirmed = self._unconfirmed, []

    def record(self, event: Event) -> Entry:
        """The command that the event was made of; NondeterminismError if there is none such."""
        if not self._expected:
            _raise(event, f"the workflow's code did nothing more; it {self._waiting()}", None)
        entry = self._expected[-1]
        if not _agree(entry.command, event):
            _raise(event, f"the workflow's code did {_describe(entry.command)}", entry.site)
        if self.observe is not None:
            self.observe(event, entry)
        return self._expected.pop()

    def expects(self, event: Event) -> bool:
        return bool(self._expected) and _agree(self._expected[-1].command, event)

    def check_settled(self, event: Event) -> None:
        if self._expected:
            entry = self._expected[-1]
            _raise(event, f"the workflow's code did {_describe(entry.command)}", entry.site)


def _agree(command: Command | None, event: Event) -> bool:
    assert command is not None
    kind, fields = _EVENTS[type(command)]
    if type(event) is not kind:
        return False
    if isinstance(event, WorkflowExecutionClosed):
        return event.kind == _CLOSING_EVENTS[type(command)]
    return all(getattr(command, field) == getattr(event, field) for field in fields)


def _raise(event: Event, instead: str, site: CallSite | None) -> NoReturn:
    kind = event.kind if isinstance(event, WorkflowExecutionClosed) else type(event).__name__
    where = "" if site is None else f" at {site}"
    raise NondeterminismError(
        f"history event {event.event_id} is {_describe(event, kind)}, but {instead}{where}",
        event_id=event.event_id,
        event_type=kind,
        site=None if site is None else str(site),
    )


_NAMING = frozenset(
    {"activity_id", "activity_type", "timer_id", "scheduled_event_id"}
    | {"marker_name", "marker_id", "update_id"}
    | {"workflow_id", "workflow_type", "signal_name", "initiated_event_id"}
)


def _describe(item: Command | Event | None, name: str | None = None) -> str:
    fields = {} if item is None else msgspec.structs.asdict(item)
    named = ", ".join(f"{key}={value!r}" for key, value in fields.items() if key in _NAMING)
    name = name or type(item).__name__
    return f"{name}({named})" if named else name
