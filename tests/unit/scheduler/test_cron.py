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


# The design's cases/cron.json.
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
        "0,, * * * *",
        "0 " * 200,
    ],
)
def test_what_is_not_of_the_dialect_is_refused(text: str) -> None:
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
