"""What the engine tells of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from perdure._schedules.definition import Schedule


class ScheduleSlotOutcome(IntEnum):
    """What a schedule did at one of its times."""

    FIRING = 1
    """The start is on its way."""
    FIRED = 2
    SKIPPED = 3
    """An earlier action ran, and the overlap policy let this one go."""
    MISSED = 4
    """No engine ran, and it was too late for the catch-up window or policy."""
    PAUSED = 5
    BACKFILLED = 6
    BUFFERED = 7
    """Waits for the one before it."""
    FAILED = 8
    """The start was refused for good; `detail` says why."""


class ScheduleActionExecution:
    """What an action has begun: one of the two below."""


@dataclass(frozen=True, slots=True)
class ScheduleActionExecutionStartWorkflow(ScheduleActionExecution):
    workflow_id: str
    first_execution_run_id: str


@dataclass(frozen=True, slots=True)
class ScheduleActionExecutionStartJob(ScheduleActionExecution):
    job_id: str


@dataclass(frozen=True, slots=True)
class ScheduleActionResult:
    """An action that was taken."""

    scheduled_at: datetime
    """Nominal: without jitter."""
    started_at: datetime
    action: ScheduleActionExecution


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSlot:
    """One of a schedule's times, and what became of it."""

    nominal_at: datetime
    """Without jitter; of a triggered one when it was triggered. What identifies the slot."""
    outcome: ScheduleSlotOutcome | None
    """None: one of a newer engine."""
    acted_at: datetime | None
    job_id: str
    """Empty when no job was made, as is the next for workflows."""
    workflow_id: str
    run_id: str
    detail: str
    manual: bool
    """Triggered by a call."""

    @property
    def action(self) -> ScheduleActionExecution | None:
        """What it has begun, if it has."""
        if self.job_id:
            return ScheduleActionExecutionStartJob(self.job_id)
        if self.run_id:
            return ScheduleActionExecutionStartWorkflow(self.workflow_id, self.run_id)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    recent_slots: Sequence[ScheduleSlot]
    """The last 10, newest first."""
    open_slots: Sequence[ScheduleSlot]
    """On their way, waiting, or with an action that has not ended: 100 at most."""
    next_action_times: Sequence[datetime]
    """Nominal; 10 at most."""
    created_at: datetime
    last_updated_at: datetime | None

    @property
    def recent_actions(self) -> Sequence[ScheduleActionResult]:
        """Of the recent slots those that have begun something, oldest first."""
        return [
            ScheduleActionResult(slot.nominal_at, slot.acted_at or slot.nominal_at, slot.action)
            for slot in reversed(self.recent_slots)
            if slot.action is not None
        ]

    @property
    def running_actions(self) -> Sequence[ScheduleActionExecution]:
        return [slot.action for slot in self.open_slots if slot.action is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDescription:
    id: str
    schedule: Schedule
    """As it is now. Arguments and memo of its action are `Payload`s, because nobody knows their
    types here; they go back as they came."""
    info: ScheduleInfo
    user_id: str
    conflict_token: int
    """Changes with every update."""
    description: str
    """The times in words."""
    tzdata_version: str
    """Of the time zones that the times were computed with."""


@dataclass(frozen=True, slots=True)
class ScheduleListAction:
    name: str
    """The workflow's type or the job's task."""


@dataclass(frozen=True, slots=True)
class ScheduleListState:
    note: str | None
    paused: bool


@dataclass(frozen=True, slots=True)
class ScheduleListSchedule:
    action: ScheduleListAction
    state: ScheduleListState


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleListInfo:
    next_action_times: Sequence[datetime]
    """The next one, if there is one."""
    last_slot_at: datetime | None
    """Nominal."""
    last_outcome: ScheduleSlotOutcome | None
    created_at: datetime
    last_updated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleListDescription:
    """A schedule as lists show it."""

    id: str
    schedule: ScheduleListSchedule
    info: ScheduleListInfo
    user_id: str
    description: str
    """The times in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBackfillResult:
    """Nominal instants, in order."""

    action_times: Sequence[datetime]
    """That are acted for, or would be."""
    fired_before: Sequence[datetime]
    """Left alone: they had their action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePreview:
    times: Sequence[datetime]
    """Fewer than asked for when the schedule ends."""
    description: str
    """The times in words."""
    tzdata_version: str


@dataclass(slots=True)
class ScheduleUpdateInput:
    """What a function that updates a schedule is given."""

    description: ScheduleDescription


@dataclass(slots=True)
class ScheduleUpdate:
    """What it gives back."""

    schedule: Schedule
