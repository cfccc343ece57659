"""When a job runs: what `schedule` says in its several forms."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    IntervalSpec,
    ScheduleSpec,
)
from perdure_engine.ports.schedules import ScheduleTimes
from perdure_engine.transport.http.rest.bodies.jobs import When
from perdure_engine.transport.http.rest.convert.times import EPOCH, to_us

UTC_NAME = "UTC"
INTERVAL_MS_MIN = 1_000

# What begins so is a date; nothing that cron knows does.
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d\d:?\d\d)?"
)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)")
_INTERVAL = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,6})?")


def due_or_spec(
    times: ScheduleTimes, schedule: str | When | None, timezone: str
) -> int | ScheduleSpec:
    """When a job is due once, in µs (0: now), or the times of a recurring one. Raises INVALID_ARGUMENT."""
    if schedule is None:
        _check_zone(times, timezone)
        return 0
    if isinstance(schedule, When):
        kind, expression = schedule.type, schedule.expression
    else:
        kind, expression = "DATE" if _DATE.match(schedule) else "CRON", schedule
    match kind:
        case "DATE":
            return date_us(times, expression, timezone)
        case "INTERVAL":
            every = IntervalSpec(_interval_ms(expression))
            return ScheduleSpec(intervals=(every,), timezone=timezone or UTC_NAME)
        case _:
            return ScheduleSpec(cron=(expression,), timezone=timezone or UTC_NAME)


def date_us(times: ScheduleTimes, text: str, timezone: str) -> int:
    """An instant in µs. Without an offset it is the zone's. Raises INVALID_ARGUMENT."""
    try:
        if _DATE_TIME.fullmatch(text) is None:
            raise ValueError
        read = datetime.fromisoformat(text.upper())
    except ValueError:
        raise invalid("schedule", "is not a date and time of ISO 8601") from None
    if read.tzinfo is not None:
        _check_zone(times, timezone)
        return to_us(read)
    if timezone in ("", UTC_NAME):
        return to_us(read.replace(tzinfo=EPOCH.tzinfo))
    return _zoned_us(times, read, timezone)


def _check_zone(times: ScheduleTimes, timezone: str) -> None:
    """Of what does not go by it. Raises INVALID_ARGUMENT: what is wrong is told all the same."""
    if timezone not in ("", UTC_NAME):
        _zoned_us(times, datetime(2000, 1, 1), timezone)


def _zoned_us(times: ScheduleTimes, read: datetime, timezone: str) -> int:
    """By the rule for schedules: one that the clocks skip is right after, one that comes twice the first."""
    spec = ScheduleSpec(
        calendars=(
            CalendarSpec(
                second=(CalendarRange(read.second),),
                minute=(CalendarRange(read.minute),),
                hour=(CalendarRange(read.hour),),
                day_of_month=(CalendarRange(read.day),),
                month=(CalendarRange(read.month),),
                year=(CalendarRange(read.year),),
            ),
        ),
        timezone=timezone,
    )
    fault = times.fault(spec)
    if fault:
        where, _, why = fault.partition(": ")
        raise invalid("timezone" if where == "timezone" else "schedule", why)
    # Zones lie less than a day from UTC.
    before = to_us(read.replace(tzinfo=EPOCH.tzinfo) - timedelta(days=2))
    return times.next_us(spec, before) + read.microsecond


def _interval_ms(text: str) -> int:
    if _SECONDS.fullmatch(text):
        every_ms = round(float(text) * 1_000)
    elif _INTERVAL.fullmatch(text):
        every_ms = round(sum(float(one) * _UNIT_MS[unit] for one, unit in _PART.findall(text)))
    else:
        raise invalid("schedule", "is not an interval: seconds, or as 90s, 1h30m, 2d")
    if not INTERVAL_MS_MIN <= every_ms <= limits.DURATION_MS_MAX:
        raise invalid("schedule", "is an interval under a second, or over ten years")
    return every_ms
