"""Is this list of commands one that the run can carry out? Checked whole, before any of it happens."""

from __future__ import annotations

from perdure_engine.core import commands as cmd
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.state import RunState


def check(
    state: RunState,
    limits: RunLimits,
    commands: list[cmd.Command],
    wake_rules: tuple[WakeRule, ...] = (),
) -> str | None:
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
    return checker.check_rules(wake_rules) if wake_rules else None


class _Checker:
    """Walks the list with the ids that the commands before have used."""

    __slots__ = ("activities", "activity_ids", "limits", "state", "timers")

    def __init__(self, state: RunState, limits: RunLimits) -> None:
        self.state = state
        self.limits = limits
        self.activities = len(state.folded.activities)
        self.activity_ids: set[str] | None = None  # built when a command needs it
        self.timers: set[str] | None = None

    def check_rules(self, rules: tuple[WakeRule, ...]) -> str | None:
        """A rule about an activity that is not pending would never be met, and the run never woken."""
        pending = self._pending_activity_ids()
        named: set[str] = set()
        for rule in rules:
            if not rule.activity_ids:
                return "a wake rule names no activity"
            if min(rule.ended, rule.completed, rule.failed) < 0:
                return "a wake rule counts to a negative number"
            for activity_id in rule.activity_ids:
                if activity_id not in pending:
                    return f"a wake rule names activity {activity_id!r}, which is not pending"
                if activity_id in named:
                    return f"wake rules name activity {activity_id!r} twice"
                named.add(activity_id)
        return None

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
            case cmd.ContinueAsNew():
                return None

    def _schedule_activity(self, command: cmd.ScheduleActivity) -> str | None:
        activity_ids = self._pending_activity_ids()
        if command.activity_id in activity_ids:
            return f"activity id {command.activity_id!r} is pending already"
        activity_ids.add(command.activity_id)
        self.activities += 1
        if self.activities > self.limits.pending_activities_max:
            return f"more than {self.limits.pending_activities_max} pending activities"
        return None

    def _pending_activity_ids(self) -> set[str]:
        if self.activity_ids is None:
            self.activity_ids = {
                a.scheduled.activity_id for a in self.state.folded.activities.values()
            }
        return self.activity_ids

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
