"""Is this list of commands one that the run can carry out? Checked whole, before any of it happens."""

from __future__ import annotations

from perdure_engine.core import commands as cmd
from perdure_engine.core import search_attributes
from perdure_engine.core.limits import SEARCH_ATTRIBUTES_BYTES_MAX, RunLimits
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.state import RunState


def check(state: RunState, limits: RunLimits, commands: list[cmd.Command]) -> str | None:
    """What is wrong with the list, or None."""
    if len(commands) > limits.commands_max:
        return f"{len(commands)} commands in one workflow task; at most {limits.commands_max}"
    checker = _Checker(state, limits)
    for index, command in enumerate(commands):
        if isinstance(command, cmd.ClosingCommand) and index != len(commands) - 1:
            return f"command {index} ({type(command).__name__}) ends the run, but more commands follow it"
        problem = checker.check(command)
        if problem is not None:
            return f"command {index} ({type(command).__name__}): {problem}"
    return None


class _Checker:
    """Walks the list with the ids that the commands before have used."""

    __slots__ = ("activities", "activity_ids", "attributes", "limits", "state", "timers")

    def __init__(self, state: RunState, limits: RunLimits) -> None:
        self.state = state
        self.limits = limits
        self.activities = len(state.folded.activities)
        self.activity_ids: set[str] | None = None  # built when a command needs it
        self.timers: set[str] | None = None
        self.attributes: Attributes = state.folded.search_attributes

    def check(self, command: cmd.Command) -> str | None:
        match command:
            case cmd.ScheduleActivity():
                return self._schedule_activity(command)
            case cmd.RequestCancelActivity():
                if not 0 < command.scheduled_event_id < self.state.folded.next_event_id:
                    return f"no activity was scheduled by event {command.scheduled_event_id}"
                return None
            case cmd.StartTimer():
                return self._start_timer(command)
            case cmd.CancelTimer():
                return self._cancel_timer(command)
            case cmd.CompleteWorkflow() | cmd.FailWorkflow() | cmd.CancelWorkflow():
                return None
            case cmd.UpsertSearchAttributes():
                return self._upsert_search_attributes(command)

    def _schedule_activity(self, command: cmd.ScheduleActivity) -> str | None:
        if self.activity_ids is None:
            self.activity_ids = {
                a.scheduled.activity_id for a in self.state.folded.activities.values()
            }
        if command.activity_id in self.activity_ids:
            return f"activity id {command.activity_id!r} is pending already"
        self.activity_ids.add(command.activity_id)
        self.activities += 1
        if self.activities > self.limits.pending_activities_max:
            return f"more than {self.limits.pending_activities_max} pending activities"
        return None

    def _pending_timers(self) -> set[str]:
        if self.timers is None:
            self.timers = set(self.state.folded.timers)
        return self.timers

    def _start_timer(self, command: cmd.StartTimer) -> str | None:
        timers = self._pending_timers()
        if command.timer_id in timers:
            return f"timer {command.timer_id!r} is pending already"
        timers.add(command.timer_id)
        if len(timers) > self.limits.pending_timers_max:
            return f"more than {self.limits.pending_timers_max} pending timers"
        return None

    def _cancel_timer(self, command: cmd.CancelTimer) -> str | None:
        timers = self._pending_timers()
        if command.timer_id not in timers:
            return f"no timer {command.timer_id!r} is pending"
        timers.discard(command.timer_id)
        return None

    def _upsert_search_attributes(self, command: cmd.UpsertSearchAttributes) -> str | None:
        self.attributes = search_attributes.merged(self.attributes, command.search_attributes)
        if search_attributes.total_size(self.attributes) > SEARCH_ATTRIBUTES_BYTES_MAX:
            return f"the run's search attributes would be over {SEARCH_ATTRIBUTES_BYTES_MAX} bytes"
        return None
