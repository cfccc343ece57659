"""Calendars: the times at which all fields of a `CalendarSpec` match, on the wall clock.

A calendar is *fixed-time* as a cron schedule is: when the ranges of neither its minute nor its hour begin with one over
the whole field (which is what `*` says there).
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from perdure_engine.core.schedules.model import CalendarRange, CalendarSpec
from perdure_engine.scheduler.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    CronFault,
    FieldKind,
)
from perdure_engine.scheduler.walls import YEARS_SEARCHED_MAX

YEAR = FieldKind("year", 1970, 2999)
DAYS_OF_WEEK = 7
RANGES_MAX = 60  # of one field: more than one for each value say nothing new
ZERO = (CalendarRange(0),)
FROM_MIDNIGHT = (SECOND, MINUTE, HOUR)  # 0 when nothing is said of them


class Calendar:
    """A calendar that has been read. Raises CronFault for one that names what there is not. It may never match.

    `at_minutes`: it is asked for full minutes only.
    """

    def __init__(self, spec: CalendarSpec, *, at_minutes: bool = False) -> None:
        hour, minute = spec.hour or ZERO, spec.minute or ZERO
        self._seconds = _numbers(SECOND, spec.second)
        self._minutes = _numbers(MINUTE, spec.minute)
        self._hours = _numbers(HOUR, spec.hour)
        self._days = _numbers(DAY_OF_MONTH, spec.day_of_month)
        self._months = _numbers(MONTH, spec.month)
        self._weekdays = sorted(
            {day % DAYS_OF_WEEK for day in _numbers(DAY_OF_WEEK, spec.day_of_week)}
        )
        self._years = _numbers(YEAR, spec.year)
        self.fixed = not (is_whole(HOUR, hour[0]) or is_whole(MINUTE, minute[0]))
        seconds = [0] if at_minutes else range(SECOND.high + 1)
        whole_minute = set(self._seconds).issuperset(seconds)
        whole_hour = whole_minute and len(self._minutes) == MINUTE.high + 1
        self._whole_minute, self._whole_hour = whole_minute, whole_hour
        self._whole_day = whole_hour and len(self._hours) == HOUR.high + 1
        every_day = len(self._days) == DAY_OF_MONTH.high and len(self._weekdays) == DAYS_OF_WEEK
        self._whole_month = self._whole_day and every_day
        self._whole_year = self._whole_month and len(self._months) == MONTH.high

    def past(self, start: datetime) -> Iterator[datetime]:
        """Its times past `start`, in order. They end when none comes for as long as a date lets wait for itself."""
        for day in self._dates(start):
            today = day.date() == start.date()
            for hour in _from(self._hours, start.hour, when=today):
                now = today and hour == start.hour
                for minute in _from(self._minutes, start.minute, when=now):
                    this = now and minute == start.minute
                    for second in _from(self._seconds, start.second, when=this):
                        wall = day.replace(hour=hour, minute=minute, second=second)
                        if wall > start:
                            yield wall

    def _dates(self, start: datetime) -> Iterator[datetime]:
        """Its days from that of `start` on."""
        years = (year for year in self._years if year >= start.year)
        for year in islice(years, YEARS_SEARCHED_MAX):
            for month in self._months:
                if (year, month) < (start.year, start.month):
                    continue
                first_weekday, length = calendar.monthrange(year, month)
                for day in self._days:
                    weekday = (
                        first_weekday + day
                    ) % DAYS_OF_WEEK  # Monday is 0 there, and Sunday here
                    if day > length or weekday not in self._weekdays:
                        continue
                    if (year, month, day) >= (start.year, start.month, start.day):
                        yield datetime(year, month, day)

    def matches(self, wall: datetime) -> bool:
        return (
            wall.second in self._seconds
            and wall.minute in self._minutes
            and wall.hour in self._hours
            and wall.day in self._days
            and wall.month in self._months
            and wall.isoweekday() % DAYS_OF_WEEK in self._weekdays
            and wall.year in self._years
        )

    def ends(self, wall: datetime) -> Iterator[datetime]:
        """Of a time that matches: ends of spans from it on in which every time matches, the longest one first."""
        minute = wall.replace(second=0, microsecond=0)
        midnight = minute.replace(hour=0, minute=0)
        if self._whole_year:
            yield midnight.replace(year=wall.year + 1, month=1, day=1)
        if self._whole_month:
            yield (midnight.replace(day=1) + timedelta(days=31)).replace(day=1)
        if self._whole_day:
            yield midnight + timedelta(days=1)
        if self._whole_hour:
            yield minute.replace(minute=0) + timedelta(hours=1)
        if self._whole_minute:
            yield minute + timedelta(minutes=1)


def _numbers(kind: FieldKind, ranges: tuple[CalendarRange, ...]) -> list[int]:
    """In order. All of them when there are no ranges, but 0 of a time of day."""
    if not ranges:
        return [0] if kind in FROM_MIDNIGHT else list(range(kind.low, kind.high + 1))
    name = kind.name.replace(" ", "_")
    if len(ranges) > RANGES_MAX:
        raise CronFault(f"{name}: more than {RANGES_MAX} ranges")
    found: set[int] = set()
    for item in ranges:
        last = item.end or item.start
        for number in (item.start, last):
            if not kind.low <= number <= kind.high:
                raise CronFault(f"{name}: {number} lies outside {kind.low}-{kind.high}")
        if last < item.start:
            raise CronFault(f"{name}: the range {item.start}-{last} goes backwards")
        if item.step < 1:
            raise CronFault(f"{name}: no step of {item.step}")
        found.update(range(item.start, last + 1, item.step))
    return sorted(found)


def _from(numbers: list[int], low: int, *, when: bool) -> list[int]:
    return numbers[bisect_left(numbers, low) :] if when else numbers


def is_whole(kind: FieldKind, item: CalendarRange) -> bool:
    """Whether it is what `*` is, also before a step."""
    last = kind.high - (1 if kind.wraps else 0)
    return item.start == kind.low and item.end >= last
