"""When a schedule fires: the times of all parts of its spec together, without those that it excludes (semantics §11).

A spec is read once and kept (`_SpecTimes`), and so is what was asked of it last: schedules that fire together mostly
share their spec, and then one search serves them all.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import tzdata  # type: ignore[import-untyped]  # has no types; one word is read

from perdure_engine.core import limits
from perdure_engine.core.schedules.model import (
    CalendarSpec,
    IntervalSpec,
    ScheduleSpec,
)
from perdure_engine.scheduler.calendars import Calendar
from perdure_engine.scheduler.cron import CronSpec, zone
from perdure_engine.scheduler.fields import CronFault
from perdure_engine.scheduler.walls import EPOCH, WallTimes, us_of, wall_of
from perdure_engine.scheduler.words import in_words

SPECS_KEPT_MAX = 16_384
TIMES_KEPT_MAX = 16_384
PARTS_MAX = 100  # of each kind in one spec: each is asked for every slot
DATES_MAX = 1_000
INTERVAL_MS_MIN = 1_000
COMMENT_BYTES_MAX = 1_000
DESCRIPTION_CHARS_MAX = 500  # a page of schedules has a thousand of them
# Past the calendars of Python and of databases nothing is planned; the year is theirs too.
LAST_US = us_of(datetime(3000, 1, 1, tzinfo=UTC)) - 1
EXCLUDED_MAX = 20_000  # times passed over for one slot: about half a second
EXCLUDED_FIRST_MAX = 2_000  # … and before the first one of all: a spec of so few is not written
MINUTE_US = 60_000_000


class Times:
    """Implements ports.schedules.ScheduleTimes."""

    def fault(self, spec: ScheduleSpec) -> str:
        try:
            _check_span(spec)
            first_us = _times_of(spec).next_us(0, EXCLUDED_FIRST_MAX)
        except CronFault as fault:
            return str(fault)
        if not first_us:
            return "exclude: leaves no time" if spec.exclude else "end_us: lies before all times"
        return ""

    def next_us(self, spec: ScheduleSpec, after_us: int) -> int:
        try:
            return _next_us(spec, after_us)
        except CronFault:  # of another version's dialect
            return 0

    def jitter_us(self, spec: ScheduleSpec, seed: bytes, nominal_us: int) -> int:
        """Ends before the next slot's nominal time, so that slots start in their order."""
        if not spec.jitter_ms:
            return 0
        most_us = spec.jitter_ms * 1000
        next_us = self.next_us(spec, nominal_us)
        if next_us:
            most_us = min(most_us, next_us - nominal_us - 1)
        digest = hashlib.blake2b(nominal_us.to_bytes(8, "big"), digest_size=8, key=seed[:64])
        return int.from_bytes(digest.digest(), "big") * (most_us + 1) >> 64

    def describe(self, spec: ScheduleSpec) -> str:
        try:
            said = in_words(spec, _times_of(spec).crons)
        except CronFault:
            return ""
        return said if len(said) <= DESCRIPTION_CHARS_MAX else said[:DESCRIPTION_CHARS_MAX] + "…"

    @property
    def tzdata_version(self) -> str:
        version: str = tzdata.IANA_VERSION
        return version


class _SpecTimes:
    """A spec that has been read. Raises CronFault, beginning with the field."""

    def __init__(self, spec: ScheduleSpec) -> None:
        _check_counts(spec)
        self._gap, self._repeat = spec.gap, spec.repeat
        with _about("timezone: "):
            self._zone = zone(spec.timezone)
        self._begin_us, self._end_us = spec.start_us - 1, spec.end_us or LAST_US
        self.crons = [self._cron(number, spec) for number in range(len(spec.cron))]
        self._sources: list[Callable[[int], int]] = [cron.next_us for cron in self.crons]
        self._sources += [self._interval(*numbered) for numbered in enumerate(spec.intervals)]
        self._sources += [self._calendar(*numbered) for numbered in enumerate(spec.calendars)]
        if spec.dates_us:
            self._sources.append(_dates(spec.dates_us))
        self._excluded: list[Calendar] = []
        for number, calendar in enumerate(spec.exclude):
            with _about(f"exclude[{number}]."):
                self._excluded.append(Calendar(calendar, at_minutes=_at_minutes(spec)))

    def next_us(self, after_us: int, excluded_max: int = EXCLUDED_MAX) -> int:
        """As ScheduleTimes.next_us. 0 too when more than so many times are excluded in a row."""
        at_us = max(after_us, self._begin_us)
        for _ in range(excluded_max):
            if at_us >= self._end_us:
                return 0
            found = [next_us for source in self._sources if (next_us := source(at_us))]
            next_us = min(found, default=0)
            if not next_us or next_us > self._end_us:
                return 0
            excluded_us = self._excluded_to(next_us) if self._excluded else 0
            if not excluded_us:
                return next_us
            at_us = excluded_us - 1
        return 0

    def _excluded_to(self, at_us: int) -> int:
        """An instant before which nothing comes from `at_us` on, because it is excluded. 0: it is not."""
        at = EPOCH + timedelta(microseconds=at_us)
        local = at.astimezone(self._zone)
        wall = wall_of(local)
        for calendar in self._excluded:
            if not calendar.matches(wall):
                continue
            for end in calendar.ends(wall):
                until = at + (end - wall)
                # across a change of the clocks the span is not so long: a shorter one will do
                if until.astimezone(self._zone).utcoffset() == local.utcoffset():
                    return us_of(until)
            return at_us + 1
        return 0

    def _cron(self, number: int, spec: ScheduleSpec) -> CronSpec:
        # the schedule's own zone may be said in the text, when it is not said beside it
        timezone = "" if spec.timezone == "UTC" else spec.timezone
        with _about(f"cron[{number}]: "):
            return CronSpec(
                spec.cron[number],
                timezone,
                seconds_first=spec.seconds_first,
                gap=self._gap,
                repeat=self._repeat,
            )

    def _interval(self, number: int, interval: IntervalSpec) -> Callable[[int], int]:
        every_us, phase_us = interval.every_ms * 1000, interval.phase_ms * 1000
        if not INTERVAL_MS_MIN <= interval.every_ms <= limits.DURATION_MS_MAX:
            raise CronFault(
                f"intervals[{number}].every_ms: must be {INTERVAL_MS_MIN} … {limits.DURATION_MS_MAX}"
            )
        if not 0 <= phase_us < every_us:
            raise CronFault(f"intervals[{number}].phase_ms: must be 0 … every_ms")
        return lambda after_us: ((after_us - phase_us) // every_us + 1) * every_us + phase_us

    def _calendar(self, number: int, spec: CalendarSpec) -> Callable[[int], int]:
        with _about(f"calendars[{number}]."):
            calendar = Calendar(spec)
        times = WallTimes(
            calendar.past,
            self._zone,
            fixed=calendar.fixed,
            gap=self._gap,
            repeat=self._repeat,
        )
        if not times.next_us(0):
            raise CronFault(f"calendars[{number}]: never matches: there is no such date")
        return times.next_us


def _at_minutes(spec: ScheduleSpec) -> bool:
    """Whether all of its times are full minutes."""
    times_us = [*spec.dates_us]
    times_us += [ms * 1000 for each in spec.intervals for ms in (each.every_ms, each.phase_ms)]
    return (
        not spec.seconds_first
        and not any(calendar.second for calendar in spec.calendars)
        and not any(at_us % MINUTE_US for at_us in times_us)
    )


def _check_counts(spec: ScheduleSpec) -> None:
    parts = {
        "cron": spec.cron,
        "intervals": spec.intervals,
        "calendars": spec.calendars,
        "exclude": spec.exclude,
    }
    for field, items in parts.items():
        if len(items) > PARTS_MAX:
            raise CronFault(f"{field}: more than {PARTS_MAX}")
    if len(spec.dates_us) > DATES_MAX:
        raise CronFault(f"dates_us: more than {DATES_MAX}")
    if not (spec.cron or spec.intervals or spec.calendars or spec.dates_us):
        raise CronFault("cron: the spec has no times")
    for field, calendars in (("calendars", spec.calendars), ("exclude", spec.exclude)):
        for number, calendar in enumerate(calendars):
            _check_comment(f"{field}[{number}].comment", calendar.comment)


def _check_comment(field: str, text: str) -> None:
    if len(text.encode()) > COMMENT_BYTES_MAX:
        raise CronFault(f"{field}: is longer than {COMMENT_BYTES_MAX} bytes")
    if "\0" in text:
        raise CronFault(f"{field}: holds a NUL character")


def _check_span(spec: ScheduleSpec) -> None:
    for date_us in spec.dates_us:
        if not 0 < date_us <= LAST_US:
            raise CronFault("dates_us: lies outside 1970-2999")
    for field, at_us in (("start_us", spec.start_us), ("end_us", spec.end_us)):
        if not 0 <= at_us <= LAST_US:
            raise CronFault(f"{field}: lies outside 1970-2999")
    if spec.end_us and spec.end_us < spec.start_us:
        raise CronFault("end_us: lies before start_us")
    if not 0 <= spec.jitter_ms <= limits.DURATION_MS_MAX:
        raise CronFault(f"jitter_ms: must be 0 … {limits.DURATION_MS_MAX}")
    shortest_ms = min((interval.every_ms for interval in spec.intervals), default=spec.jitter_ms)
    if spec.jitter_ms > max(shortest_ms, 0):  # below 0 it is the interval that is wrong
        raise CronFault("jitter_ms: is longer than the shortest interval")


@contextmanager
def _about(field: str) -> Iterator[None]:
    """What is wrong is wrong with this field."""
    try:
        yield
    except CronFault as fault:
        raise CronFault(f"{field}{fault}") from None


def _dates(dates_us: tuple[int, ...]) -> Callable[[int], int]:
    dates = sorted(set(dates_us))

    def next_us(after_us: int) -> int:
        place = bisect_right(dates, after_us)
        return dates[place] if place < len(dates) else 0

    return next_us


@lru_cache(maxsize=SPECS_KEPT_MAX)
def _times_of(spec: ScheduleSpec) -> _SpecTimes:
    return _SpecTimes(spec)


@lru_cache(maxsize=TIMES_KEPT_MAX)
def _next_us(spec: ScheduleSpec, after_us: int) -> int:
    return _times_of(spec).next_us(after_us)
