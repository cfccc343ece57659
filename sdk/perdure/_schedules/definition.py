"""A schedule as somebody wants it. The classes change freely until they are sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum

from perdure._schedules.times import ScheduleSpec


class ScheduleAction:
    """What a schedule starts: a `ScheduleActionStartWorkflow` or a `ScheduleActionStartJob`."""


class ScheduleOverlapPolicy(IntEnum):
    """What becomes of an action whose time has come while an earlier one of the schedule runs."""

    SKIP = 1
    """It is not taken; the slot says so."""
    BUFFER_ONE = 2
    """It waits for the end of the earlier one, if none waits yet; else it is skipped."""
    BUFFER_ALL = 3
    """It waits its turn."""
    CANCEL_OTHER = 4
    """The earlier one is cancelled, and it begins when that has ended."""
    TERMINATE_OTHER = 5
    """The earlier one is ended, and it begins at once."""
    ALLOW_ALL = 6
    """It begins all the same."""


class ScheduleCatchUpPolicy(IntEnum):
    """Which of the slots that were missed (no engine ran) are acted for, within the window."""

    ALL = 1
    LAST = 2
    NONE = 3


@dataclass(slots=True)
class SchedulePolicy:
    overlap: ScheduleOverlapPolicy = ScheduleOverlapPolicy.SKIP
    catchup_window: timedelta | None = None
    """How late a slot may be acted for; at least 10 s. None: a year."""
    pause_on_failure: bool = False
    """An action that fails or times out, all its attempts included, pauses the schedule."""
    catchup: ScheduleCatchUpPolicy = ScheduleCatchUpPolicy.ALL
    catchup_most: int | None = None
    """The most slots in a row that are caught up with; those after them are missed. None: 1,000."""


@dataclass(slots=True)
class ScheduleState:
    note: str | None = None
    """For people; pausing and unpausing set it."""
    paused: bool = False
    limited_actions: bool = False
    """`remaining_actions` counts."""
    remaining_actions: int = 0
    """Each action takes one; at 0 there are no more. Triggered and backfilled ones do not count."""


@dataclass(slots=True)
class Schedule:
    """What is started, when, and how."""

    action: ScheduleAction
    spec: ScheduleSpec
    policy: SchedulePolicy = field(default_factory=SchedulePolicy)
    state: ScheduleState = field(default_factory=ScheduleState)


@dataclass(slots=True)
class ScheduleBackfill:
    """A span of time, both ends included, whose slots are to be acted for now."""

    start_at: datetime
    end_at: datetime
    overlap: ScheduleOverlapPolicy | None = None
    """None: the schedule's."""
