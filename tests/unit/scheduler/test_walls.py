"""`WallTimes`: however many times lie where the clocks skip or repeat, few searches find the next instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    GapPolicy,
    RepeatPolicy,
    ScheduleSpec,
)
from perdure_engine.scheduler.cron import CronSpec, zone
from perdure_engine.scheduler.fields import CronFault
from perdure_engine.scheduler.times import Times
from perdure_engine.scheduler.walls import YEARS_SEARCHED_MAX, WallTimes

NEW_YORK = "America/New_York"
SECOND = timedelta(seconds=1)


class Seconds:
    """Every second of some hours of the wall clock, from 1970 on; counts how many were looked at."""

    def __init__(self, *hours: int, day: tuple[int, int] | None = None) -> None:
        self._hours, self._day = hours, day
        self.looked_at = 0

    def __call__(self, start: datetime) -> Iterator[datetime]:
        wall = start.replace(microsecond=0) + SECOND
        while wall.year < 2999:
            if self._day not in (None, (wall.month, wall.day)):
                wall = (wall + timedelta(days=1)).replace(hour=0, minute=0, second=0)
            elif wall.hour not in self._hours:
                wall = (wall + timedelta(hours=1)).replace(minute=0, second=0)
            else:
                self.looked_at += 1
                yield wall
                wall += SECOND


def times_of(
    walls: Seconds,
    timezone: str,
    *,
    fixed: bool = True,
    gap: GapPolicy = GapPolicy.SKIP,
    repeat: RepeatPolicy = RepeatPolicy.FIRST,
) -> WallTimes:
    return WallTimes(walls, zone(timezone), fixed=fixed, gap=gap, repeat=repeat)


@pytest.mark.parametrize(
    ("after", "found", "fixed"),
    [
        # its second pass has begun, and all of it was shown before: the next is tomorrow's
        ("2026-11-01T01:00:00-05:00", "2026-11-02T01:00:00-05:00", True),
        # the last of the first pass, and the first of the second follows
        ("2026-11-01T01:59:59-04:00", "2026-11-01T01:00:00-05:00", False),
        ("2026-11-01T01:30:00-04:00", "2026-11-01T01:30:01-04:00", False),
        ("2026-11-01T01:59:59-05:00", "2026-11-02T01:00:00-05:00", False),
    ],
)
def test_a_repeated_hour_is_passed_in_one_step(after: str, found: str, fixed: bool) -> None:
    walls = Seconds(1)

    at = times_of(walls, NEW_YORK, fixed=fixed).next_after(datetime.fromisoformat(after))

    assert at == datetime.fromisoformat(found)
    assert walls.looked_at <= 3


def test_a_skipped_hour_is_passed_in_one_step() -> None:
    walls = Seconds(2)
    after = datetime.fromisoformat("2027-03-14T01:59:59-05:00")

    at = times_of(walls, NEW_YORK).next_after(after)

    assert at == datetime.fromisoformat("2027-03-15T02:00:00-04:00")
    assert walls.looked_at <= 3


def test_a_skipped_day_is_passed_in_one_step() -> None:
    """Apia had no 30 December 2011."""
    walls = Seconds(*range(24), day=(12, 30))
    after = datetime.fromisoformat("2011-12-29T23:59:59-10:00")

    at = times_of(walls, "Pacific/Apia").next_after(after)

    assert at == datetime.fromisoformat("2012-12-30T00:00:00+14:00")
    assert walls.looked_at <= 3


def test_what_is_always_skipped_is_given_up_after_some_years() -> None:
    after = datetime.fromisoformat("2027-01-01T00:00:00-05:00")
    spec = CronSpec("30 2 * 3 SUN#2", NEW_YORK)  # with the other policy it comes after the gap
    assert spec.next_after(after) is not None
    looked_at = 0

    def counted(start: datetime) -> Iterator[datetime]:
        nonlocal looked_at
        for wall in spec._walls(start):
            looked_at += 1
            yield wall

    skipped = WallTimes(
        counted, zone(NEW_YORK), fixed=True, gap=GapPolicy.SKIP, repeat=RepeatPolicy.FIRST
    )
    assert skipped.next_after(after) is None
    assert looked_at <= YEARS_SEARCHED_MAX + 2


@pytest.mark.parametrize(
    ("text", "seconds_first", "gap"),
    [
        ("* 2 * 3 SUN#2", False, GapPolicy.RUN_AFTER),
        ("* * 2 * 3 SUN#2", True, GapPolicy.RUN_AFTER),
        ("30 2 * 3 SUN#2", False, GapPolicy.SKIP),
        ("0-59 0-59 2 * 3 SUN#2", True, GapPolicy.SKIP),
    ],
)
def test_a_schedule_wholly_in_skipped_time_is_refused(
    text: str, seconds_first: bool, gap: GapPolicy
) -> None:
    """B29: in a bounded number of search steps. They reached the year 10000, and its error."""
    with pytest.raises(CronFault, match="never fires"):
        CronSpec(text, NEW_YORK, seconds_first=seconds_first, gap=gap)


def test_a_calendar_wholly_in_skipped_time_is_refused() -> None:
    whole = (CalendarRange(0, 59),)
    calendar = CalendarSpec(
        second=whole,
        minute=whole,
        hour=(CalendarRange(2),),
        month=(CalendarRange(3),),
        day_of_month=(CalendarRange(8, 14),),
        day_of_week=(CalendarRange(0),),
        year=(CalendarRange(2027, 2999),),
    )
    spec = ScheduleSpec(calendars=(calendar,), timezone=NEW_YORK, gap=GapPolicy.SKIP)

    assert "never matches" in Times().fault(spec)
