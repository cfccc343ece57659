"""Calendars and intervals as the command line says them.

A calendar is `{"dayOfWeek": "Mon-Fri", "hour": "9-17/2", "minute": 30}`, by the names of Temporal's command line
or ours (day_of_week). Each field is a number, or a text as in a cron expression: `*`, numbers and names, ranges, steps,
lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from perdure._schedules.times import ScheduleCalendarSpec, ScheduleIntervalSpec, ScheduleRange
from perdure.cli.durations import parse_duration
from perdure.cli.errors import UsageError
from perdure.cli.schedule.options import NOTHING

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_SATURDAY = 6


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: Sequence[str] = ()


_FIELDS = {
    "second": _Field("second", 0, 59),
    "minute": _Field("minute", 0, 59),
    "hour": _Field("hour", 0, 23),
    "dayofmonth": _Field("day_of_month", 1, 31),
    "month": _Field("month", 1, 12, _MONTHS),
    "dayofweek": _Field("day_of_week", 0, 7, _DAYS),
    "year": _Field("year", 1970, 2999),
}
_FROM_MIDNIGHT = ("second", "minute", "hour")
_ITEM = re.compile(r"(\*|\d{1,4}|[a-z]{3,9})(?:-(\d{1,4}|[a-z]{3,9}))?(?:/(\d{1,4}))?")


def parse_calendar(text: str) -> ScheduleCalendarSpec:
    """The times at which all of its fields match: second, minute and hour are 0 unless said, the others any.

    Raises UsageError, as the next one.
    """
    ranges, comment = _read(text)
    return ScheduleCalendarSpec(**ranges, comment=comment)


def parse_exclusion(text: str) -> ScheduleCalendarSpec:
    """The same, but for what is not said, which matches anything: a day is a whole day."""
    ranges, comment = _read(text)
    for name in _FROM_MIDNIGHT:
        ranges.setdefault(name, [_whole(_FIELDS[name])])
    return ScheduleCalendarSpec(**ranges, comment=comment)


def parse_exclusions(texts: Sequence[str]) -> list[ScheduleCalendarSpec]:
    """As `--exclude` has them. Raises UsageError."""
    if list(texts) == [NOTHING]:
        return []
    return [parse_exclusion(one) for one in texts]


def parse_interval(text: str) -> ScheduleIntervalSpec:
    """Raises UsageError."""
    every, slash, phase = text.partition("/")
    return ScheduleIntervalSpec(
        every=parse_duration(every), offset=parse_duration(phase) if slash else None
    )


def _read(text: str) -> tuple[dict[str, Any], str | None]:
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not given:
        raise UsageError(f'not a calendar ({{"dayOfWeek": "Mon-Fri", "hour": 9}}): {text!r}')
    fields = cast("dict[str, Any]", given)
    ranges: dict[str, Any] = {}
    comment: str | None = None
    for key, value in fields.items():
        if key == "comment":
            if not isinstance(value, str):
                raise UsageError(f"comment: a text: {value!r}")
            comment = value
            continue
        field = _FIELDS.get(key.replace("_", "").lower())
        if field is None:
            raise UsageError(f"a calendar has no field {key!r}; it has {', '.join(_names())}")
        ranges[field.name] = _ranges(field, value)
    return ranges, comment


def _names() -> list[str]:
    return [*(field.name for field in _FIELDS.values()), "comment"]


def _ranges(field: _Field, value: Any) -> list[ScheduleRange]:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise UsageError(f'{field.name}: a number, or a text such as "9-17/2": {value!r}')
    found: list[ScheduleRange] = []
    for item in value.lower().replace(" ", "").split(","):
        found += _range(field, item)
    return found


def _range(field: _Field, item: str) -> list[ScheduleRange]:
    read = _ITEM.fullmatch(item)
    if read is None or (read[1] == "*" and read[2]):
        raise UsageError(f"{field.name}: {item!r} is no number, name, range or *")
    step = int(read[3] or 1)
    if not step:
        raise UsageError(f"{field.name}: no step of 0")
    if read[1] == "*":
        return [_whole(field, step)]
    low = _number(field, read[1])
    high = low
    if read[2]:
        high = _number(field, read[2])
    elif read[3]:  # from there on
        high = _last(field)
    if high < low:
        raise UsageError(f"{field.name}: the range {item!r} goes backwards")
    return [ScheduleRange(low, high, step)]


def _whole(field: _Field, step: int = 1) -> ScheduleRange:
    return ScheduleRange(field.low, _last(field), step)


def _last(field: _Field) -> int:
    return _SATURDAY if field.names is _DAYS else field.high  # 7 is another word for Sunday


def _number(field: _Field, text: str) -> int:
    if text.isdigit():
        number = int(text)
        if field.low <= number <= field.high:
            return number
    else:
        for place, name in enumerate(field.names):
            if name.startswith(text):
                return field.low + place
    raise UsageError(f"{field.name}: {text!r} lies outside {field.low}-{field.high}")
