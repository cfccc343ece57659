"""`CronSpec` against an oracle that looks at every minute: all changes of the clocks from 2015 to 2040 in 20 zones.

The oracle knows nothing of searching: it walks the minutes around a change, asks the zone what the clock shows, and
compares the fields. What the clocks skip and show twice follows from the same walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure_engine.core.schedules.model import GapPolicy, RepeatPolicy
from perdure_engine.scheduler.cron import CronSpec, zone

ZONES = (
    "America/New_York",
    "America/Santiago",
    "America/Nuuk",
    "America/Havana",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Europe/Berlin",
    "Europe/Lisbon",
    "Europe/Chisinau",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Africa/Juba",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
)
FIRST, LAST = datetime(2015, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
AROUND = timedelta(hours=4)
MINUTE = timedelta(minutes=1)
EXPRESSIONS = (
    "30 2 * * *",
    "0 0 * * *",
    "45 1 * * *",
    "15 0-4 * * *",
    "0 23 * * *",
    "10,50 0-3 * * 0",
    "*/30 * * * *",
    "0 */2 * * *",
    "40 * * * *",
    "*/7 0-3 * * *",
)
POLICIES = tuple(product(GapPolicy, RepeatPolicy))


class Change(NamedTuple):
    zone: ZoneInfo
    at: datetime  # the first instant with the new offset


def changes(name: str) -> Iterator[Change]:
    """By bisection between days that show different offsets."""
    of = zone(name)
    day = FIRST
    while day < LAST:
        following = day + timedelta(days=1)
        low, high = day, following
        if offset(of, low) != offset(of, high):
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                if offset(of, middle) == offset(of, high):
                    high = middle
                else:
                    low = middle
            yield Change(of, high.replace(microsecond=0))
        day = following


def offset(of: ZoneInfo, at: datetime) -> timedelta:
    found = at.astimezone(of).utcoffset()
    assert found is not None
    return found


@lru_cache
def all_changes() -> tuple[Change, ...]:
    return tuple(change for name in ZONES for change in changes(name))


# ---- the oracle


def numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def matches(expression: str, wall: datetime) -> bool:
    """Months are `*` here, and so is one of the day fields."""
    minute, hour, day, _, weekday = expression.split()
    return (
        wall.minute in numbers(minute, 0, 59)
        and wall.hour in numbers(hour, 0, 23)
        and wall.day in numbers(day, 1, 31)
        and wall.isoweekday() % 7 in numbers(weekday, 0, 6)
    )


def expected(
    expression: str, change: Change, gap: GapPolicy, repeat: RepeatPolicy
) -> list[datetime]:
    """Every time within AROUND of the change, in order."""
    minute, hour = expression.split()[:2]
    fixed_time = not (minute.startswith("*") or hour.startswith("*"))
    found: set[datetime] = set()
    shown: set[datetime] = set()
    at = change.at - AROUND
    while at <= change.at + AROUND:
        wall = at.astimezone(change.zone).replace(tzinfo=None, fold=0)
        again = wall in shown
        shown.add(wall)
        if matches(expression, wall) and not (
            fixed_time and again and repeat is RepeatPolicy.FIRST
        ):
            found.add(at)
        at += MINUTE
    before, after = offset(change.zone, change.at - MINUTE), offset(change.zone, change.at)
    if fixed_time and gap is GapPolicy.RUN_AFTER:
        skipped = (change.at + before).replace(tzinfo=None)
        while skipped < (change.at + after).replace(tzinfo=None):
            if matches(expression, skipped):
                found.add(change.at)
            skipped += MINUTE
    return sorted(found)


def times(spec: CronSpec, change: Change) -> list[datetime]:
    found: list[datetime] = []
    at: datetime | None = change.at - AROUND - timedelta(seconds=1)
    while at is not None and (at := spec.next_after(at)) is not None:
        if at > change.at + AROUND:
            break
        found.append(at)
    return found


def check(expression: str, change: Change, gap: GapPolicy, repeat: RepeatPolicy) -> None:
    spec = CronSpec(expression, change.zone.key, gap=gap, repeat=repeat)
    assert times(spec, change) == expected(expression, change, gap, repeat), (
        expression,
        change.zone.key,
        change.at.isoformat(),
        gap,
        repeat,
    )


# ---- the comparison


def test_the_zones_change_their_clocks_as_expected() -> None:
    """If the data shrank, the tests below would say nothing."""
    found = all_changes()

    assert len(found) > 750
    assert {change.zone.key for change in found} == set(ZONES)


def test_each_change_with_some_expressions() -> None:
    cases = list(product(EXPRESSIONS, POLICIES))
    for index, change in enumerate(all_changes()):
        for number in (index, index * 7 + 3):
            expression, (gap, repeat) = cases[number % len(cases)]
            check(expression, change, gap, repeat)


@pytest.mark.soak
@pytest.mark.timeout(600)  # two minutes on an idle machine
def test_each_change_with_each_expression() -> None:
    for change, expression, (gap, repeat) in product(all_changes(), EXPRESSIONS, POLICIES):
        check(expression, change, gap, repeat)


FIELD = st.one_of(
    st.just("*"),
    st.integers(0, 3).map(str),
    st.tuples(st.integers(0, 1), st.integers(2, 4)).map(lambda ends: f"{ends[0]}-{ends[1]}"),
    st.sampled_from(["*/2", "*/3", "0-4/2", "1,3", "23", "0,22"]),
)
MINUTES = st.one_of(
    st.integers(0, 59).map(str), st.sampled_from(["*", "*/20", "0,30", "5-35/15", "59"])
)


@given(
    change=st.integers(0, 10_000),
    minute=MINUTES,
    hour=FIELD,
    weekday=st.sampled_from(["*", "0", "1-5", "6"]),
    gap=st.sampled_from(GapPolicy),
    repeat=st.sampled_from(RepeatPolicy),
)
@settings(max_examples=150, deadline=None)
def test_any_change_with_any_expression(
    change: int, minute: str, hour: str, weekday: str, gap: GapPolicy, repeat: RepeatPolicy
) -> None:
    found = all_changes()
    check(f"{minute} {hour} * * {weekday}", found[change % len(found)], gap, repeat)
