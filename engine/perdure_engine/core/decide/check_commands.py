"""Is this list of commands one that the run can carry out? Checked whole, before any of it happens."""

from __future__ import annotations

from typing import NamedTuple

from perdure_engine.core import commands as cmd
from perdure_engine.core import memo, search_attributes
from perdure_engine.core.decide import settle_updates
from perdure_engine.core.decide.reach_outside import TOO_MANY, OutsideChecker
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.limits import MEMO_BYTES_MAX, SEARCH_ATTRIBUTES_BYTES_MAX, RunLimits
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.state import RunState, memo_of


class Refusal(NamedTuple):
    cause: WorkflowTaskFailedCause
    message: str


def check(
    state: RunState,
    limits: RunLimits,
    commands: list[cmd.Command],
    updates_to: int,
    wake_rules: tuple[WakeRule, ...] = (),
) -> Refusal | None:
    """What is wrong with the list, or None. `updates_to`: of the hand-out's token."""
    if len(commands) > limits.commands_max:
        return _bad(f"{len(commands)} commands in one workflow task; at most {limits.commands_max}")
    checker = _Checker(state, limits)
    for index, command in enumerate(commands):
        name = type(command).__name__
        if isinstance(command, cmd.ClosingCommand) and index != len(commands) - 1:
            return _bad(f"command {index} ({name}) ends the run, but more commands follow it")
        problem = checker.check(command)
        if problem is not None:
            return Refusal(_cause(command), f"command {index} ({name}): {problem}")
    if updates_to and not (commands and isinstance(commands[-1], cmd.ClosingCommand)):
        ignored = settle_updates.without_verdict(state, commands, updates_to)
        if ignored is not None:
            message = f"update {ignored!r} was neither accepted nor rejected"
            return Refusal(WorkflowTaskFailedCause.BAD_UPDATE, message)
    if wake_rules:
        problem = checker.check_rules(wake_rules)
        return None if problem is None else _bad(problem)
    return None


def _cause(command: cmd.Command) -> WorkflowTaskFailedCause:
    if isinstance(command, cmd.UpdateCommand):
        return WorkflowTaskFailedCause.BAD_UPDATE
    return TOO_MANY.get(type(command), WorkflowTaskFailedCause.BAD_COMMAND)


def _bad(message: str) -> Refusal:
    return Refusal(WorkflowTaskFailedCause.BAD_COMMAND, message)


class _Checker:
    """Walks the list with the ids that the commands before have used."""

    __slots__ = (
        "activities",
        "activity_ids",
        "attributes",
        "limits",
        "memo",
        "outside",
        "state",
        "timers",
        "updates",
    )

    def __init__(self, state: RunState, limits: RunLimits) -> None:
        self.state = state
        self.limits = limits
        self.activities = len(state.folded.activities)
        self.activity_ids: set[str] | None = None  # built when a command needs it
        self.timers: set[str] | None = None
        self.updates: settle_updates.UpdateChecker | None = None
        self.memo: bytes | None = None
        self.attributes: Attributes = state.folded.search_attributes
        self.outside: OutsideChecker | None = None

    def _check_outside(self, command: cmd.OutsideCommand) -> str | None:
        if self.outside is None:
            self.outside = OutsideChecker(self.state, self.limits)
        return self.outside.check(command)

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

    def check(self, command: cmd.Command) -> str | None:  # noqa: C901 - a closed union: one case for each of its members
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
            case (
                cmd.CompleteWorkflow()
                | cmd.FailWorkflow()
                | cmd.CancelWorkflow()
                | cmd.ContinueAsNew()
                | cmd.RecordMarker()
            ):
                return None
            case cmd.AcceptUpdate() | cmd.RejectUpdate() | cmd.CompleteUpdate():
                if self.updates is None:
                    self.updates = settle_updates.UpdateChecker(self.state)
                return self.updates.check(command)
            case cmd.ModifyProperties():
                return self._modify_properties(command)
            case cmd.UpsertSearchAttributes():
                return self._upsert_search_attributes(command)
            case (
                cmd.StartChildWorkflow()
                | cmd.RequestCancelExternalWorkflow()
                | cmd.SignalExternalWorkflow()
            ):
                return self._check_outside(command)

    def _schedule_activity(self, command: cmd.ScheduleActivity) -> str | None:
        activity_ids = self._pending_activity_ids()
        if command.activity_id in activity_ids:
            return f"activity id {command.activity_id!r} is pending already"
        activity_ids.add(command.activity_id)
        self.activities += 1
        if self.activities > self.limits.pending_activities_max:
            return f"more than {self.limits.pending_activities_max} pending activities"
        return None

    def _modify_properties(self, command: cmd.ModifyProperties) -> str | None:
        """Each upsert is small enough (the frontend saw to it); all of them together must be too."""
        before = memo_of(self.state.folded) if self.memo is None else self.memo
        try:
            self.memo = memo.merged(before, command.upserted_memo)
        except memo.MalformedMemo as error:  # what the run was started with is never looked at
            return f"the memo cannot be changed: {error}"
        if len(self.memo) > MEMO_BYTES_MAX:
            return f"the memo would have {len(self.memo)} bytes; at most {MEMO_BYTES_MAX}"
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

    def _upsert_search_attributes(self, command: cmd.UpsertSearchAttributes) -> str | None:
        self.attributes = search_attributes.merged(self.attributes, command.search_attributes)
        if search_attributes.total_size(self.attributes) > SEARCH_ATTRIBUTES_BYTES_MAX:
            return f"the run's search attributes would be over {SEARCH_ATTRIBUTES_BYTES_MAX} bytes"
        return None
