"""What a schedule means, for its author: in words, and its next times. Needs no server.

The CLI finds `preview` through the entry points `perdure.engine`; so all that it is given is of plain types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    GapPolicy,
    IntervalSpec,
    RepeatPolicy,
    ScheduleSpec,
)
from perdure_engine.scheduler.cron import CronSpec, zone
from perdure_engine.scheduler.fields import CronFault
from perdure_engine.scheduler.times import LAST_US, Times
from perdure_engine.scheduler.walls import EPOCH, us_of

TIMES_MAX = 1_000
END = EPOCH + timedelta(microseconds=LAST_US + 1)
GAPS = {"run-after": GapPolicy.RUN_AFTER, "skip": GapPolicy.SKIP}
REPEATS = {"first": RepeatPolicy.FIRST, "both": RepeatPolicy.BOTH}
MILLISECOND = timedelta(milliseconds=1)

Fields = Mapping[str, Any]
"""Of a calendar by their names: (start, end, step) of each range; and its comment."""


class Preview(NamedTuple):
    description: str  # in English
    times: list[datetime]  # aware, in the schedule's zone; fewer than asked for when it ends


def preview(
    crons: Sequence[str],
    timezone: str = "",
    *,
    after: datetime,
    count: int = 5,
    seconds_first: bool = False,
    gap: str = "run-after",
    overlap: str = "first",
    intervals: Sequence[tuple[timedelta, timedelta]] = (),
    calendars: Sequence[Fields] = (),
    dates: Sequence[datetime] = (),
    exclude: Sequence[Fields] = (),
) -> Preview:
    """The next `count` times past `after`, an aware datetime, which is not one of them.

    `timezone`: an IANA name; "" is UTC, or what a cron expression names. `intervals`: length and phase of each. `gap`:
    "run-after" or "skip"; `overlap`: "first" or "both". Raises ValueError with field and reason for a schedule that is
    refused.
    """
    spec = ScheduleSpec(
        cron=tuple(crons),
        intervals=tuple(IntervalSpec(*(_ms(one) for one in each)) for each in intervals),
        calendars=tuple(_calendar(one) for one in calendars),
        dates_us=tuple(us_of(date) for date in dates),
        exclude=tuple(_calendar(one) for one in exclude),
        timezone=timezone or "UTC",
        seconds_first=seconds_first,
        gap=GAPS[gap],
        repeat=REPEATS[overlap],
    )
    if not EPOCH <= after < END:
        raise ValueError("no times are computed outside the years 1970-2999")
    shown_in = _zone_of(spec, timezone)
    times = Times()
    fault = times.fault(spec)
    if fault:
        raise CronFault(fault)
    found: list[datetime] = []
    at_us = us_of(after)
    while len(found) < min(count, TIMES_MAX) and (at_us := times.next_us(spec, at_us)):
        found.append((EPOCH + timedelta(microseconds=at_us)).astimezone(shown_in))
    return Preview(times.describe(spec), found)


def _zone_of(spec: ScheduleSpec, timezone: str) -> ZoneInfo:
    """Each expression is read alone first: what is wrong with it is told with its text, and it may name a zone."""
    zones: list[ZoneInfo] = []
    for text in spec.cron:
        try:
            zones.append(CronSpec(text, timezone, seconds_first=spec.seconds_first).zone)
        except CronFault as fault:
            raise CronFault(f"cron {text!r}: {fault}") from None
    try:
        return zones[0] if zones and not timezone else zone(spec.timezone)
    except CronFault as fault:
        raise CronFault(f"timezone: {fault}") from None


def _calendar(fields: Fields) -> CalendarSpec:
    ranges = {
        name: tuple(CalendarRange(*one) for one in value)
        for name, value in fields.items()
        if name != "comment"
    }
    return CalendarSpec(**ranges, comment=fields.get("comment", ""))


def _ms(duration: timedelta) -> int:
    return duration // MILLISECOND
