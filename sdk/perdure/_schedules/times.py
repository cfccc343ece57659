"""When a schedule fires. The classes change freely until they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum


class ScheduleGapPolicy(IntEnum):
    """What becomes of a fixed time of a cron expression or a calendar that the clocks skip.

    Fixed is a cron expression neither of whose minute and hour begins with `*`.
    """

    RUN_AFTER = 1
    """It comes at the first minute after the gap."""
    SKIP = 2


class ScheduleRepeatPolicy(IntEnum):
    """How often such a time fires that the clocks show twice."""

    FIRST = 1
    BOTH = 2


@dataclass(frozen=True, slots=True)
class ScheduleRange:
    """The numbers from `start` to `end`, both included, in steps."""

    start: int
    end: int = 0
    """`start` alone when it is less than that."""
    step: int = 1
    """0 is 1."""

    def __post_init__(self) -> None:
        if self.end < self.start:
            object.__setattr__(self, "end", self.start)
        if self.step == 0:
            object.__setattr__(self, "step", 1)


_ZERO = (ScheduleRange(0),)


@dataclass(slots=True)
class ScheduleCalendarSpec:
    """The instants at which each field shows a number of one of its ranges.

    An empty `day_of_month`, `month`, `day_of_week` or `year` matches any; an empty `second`,
    `minute` or `hour` is 0.
    """

    second: Sequence[ScheduleRange] = _ZERO
    minute: Sequence[ScheduleRange] = _ZERO
    hour: Sequence[ScheduleRange] = _ZERO
    day_of_month: Sequence[ScheduleRange] = (ScheduleRange(1, 31),)
    month: Sequence[ScheduleRange] = (ScheduleRange(1, 12),)
    year: Sequence[ScheduleRange] = ()
    day_of_week: Sequence[ScheduleRange] = (ScheduleRange(0, 6),)
    """0 is Sunday."""
    comment: str | None = None
    """For people."""


@dataclass(slots=True)
class ScheduleIntervalSpec:
    """The instants epoch + n · `every` + `offset`, whatever the time zone."""

    every: timedelta
    """At least a second."""
    offset: timedelta | None = None
    """Less than `every`."""


@dataclass(slots=True)
class ScheduleSpec:
    """The instants of all its parts together, each once, without those that `skip` names."""

    calendars: Sequence[ScheduleCalendarSpec] = field(default_factory=list[ScheduleCalendarSpec])
    intervals: Sequence[ScheduleIntervalSpec] = field(default_factory=list[ScheduleIntervalSpec])
    cron_expressions: Sequence[str] = field(default_factory=list[str])
    """Five fields, or @hourly … @yearly; six, the seconds first, with `seconds_first`."""
    skip: Sequence[ScheduleCalendarSpec] = field(default_factory=list[ScheduleCalendarSpec])
    start_at: datetime | None = None
    """No instant before it."""
    end_at: datetime | None = None
    """No instant after it."""
    jitter: timedelta | None = None
    """Each action starts up to so much after its instant: always the same for one instant."""
    time_zone_name: str | None = None
    """IANA, for cron expressions and calendars; UTC unless given."""
    dates: Sequence[datetime] = field(default_factory=list[datetime])
    """Instants one by one; without a zone UTC."""
    seconds_first: bool = False
    gap: ScheduleGapPolicy = ScheduleGapPolicy.RUN_AFTER
    repeat: ScheduleRepeatPolicy = ScheduleRepeatPolicy.FIRST
