"""`CronSpec`: the dialect, and what a change of the clocks does (semantics §11)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_engine.core.schedules.model import GapPolicy, RepeatPolicy
from perdure_engine.scheduler.cron import CronSpec, CronSpecs
from perdure_engine.scheduler.fields import CronFault
from perdure_engine.scheduler.walls import EPOCH

NEW_YORK = "America/New_York"


def case(name: str, expression: str, zone: str, after: str, *times: str) -> Any:
    return pytest.param(expression, zone, after, list(times), id=name)


# The design's cases/cron.json. Among them what croniter and cronsim get wrong (bug reports 69 and 70): D05, D13, D14,
# D23, S08; what is refused stands below.
TIMES = [
    case(
        "D01",
        "30 2 * * *",
        "America/New_York",
        "2027-03-13T12:00:00-05:00",
        "2027-03-14T03:00:00-04:00",
        "2027-03-15T02:30:00-04:00",
    ),
    case(
        "D02",
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
        "2026-11-03T01:30:00-05:00",
    ),
    case(
        "D04",
        "*/30 * * * *",
        "America/New_York",
        "2026-11-01T00:45:00-04:00",
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ),
    case(
        "D05",
        "0 */2 * * *",
        "America/New_York",
        "2027-03-14T00:30:00-05:00",
        "2027-03-14T04:00:00-04:00",
        "2027-03-14T06:00:00-04:00",
    ),
    case(
        "D07",
        "15 0-4 * * *",
        "America/New_York",
        "2027-03-14T01:30:00-05:00",
        "2027-03-14T03:00:00-04:00",
        "2027-03-14T03:15:00-04:00",
        "2027-03-14T04:15:00-04:00",
    ),
    case(
        "D08",
        "0 0 * * *",
        "Asia/Beirut",
        "2027-03-27T12:00:00+02:00",
        "2027-03-28T01:00:00+03:00",
        "2027-03-29T00:00:00+03:00",
    ),
    case(
        "D10",
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T12:00:00+10:30",
        "2026-10-04T02:30:00+11:00",
        "2026-10-05T02:15:00+11:00",
    ),
    case(
        "D11",
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2027-04-03T12:00:00+11:00",
        "2027-04-04T01:45:00+11:00",
        "2027-04-05T01:45:00+10:30",
    ),
    case(
        "D13",
        "40 * * * *",
        "Australia/Lord_Howe",
        "2027-10-03T01:45:00+10:30",
        "2027-10-03T02:40:00+11:00",
        "2027-10-03T03:40:00+11:00",
    ),
    case(
        "D14",
        "* 3 * * *",
        "Pacific/Chatham",
        "2027-04-04T03:42:00+13:45",
        "2027-04-04T03:43:00+13:45",
        "2027-04-04T03:44:00+13:45",
        "2027-04-04T03:00:00+12:45",
        "2027-04-04T03:01:00+12:45",
    ),
    case(
        "D16",
        "30 2 * * *",
        "Africa/Casablanca",
        "2027-02-06T12:00:00+00:00",
        "2027-02-07T02:30:00+00:00",
        "2027-02-08T02:30:00+00:00",
    ),
    case(
        "D17",
        "30 2 * * *",
        "Africa/Casablanca",
        "2027-03-13T12:00:00+00:00",
        "2027-03-14T02:30:00+00:00",
        "2027-03-15T02:30:00+00:00",
    ),
    case(
        "D19",
        "30 1 * * *",
        "Antarctica/Troll",
        "2027-03-27T12:00:00+00:00",
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T01:30:00+02:00",
    ),
    case(
        "D20",
        "0 12 * * 0",
        "Europe/Berlin",
        "2027-03-25T12:00:00+01:00",
        "2027-03-28T12:00:00+02:00",
        "2027-04-04T12:00:00+02:00",
    ),
    case(
        "D22",
        "0 23 * * *",
        "America/Nuuk",
        "2027-03-27T12:00:00-02:00",
        "2027-03-28T00:00:00-01:00",
        "2027-03-28T23:00:00-01:00",
    ),
    case(
        "D23",
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T01:10:00-05:00",
        "2026-11-02T01:30:00-05:00",
    ),
    case(
        "S01",
        "0 0 29 2 *",
        "UTC",
        "2096-03-01T00:00:00+00:00",
        "2104-02-29T00:00:00+00:00",
    ),
    case(
        "S02",
        "0 0 29 2 1",
        "UTC",
        "2026-11-29T16:00:00+00:00",
        "2027-02-01T00:00:00+00:00",
        "2027-02-08T00:00:00+00:00",
        "2027-02-15T00:00:00+00:00",
    ),
    case(
        "S04",
        "0 0 L * *",
        "UTC",
        "2026-12-31T12:00:00+00:00",
        "2027-01-31T00:00:00+00:00",
        "2027-02-28T00:00:00+00:00",
        "2027-03-31T00:00:00+00:00",
    ),
    case(
        "S05",
        "0 0 * * 1#5",
        "UTC",
        "2026-11-29T16:00:00+00:00",
        "2026-11-30T00:00:00+00:00",
        "2027-03-29T00:00:00+00:00",
        "2027-05-31T00:00:00+00:00",
    ),
    case(
        "S07",
        "*/45 * * * *",
        "UTC",
        "2026-11-29T16:00:00+00:00",
        "2026-11-29T16:45:00+00:00",
        "2026-11-29T17:00:00+00:00",
        "2026-11-29T17:45:00+00:00",
    ),
    case(
        "S08",
        "0 9-9 * * *",
        "UTC",
        "2026-11-29T16:00:00+00:00",
        "2026-11-30T09:00:00+00:00",
        "2026-12-01T09:00:00+00:00",
    ),
    case(
        "S10",
        "0 0 * * 7",
        "UTC",
        "2026-11-29T16:00:00+00:00",
        "2026-12-06T00:00:00+00:00",
        "2026-12-13T00:00:00+00:00",
    ),
]


@pytest.mark.parametrize(("expression", "zone", "after", "times"), TIMES)
def test_the_times_of_a_schedule(expression: str, zone: str, after: str, times: list[str]) -> None:
    spec = CronSpec(f"CRON_TZ={zone} {expression}")
    found = times_of(spec, after, len(times))

    assert found == [datetime.fromisoformat(time) for time in times]


# Of our own: what the table above does not have.
FURTHER = [
    case(
        "a fifth Monday in February",
        "0 0 * 2 MON#5",
        "UTC",
        "2027-03-01T00:00:00Z",
        "2044-02-29T00:00:00Z",
        "2072-02-29T00:00:00Z",
    ),
    case(
        "the last day of a February",
        "15 14 L 2 *",
        "UTC",
        "2027-03-01T00:00:00Z",
        "2028-02-29T14:15:00Z",
        "2029-02-28T14:15:00Z",
    ),
    case(
        "L or a weekday",
        "0 0 L * 3",
        "UTC",
        "2027-03-25T00:00:00Z",
        "2027-03-31T00:00:00Z",
        "2027-04-07T00:00:00Z",
    ),
    case(
        "Sunday at the end of a range",
        "0 0 * * 5-7",
        "UTC",
        "2027-03-01T00:00:00Z",
        "2027-03-05T00:00:00Z",
        "2027-03-06T00:00:00Z",
        "2027-03-07T00:00:00Z",
        "2027-03-12T00:00:00Z",
    ),
    case(
        "half an hour that comes twice",
        "*/20 * * * *",
        "Australia/Lord_Howe",
        "2027-04-04T01:25:00+11:00",
        "2027-04-04T01:40:00+11:00",
        "2027-04-04T01:40:00+10:30",
        "2027-04-04T02:00:00+10:30",
    ),
    case(
        "half an hour that is skipped",
        "*/15 1-2 * * *",
        "Australia/Lord_Howe",
        "2026-10-04T01:50:00+10:30",
        "2026-10-04T02:30:00+11:00",
        "2026-10-04T02:45:00+11:00",
        "2026-10-05T01:00:00+11:00",
    ),
    case(
        "a day that is skipped, once a year",
        "0 0 30 12 *",
        "Pacific/Apia",
        "2010-12-31T00:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2012-12-30T00:00:00+14:00",
    ),
    case(
        "a day that is skipped, each day",
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-28T13:00:00-10:00",
        "2011-12-29T12:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T12:00:00+14:00",
    ),
    case(
        "two hours that come twice",
        "*/30 * * * *",
        "Antarctica/Troll",
        "2027-10-31T02:00:00+02:00",
        "2027-10-31T02:30:00+02:00",
        "2027-10-31T01:00:00+00:00",
        "2027-10-31T01:30:00+00:00",
    ),
    case(
        "Ramadan begins",
        "30 2 * * *",
        "Africa/Casablanca",
        "2026-02-14T12:00:00+01:00",
        "2026-02-15T02:30:00+01:00",
        "2026-02-16T02:30:00+00:00",
    ),
    case(
        "Ramadan ends",
        "30 2 * * *",
        "Africa/Casablanca",
        "2026-03-21T12:00:00+00:00",
        "2026-03-22T03:00:00+01:00",
        "2026-03-23T02:30:00+01:00",
    ),
    case(
        "the zone in the text",
        "CRON_TZ=Asia/Kathmandu 0 0 * * *",
        "",
        "2027-03-01T00:00:00Z",
        "2027-03-02T00:00:00+05:45",
    ),
    case(
        "tabs",
        "\t0  0\t* *  * ",
        "UTC",
        "2027-03-01T00:00:00Z",
        "2027-03-02T00:00:00Z",
    ),
]


@pytest.mark.parametrize(("expression", "zone", "after", "times"), FURTHER)
def test_further_cases(expression: str, zone: str, after: str, times: list[str]) -> None:
    found = times_of(CronSpec(expression, zone), after, len(times))

    assert found == [datetime.fromisoformat(time) for time in times]


def test_seconds_of_a_fixed_time_that_comes_twice() -> None:
    spec = CronSpec("5,10 30 1 * * *", NEW_YORK, seconds_first=True)

    assert times_of(spec, "2026-10-31T12:00:00-04:00", 3) == [
        datetime.fromisoformat("2026-11-01T01:30:05-04:00"),
        datetime.fromisoformat("2026-11-01T01:30:10-04:00"),
        datetime.fromisoformat("2026-11-02T01:30:05-05:00"),
    ]


# … and its column "every_instant": what the clocks skip does not come, what they repeat comes twice.
EVERY_INSTANT = [
    case("D01", "30 2 * * *", NEW_YORK, "2027-03-13T12:00:00-05:00", "2027-03-15T02:30:00-04:00"),
    case(
        "D02",
        "30 1 * * *",
        NEW_YORK,
        "2026-10-31T12:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-02T01:30:00-05:00",
    ),
    case(
        "D07",
        "15 0-4 * * *",
        NEW_YORK,
        "2027-03-14T01:30:00-05:00",
        "2027-03-14T03:15:00-04:00",
        "2027-03-14T04:15:00-04:00",
        "2027-03-15T00:15:00-04:00",
    ),
    case(
        "D08", "0 0 * * *", "Asia/Beirut", "2027-03-27T12:00:00+02:00", "2027-03-29T00:00:00+03:00"
    ),
    case(
        "D11",
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2027-04-03T12:00:00+11:00",
        "2027-04-04T01:45:00+11:00",
        "2027-04-04T01:45:00+10:30",
    ),
    case(
        "D19", "30 1 * * *", "Antarctica/Troll", "2027-03-27T12:00:00Z", "2027-03-29T01:30:00+02:00"
    ),
    case(
        "D22",
        "0 23 * * *",
        "America/Nuuk",
        "2027-03-27T12:00:00-02:00",
        "2027-03-28T23:00:00-01:00",
    ),
    case("D23", "30 1 * * *", NEW_YORK, "2026-11-01T01:10:00-05:00", "2026-11-01T01:30:00-05:00"),
]


@pytest.mark.parametrize(("expression", "zone", "after", "times"), EVERY_INSTANT)
def test_every_instant_that_the_clock_shows(
    expression: str, zone: str, after: str, times: list[str]
) -> None:
    spec = CronSpec(expression, zone, gap=GapPolicy.SKIP, repeat=RepeatPolicy.BOTH)

    assert times_of(spec, after, len(times)) == [datetime.fromisoformat(time) for time in times]


def times_of(spec: CronSpec, after: str, count: int) -> list[datetime]:
    at = datetime.fromisoformat(after)
    found = []
    for _ in range(count):
        following = spec.next_after(at)
        assert following is not None
        assert following > at
        found.append(at := following)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "10-5 * * * *",
        "R * * * *",
        "H * * * *",
        "@every 5m",
        "@reboot",
        "TZ=UTC 0 * * * *",
        "CRON_TZ=Mars/Olympus 0 * * * *",
        "CRON_TZ=../../etc/passwd 0 * * * *",
        "CRON_TZ= 0 * * * *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "*/0 * * * *",
        "5/10 * * * *",
        "*-5 * * * *",
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 */2 * 1",
        "0 0 1 * */2",
        "0 0 1W * *",
        "0 0 * * L5",
        "0 0 ? * *",
        "0 0 * * 1#1,3",
        "0 0 15 * 1#1",
        "0 0 * * 1#6",
        "0 0 * FOO *",
        "\u0660 * * * *",
        "1\u00a0* * * *",
        "1\u2003* * * *",
        "0 0 * * *\n",
        "0 0 *\v* *",
        "0 0 * * FRI-MON",
        "0 0 * NOV-FEB *",
        "0 0 LW * *",
        "0 0 * * 5L",
        "0,, * * * *",
        "0 " * 200,
    ],
)
def test_what_is_not_of_the_dialect_is_refused(text: str) -> None:
    """Bug reports 67 and 69 among them: a date that never comes, and what croniter reads in its own way."""
    with pytest.raises(CronFault):
        CronSpec(text)

    assert CronSpecs().fault(text)
    assert CronSpecs().next_fire_us(text, 0) == 0


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 JAN *"),
        ("0 9-9 * * *", "0 9 * * *"),
        ("0 0 * * 7", "0 0 * * sun"),
        ("0 0 * * FRI-7", "0 0 * * 5,6,0"),
        ("0-30/10 * * * *", "0,10,20,30 * * * *"),
        ("CRON_TZ=UTC 0 12 * * *", "0 12 * * *"),
    ],
)
def test_two_ways_to_write_one_schedule(text: str, same: str) -> None:
    one, other = CronSpec(text), CronSpec(same)
    at = EPOCH + timedelta(days=20_000)
    for _ in range(20):
        following = one.next_after(at)
        assert following is not None
        assert following == other.next_after(at)
        at = following


NUMBERS = st.integers(0, 31).map(str)
ITEMS = st.one_of(
    st.just("*"),
    NUMBERS,
    st.tuples(NUMBERS, NUMBERS).map("-".join),
    st.tuples(st.sampled_from(["*", "0-9", "1-7"]), st.integers(1, 9).map(str)).map("/".join),
    st.tuples(NUMBERS, st.integers(1, 5).map(str)).map("#".join),
    st.sampled_from(["L", "l", "MON", "fri", "FEB", "jan-Mar", "MON#2"]),
    st.text(alphabet="0123456789*/,-#LMON?WRH@", max_size=5),
)
FIELDS = st.lists(ITEMS, min_size=1, max_size=2).map(",".join)


@given(fields=st.lists(FIELDS, min_size=5, max_size=5), zone=st.sampled_from(["", NEW_YORK]))
def test_whatever_is_written_is_read_or_refused(fields: list[str], zone: str) -> None:
    """Nothing else may come of it: a start's schedule is read in the shard's turn."""
    text = " ".join([f"CRON_TZ={zone}", *fields] if zone else fields)
    specs = CronSpecs()
    at_us = 1_800_000_000_000_000

    following = specs.next_fire_us(text, at_us)

    assert (following > at_us) if not specs.fault(text) else (following == 0)


def test_the_next_time_is_past_the_one_asked_from() -> None:
    """Asked from a time of its own, or a microsecond before it."""
    hour_us = 3_600_000_000
    specs = CronSpecs()

    assert specs.fault("@hourly") == ""
    assert specs.next_fire_us("@hourly", 5 * hour_us) == 6 * hour_us
    assert specs.next_fire_us("@hourly", 5 * hour_us - 1) == 5 * hour_us
    assert specs.next_fire_us("@hourly", 5 * hour_us + 1) == 6 * hour_us
