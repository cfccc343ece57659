"""`Times` against an oracle that looks at every minute (or second) around changes of the clocks (invariant 53, 55).

Calendars are held against the oracle of cron, whose rules they follow; specs of several parts against one that takes
the union of what the parts' oracles say and strikes out what is excluded, instant by instant.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.test_cron_oracle import (
    AROUND,
    FIELD,
    MINUTE,
    MINUTES,
    Change,
    all_changes,
    expected,
    matches,
    offset,
)

from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    GapPolicy,
    IntervalSpec,
    RepeatPolicy,
    ScheduleSpec,
)
from perdure_engine.scheduler.times import Times
from perdure_engine.scheduler.walls import EPOCH

TIMES = Times()
BOUNDS = {"minute": (0, 59), "hour": (0, 23), "day_of_week": (0, 6)}
SECOND = timedelta(seconds=1)


def us(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def between(spec: ScheduleSpec, first: datetime, last: datetime) -> list[datetime]:
    """All times from `first` to `last`."""
    found: list[datetime] = []
    at_us = us(first) - 1
    while True:
        following_us = TIMES.next_us(spec, at_us)
        assert not following_us or following_us > at_us, "invariant 53"
        at_us = following_us
        if not at_us or at_us > us(last):
            return found
        found.append(EPOCH + timedelta(microseconds=at_us))


def ranges(field: str, name: str) -> tuple[CalendarRange, ...]:
    """A field of a cron expression as a calendar says it."""
    low, high = BOUNDS[name]
    found: list[CalendarRange] = []
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found.append(CalendarRange(int(first), int(last or 0), int(step or 1)))
    return tuple(found)


def calendar(expression: str, second: str = "0") -> CalendarSpec:
    minute, hour, _, _, weekday = expression.split()
    return CalendarSpec(
        second=ranges(second, "minute"),
        minute=ranges(minute, "minute"),
        hour=ranges(hour, "hour"),
        day_of_week=ranges(weekday, "day_of_week") if weekday != "*" else (),
    )


def check_calendar(expression: str, change: Change, gap: GapPolicy, repeat: RepeatPolicy) -> None:
    spec = ScheduleSpec(
        calendars=(calendar(expression),), timezone=change.zone.key, gap=gap, repeat=repeat
    )
    found = between(spec, change.at - AROUND, change.at + AROUND)

    assert found == expected(expression, change, gap, repeat), (spec, change.at)


EXPRESSIONS = st.tuples(MINUTES, FIELD, st.sampled_from(["*", "0", "1-5", "6"])).map(
    lambda fields: f"{fields[0]} {fields[1]} * * {fields[2]}"
)
CHANGES = st.integers(0, 10_000).map(lambda number: all_changes()[number % len(all_changes())])


@given(
    change=CHANGES,
    expression=EXPRESSIONS,
    gap=st.sampled_from(GapPolicy),
    repeat=st.sampled_from(RepeatPolicy),
)
@settings(max_examples=150)
def test_a_calendar_comes_when_the_same_cron_schedule_does(
    change: Change, expression: str, gap: GapPolicy, repeat: RepeatPolicy
) -> None:
    check_calendar(expression, change, gap, repeat)


@pytest.mark.soak
def test_each_change_with_each_calendar() -> None:
    some = ("30 2 * * *", "15 0-4 * * *", "*/30 * * * *", "0 */2 * * *", "10,50 0-3 * * 0")
    for change, expression, gap, repeat in product(all_changes(), some, GapPolicy, RepeatPolicy):
        check_calendar(expression, change, gap, repeat)


def expected_with_seconds(
    expression: str, second: int, change: Change, around: timedelta
) -> list[datetime]:
    """Of a fixed time that runs after a gap and once: every second is looked at."""
    found: set[datetime] = set()
    shown: set[datetime] = set()
    at = change.at - AROUND
    while at <= change.at + around:
        wall = at.astimezone(change.zone).replace(tzinfo=None, fold=0)
        if wall.second == second and matches(expression, wall) and wall not in shown:
            found.add(at)
        shown.add(wall)
        at += SECOND if change.at - around <= at else MINUTE
    before, after = offset(change.zone, change.at - MINUTE), offset(change.zone, change.at)
    skipped = (change.at + before).replace(tzinfo=None)
    while skipped < (change.at + after).replace(tzinfo=None):
        if matches(expression, skipped):
            found.add(change.at)
        skipped += MINUTE
    return sorted(at for at in found if at >= change.at - around)


@given(change=CHANGES, second=st.integers(0, 59), minute=MINUTES, hour=st.sampled_from("0123"))
@settings(max_examples=25)
def test_a_calendar_with_seconds(change: Change, second: int, minute: str, hour: str) -> None:
    if minute.startswith("*"):
        minute = "30"
    expression, around = f"{minute} {hour} * * *", timedelta(minutes=20)
    spec = ScheduleSpec(calendars=(calendar(expression, str(second)),), timezone=change.zone.key)
    found = between(spec, change.at - around, change.at + around)

    # a time of before the window may be shown again in it: the oracle's clock begins earlier
    wanted = expected_with_seconds(expression, second, change, around)
    once = {at for at in wanted if at <= change.at or not _shown_before(at, change)}
    assert found == sorted(once), (spec, change.at)


def _shown_before(at: datetime, change: Change) -> bool:
    """Whether the clock showed the same before the change."""
    back = offset(change.zone, change.at - MINUTE) - offset(change.zone, change.at)
    return at >= change.at and at - back < change.at and back > timedelta()


CRONS = st.lists(EXPRESSIONS, max_size=2).map(tuple)
INTERVALS = st.lists(
    st.tuples(st.integers(3, 200), st.integers(0, 2)).map(
        lambda pair: IntervalSpec(pair[0] * 60_000, pair[1] * 60_000)
    ),
    min_size=1,
    max_size=2,
).map(tuple)
SPANS = st.sampled_from(["*", "0-59", "0-29", "30-59", "15", "0-58/2"])
EXCLUDED = st.lists(
    st.tuples(SPANS, FIELD, st.sampled_from(["*", "0", "1-5"])).map(
        lambda fields: f"{fields[0]} {fields[1]} * * {fields[2]}"
    ),
    max_size=2,
)


@given(
    change=CHANGES,
    crons=CRONS,
    intervals=INTERVALS,
    excluded=EXCLUDED,
    whole=st.booleans(),
    cut=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
@settings(max_examples=150)
def test_a_spec_is_all_its_parts_without_what_it_excludes(
    change: Change,
    crons: tuple[str, ...],
    intervals: tuple[IntervalSpec, ...],
    excluded: list[str],
    whole: bool,
    cut: tuple[int, int],
) -> None:
    """`whole`: the exclusion covers its seconds, which lets whole spans be passed over."""
    first, last = change.at - AROUND + cut[0] * MINUTE, change.at + AROUND - cut[1] * MINUTE
    spec = ScheduleSpec(
        cron=crons,
        intervals=intervals,
        exclude=tuple(calendar(text, "*" if whole else "0") for text in excluded),
        start_us=us(first),
        end_us=us(last),
        timezone=change.zone.key,
    )
    found = between(spec, change.at - AROUND, change.at + AROUND)

    wanted = {
        at
        for text in crons
        for at in expected(text, change, GapPolicy.RUN_AFTER, RepeatPolicy.FIRST)
    } | {at for interval in intervals for at in _of_interval(interval, first, last)}
    assert found == sorted(
        at
        for at in wanted
        if first <= at <= last
        and not any(matches(text, at.astimezone(change.zone)) for text in excluded)
    ), (spec, change.at)


def _of_interval(interval: IntervalSpec, first: datetime, last: datetime) -> list[datetime]:
    found, at = [], first
    while at <= last:
        if us(at) % (interval.every_ms * 1000) == interval.phase_ms * 1000:
            found.append(at)
        at += MINUTE
    return found


@given(
    change=CHANGES,
    expression=EXPRESSIONS,
    intervals=INTERVALS,
    fractions=st.lists(st.floats(0, 1, exclude_max=True), min_size=3, max_size=3),
)
def test_the_next_time_is_the_same_from_wherever_between_two(
    change: Change, expression: str, intervals: tuple[IntervalSpec, ...], fractions: list[float]
) -> None:
    """Invariant 53: memoryless."""
    spec = ScheduleSpec(
        calendars=(calendar(expression),), intervals=intervals, timezone=change.zone.key
    )
    slots = [us(at) for at in between(spec, change.at - AROUND, change.at + AROUND)]

    for slot, following in pairwise(slots):
        for fraction in fractions:
            assert TIMES.next_us(spec, slot + int((following - slot) * fraction)) == following
