"""`Times`: what a schedule's spec means, when it is refused, and how it is said (semantics §11, invariant 53)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    GapPolicy,
    IntervalSpec,
    RepeatPolicy,
    ScheduleSpec,
)
from perdure_engine.scheduler.cron import zone
from perdure_engine.scheduler.times import EXCLUDED_FIRST_MAX, LAST_US, Times
from perdure_engine.scheduler.walls import EPOCH

TIMES = Times()
HOUR_US = 3_600_000_000
WHOLE_DAY: dict[str, Any] = {
    "hour": (CalendarRange(0, 23),),
    "minute": (CalendarRange(0, 59),),
    "second": (CalendarRange(0, 59),),
}


def us(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def on(*numbers: int) -> tuple[CalendarRange, ...]:
    return tuple(CalendarRange(number) for number in numbers)


def times(spec: ScheduleSpec, after: str, count: int) -> list[str]:
    """The next times, as the clock of its zone shows them."""
    found, at_us = [], us(after)
    for _ in range(count):
        at_us = TIMES.next_us(spec, at_us)
        if not at_us:
            break
        at = EPOCH + timedelta(microseconds=at_us)
        found.append(at.astimezone(zone(spec.timezone)).isoformat())
    return found


def case(name: str, spec: ScheduleSpec, after: str, *expected: str) -> Any:
    return pytest.param(spec, after, list(expected), id=name)


# In zones and by rules that cases/cron.json lacks.
CASES = [
    case(
        "Dublin, whose winter time is the one that is shifted",
        ScheduleSpec(cron=("30 1 * * *",), timezone="Europe/Dublin"),
        "2027-03-27T12:00:00+00:00",
        "2027-03-28T02:00:00+01:00",
        "2027-03-29T01:30:00+01:00",
    ),
    case(
        "St John's, half an hour beside the others",
        ScheduleSpec(cron=("15 1 * * *",), timezone="America/St_Johns", repeat=RepeatPolicy.BOTH),
        "2026-10-31T12:00:00-02:30",
        "2026-11-01T01:15:00-02:30",
        "2026-11-01T01:15:00-03:30",
        "2026-11-02T01:15:00-03:30",
    ),
    case(
        "Apia left out a whole day: its times came when that was over",
        ScheduleSpec(cron=("0 9,17 * * *",), timezone="Pacific/Apia"),
        "2011-12-29T12:00:00-10:00",
        "2011-12-29T17:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T09:00:00+14:00",
    ),
    case(
        "Kathmandu, three quarters of an hour off, never changes",
        ScheduleSpec(cron=("0 6 * * MON-FRI",), timezone="Asia/Kathmandu"),
        "2026-11-27T12:00:00+05:45",
        "2026-11-30T06:00:00+05:45",
        "2026-12-01T06:00:00+05:45",
    ),
    case(
        "Havana skips midnight: a calendar comes after the gap, as cron does",
        ScheduleSpec(calendars=(CalendarSpec(minute=on(30)),), timezone="America/Havana"),
        "2023-03-11T12:00:00-05:00",
        "2023-03-12T01:00:00-04:00",
        "2023-03-13T00:30:00-04:00",
    ),
    case(
        "… or not at all",
        ScheduleSpec(
            calendars=(CalendarSpec(minute=on(30)),), timezone="America/Havana", gap=GapPolicy.SKIP
        ),
        "2023-03-11T12:00:00-05:00",
        "2023-03-13T00:30:00-04:00",
    ),
    case(
        "Cairo, a calendar for every second hour follows real time over the gap",
        ScheduleSpec(
            calendars=(CalendarSpec(hour=(CalendarRange(0, 23, 2),)),), timezone="Africa/Cairo"
        ),
        "2027-04-29T21:00:00+02:00",
        "2027-04-29T22:00:00+02:00",
        "2027-04-30T02:00:00+03:00",
        "2027-04-30T04:00:00+03:00",
    ),
    case(
        "an interval with phase counts from the epoch, whatever the clocks do",
        ScheduleSpec(intervals=(IntervalSpec(6 * 3_600_000, 1_800_000),), timezone="Europe/Paris"),
        "2026-10-24T20:00:00+02:00",
        "2026-10-24T20:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T07:30:00+01:00",
    ),
    case(
        "a calendar with seconds in one year only",
        ScheduleSpec(
            calendars=(
                CalendarSpec(
                    second=on(30), hour=on(12), month=on(2), day_of_month=on(29), year=on(2028)
                ),
            ),
            timezone="Asia/Tokyo",
        ),
        "2026-11-30T00:00:00+09:00",
        "2028-02-29T12:00:30+09:00",
    ),
    case(
        "all fields of a calendar must match: a Friday the 13th",
        ScheduleSpec(calendars=(CalendarSpec(day_of_month=on(13), day_of_week=on(5)),)),
        "2026-11-30T00:00:00+00:00",
        "2027-08-13T00:00:00+00:00",
        "2028-10-13T00:00:00+00:00",
    ),
    case(
        "weekdays of a day that has 23 hours, but for those excluded",
        ScheduleSpec(
            cron=("0 */12 * * *",),
            exclude=(CalendarSpec(**WHOLE_DAY, day_of_week=on(0, 6)),),
            timezone="Europe/Lisbon",
        ),
        "2027-03-26T00:00:00+00:00",
        "2027-03-26T12:00:00+00:00",
        "2027-03-29T00:00:00+01:00",
    ),
    case(
        "parts together, in order and once, between a start and an end that count",
        ScheduleSpec(
            cron=("0 12 * * *",),
            intervals=(IntervalSpec(24 * 3_600_000, 12 * 3_600_000),),
            dates_us=(us("2026-12-02T07:00:00+00:00"), us("2026-12-02T07:00:00+00:00")),
            start_us=us("2026-12-01T12:00:00+00:00"),
            end_us=us("2026-12-02T12:00:00+00:00"),
        ),
        "2026-11-30T00:00:00+00:00",
        "2026-12-01T12:00:00+00:00",
        "2026-12-02T07:00:00+00:00",
        "2026-12-02T12:00:00+00:00",
    ),
    case(
        "seconds first, in a zone that the text names",
        ScheduleSpec(cron=("CRON_TZ=Africa/Casablanca 15 0 3 * * *",), seconds_first=True),
        "2027-02-06T12:00:00+00:00",
        "2027-02-07T03:00:15+00:00",
        "2027-02-08T03:00:15+00:00",
    ),
    case(
        "bug report 46: quarters of hours, over Brussels' autumn",
        ScheduleSpec(cron=("0,15,30,45 6-22 * * *",), timezone="Europe/Brussels"),
        "2026-10-24T22:30:00+02:00",
        "2026-10-24T22:45:00+02:00",
        "2026-10-25T06:00:00+01:00",
        "2026-10-25T06:15:00+01:00",
    ),
    case(
        "bug report 46: every fourth hour, over Los Angeles' spring",
        ScheduleSpec(cron=("20 */4 * * *",), timezone="America/Los_Angeles"),
        "2027-03-14T00:00:00-08:00",
        "2027-03-14T00:20:00-08:00",
        "2027-03-14T04:20:00-07:00",
        "2027-03-14T08:20:00-07:00",
    ),
    case(
        "bug report 49: Chatham's spring",
        ScheduleSpec(cron=("50 3 * * *",), timezone="Pacific/Chatham"),
        "2026-09-26T03:50:00+12:45",
        "2026-09-27T03:50:00+13:45",
    ),
    case(
        "bug report 51: Helsinki, from the second pass",
        ScheduleSpec(cron=("30 * * * *",), timezone="Europe/Helsinki"),
        "2026-10-25T03:45:00+02:00",
        "2026-10-25T04:30:00+02:00",
    ),
    case(
        "bug report 67: a date that Lisbon's clocks skip",
        ScheduleSpec(cron=("0 1 28 3 *",), timezone="Europe/Lisbon"),
        "2027-03-01T00:00:00+00:00",
        "2027-03-28T02:00:00+01:00",
        "2028-03-28T01:00:00+01:00",
    ),
]


@pytest.mark.parametrize(("spec", "after", "expected"), CASES)
def test_the_times_of_a_spec(spec: ScheduleSpec, after: str, expected: list[str]) -> None:
    assert TIMES.fault(spec) == ""
    assert times(spec, after, len(expected)) == expected


def test_after_its_last_time_there_is_none() -> None:
    spec = ScheduleSpec(cron=("0 12 * * *",), end_us=us("2026-12-02T11:59:00+00:00"))

    assert times(spec, "2026-12-01T00:00:00+00:00", 3) == ["2026-12-01T12:00:00+00:00"]
    assert TIMES.next_us(spec, LAST_US + 1) == 0


def every(**fields: Any) -> ScheduleSpec:
    return ScheduleSpec(**({"intervals": (IntervalSpec(60_000),)} | fields))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ScheduleSpec(), "cron"),
        (ScheduleSpec(cron=("* * * *",)), "cron[0]"),
        (ScheduleSpec(cron=("@daily", "10-5 * * * *")), "cron[1]"),
        (ScheduleSpec(cron=("R * * * *",)), "cron[0]"),
        (ScheduleSpec(cron=("H * * * *",)), "cron[0]"),
        (ScheduleSpec(cron=("* * * * * * *",)), "cron[0]"),
        (ScheduleSpec(cron=("0 0 31 2 *",)), "cron[0]"),
        (ScheduleSpec(cron=("TZ=UTC 0 0 * * *",)), "cron[0]"),
        (ScheduleSpec(cron=("0 " * 200,)), "cron[0]"),
        (ScheduleSpec(cron=("*" * 1_000_000,)), "cron[0]"),
        (ScheduleSpec(cron=("CRON_TZ=Mars/Olympus 0 0 * * *",)), "cron[0]"),
        (ScheduleSpec(cron=("CRON_TZ=Asia/Tokyo 0 0 * * *",), timezone="Asia/Seoul"), "cron[0]"),
        (ScheduleSpec(cron=("@daily",) * 101), "cron"),
        (every(intervals=(IntervalSpec(0),)), "intervals[0].every_ms"),
        (every(intervals=(IntervalSpec(999),)), "intervals[0].every_ms"),
        (every(intervals=(IntervalSpec(1 << 60),)), "intervals[0].every_ms"),
        (every(intervals=(IntervalSpec(1_000, 1_000),)), "intervals[0].phase_ms"),
        (every(intervals=(IntervalSpec(1_000, -1),)), "intervals[0].phase_ms"),
        (every(calendars=(CalendarSpec(hour=on(24)),)), "calendars[0].hour"),
        (every(calendars=(CalendarSpec(minute=(CalendarRange(5, 3),)),)), "calendars[0].minute"),
        (every(calendars=(CalendarSpec(month=(CalendarRange(1, 3, 0),)),)), "calendars[0].month"),
        (every(calendars=(CalendarSpec(day_of_month=on(0)),)), "calendars[0].day_of_month"),
        (every(calendars=(CalendarSpec(year=on(1969)),)), "calendars[0].year"),
        (every(calendars=(CalendarSpec(second=on(1) * 61),)), "calendars[0].second"),
        (every(calendars=(CalendarSpec(month=on(2), day_of_month=on(30)),)), "calendars[0]"),
        (every(exclude=(CalendarSpec(day_of_week=on(8)),)), "exclude[0].day_of_week"),
        (every(exclude=(CalendarSpec(**WHOLE_DAY),)), "exclude"),
        (every(dates_us=(0,)), "dates_us"),
        (every(dates_us=(LAST_US + 1,)), "dates_us"),
        (every(dates_us=tuple(range(1, 1_002))), "dates_us"),
        (every(start_us=-1), "start_us"),
        (every(end_us=1 << 62), "end_us"),
        (every(start_us=2, end_us=1), "end_us"),
        (every(end_us=1), "end_us"),
        (every(jitter_ms=-1), "jitter_ms"),
        (ScheduleSpec(intervals=(IntervalSpec(-1),)), "intervals[0].every_ms"),
        (
            ScheduleSpec(calendars=(CalendarSpec(comment="x" * 1_001),)),
            "calendars[0].comment",
        ),
        (every(exclude=(CalendarSpec(comment="a\0b"),)), "exclude[0].comment"),
        (every(jitter_ms=60_001), "jitter_ms"),
        (every(timezone=""), "timezone"),
        (every(timezone="Mars/Olympus"), "timezone"),
        (every(timezone="../../etc/passwd"), "timezone"),
        (every(timezone="Europe"), "timezone"),
        (every(timezone="A" * 1_000_000), "timezone"),
        (every(timezone="\u6642" * 100), "timezone"),
        (every(timezone="Europe/Be\0rlin"), "timezone"),
    ],
)
def test_what_is_refused_names_its_field(spec: ScheduleSpec, field: str) -> None:
    """B29, B30 of reliability §4. Whatever is asked of it still has an answer."""
    assert TIMES.fault(spec).split(":")[0].removesuffix(".") == field, TIMES.fault(spec)
    if field.startswith(("cron", "calendars", "timezone", "intervals")):
        assert TIMES.next_us(spec, 0) == 0
        assert TIMES.describe(spec) == ""


def test_words_are_no_more_than_a_list_of_schedules_can_carry() -> None:
    many = tuple(CalendarSpec(hour=on(hour % 24), comment="c" * 1_000) for hour in range(100))
    spec = ScheduleSpec(calendars=many)

    assert TIMES.fault(spec) == ""
    assert TIMES.describe(spec) == "c" * 500 + "…"


def test_times_that_are_all_excluded_end_the_search_in_so_many_steps() -> None:
    """Even minutes by one calendar, odd ones by the other: no span of them can be passed over at once."""
    halves = tuple(
        CalendarSpec(hour=(CalendarRange(0, 23),), minute=(CalendarRange(first, 59, 2),))
        for first in (0, 1)
    )
    one_minute_later = CalendarSpec(minute=(CalendarRange(1, 59, 2),), hour=on(0))

    assert TIMES.fault(ScheduleSpec(cron=("* * * * *",), exclude=halves)).startswith("exclude")
    assert TIMES.fault(ScheduleSpec(cron=("* * * * *",), exclude=(one_minute_later,))) == ""
    assert EXCLUDED_FIRST_MAX < 24 * 60 * 7, "else the first one stands for nothing"


def test_a_year_that_is_excluded_is_passed_over_at_once() -> None:
    spec = ScheduleSpec(
        cron=("30 * * * * *",),
        seconds_first=True,
        exclude=(CalendarSpec(**WHOLE_DAY, year=(CalendarRange(2027, 2030),)),),
        timezone="Europe/Berlin",
    )
    found = times(spec, "2026-12-31T23:59:30+01:00", 1)

    assert found == ["2031-01-01T00:00:30+01:00"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (ScheduleSpec(cron=("30 2 * * *",)), "At 02:30"),
        (ScheduleSpec(cron=("@hourly",), timezone="Asia/Tokyo"), "Every hour (Asia/Tokyo)"),
        (every(), "Every minute"),
        (every(intervals=(IntervalSpec(5_400_000, 60_000),)), "Every 90 minutes, 1 minute later"),
        (every(intervals=(IntervalSpec(1_500),)), "Every 1.5 seconds"),
        (every(jitter_ms=30_000), "Every minute, up to 30 seconds later"),
        (
            ScheduleSpec(calendars=(CalendarSpec(hour=on(9), day_of_week=(CalendarRange(1, 5),)),)),
            "At 09:00:00, day of week 1-5",
        ),
        (
            ScheduleSpec(calendars=(CalendarSpec(minute=(CalendarRange(0, 59, 15),)),)),
            "At hour 0, minute 0-59/15, second 0",
        ),
        (
            ScheduleSpec(dates_us=(us("2026-12-01T00:00:00+00:00"),), end_us=LAST_US),
            "At 2026-12-01T00:00:00Z, until 2999-12-31T23:59:59.999999Z",
        ),
        (ScheduleSpec(dates_us=(1, 2, 3, 4)), "At 4 dates"),
        (
            ScheduleSpec(cron=("0 9 * * *",), exclude=(CalendarSpec(comment="holidays"),)),
            "At 09:00, except holidays",
        ),
    ],
)
def test_a_schedule_in_words(spec: ScheduleSpec, said: str) -> None:
    assert TIMES.fault(spec) == ""
    assert TIMES.describe(spec) == said


def test_jitter_is_the_same_for_a_slot_and_another_for_others() -> None:
    spec = ScheduleSpec(cron=("@hourly",), jitter_ms=600_000)
    slots = [number * HOUR_US for number in range(1, 200)]
    found = [TIMES.jitter_us(spec, b"one", at_us) for at_us in slots]

    assert found == [TIMES.jitter_us(spec, b"one", at_us) for at_us in slots]
    assert found != [TIMES.jitter_us(spec, b"other", at_us) for at_us in slots]
    assert min(found) >= 0
    assert max(found) <= 600_000_000
    assert len(set(found)) > 190, "it spreads"
    assert TIMES.jitter_us(ScheduleSpec(cron=("@hourly",)), b"one", HOUR_US) == 0


@given(
    nominal=st.integers(1, 1_000_000).map(lambda number: number * HOUR_US),
    jitter_ms=st.integers(1, 20 * 24 * 3_600_000),
    seed=st.binary(max_size=80),
)
def test_jitter_keeps_the_order_of_slots(nominal: int, jitter_ms: int, seed: bytes) -> None:
    spec = ScheduleSpec(cron=("0 * * * *", "59 11 * * *"), jitter_ms=jitter_ms)
    following = TIMES.next_us(spec, nominal)

    first = nominal + TIMES.jitter_us(spec, seed, nominal)
    second = following + TIMES.jitter_us(spec, seed, following)

    assert nominal <= first < following <= second


def test_the_version_of_the_zones_is_known() -> None:
    assert TIMES.tzdata_version.startswith("20")
