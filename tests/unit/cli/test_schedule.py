"""`perdure schedule preview`: what a newcomer types, without an engine."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from perdure.cli.app import app


def preview(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["schedule", "preview", *arguments])


AFTER = ("--after", "2027-03-13T12:00:00-05:00")
NEW_YORK = ("--timezone", "America/New_York")


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ((), ["2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"]),
        (("--gap", "skip"), ["2027-03-15T02:30:00-04:00", "2027-03-16T02:30:00-04:00"]),
    ],
)
def test_the_next_times_are_a_list_of_instants(options: tuple[str, ...], times: list[str]) -> None:
    result = preview("--cron", "30 2 * * *", *NEW_YORK, *AFTER, "-n", "2", "-o", "json", *options)

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == times


def test_a_repeated_time_comes_once_or_twice() -> None:
    asked = ("--cron", "30 1 * * *", *NEW_YORK, "--after", "2026-10-31T12:00:00-04:00", "-n", "2")

    once = json.loads(preview(*asked, "-o", "json").stdout)
    twice = json.loads(preview(*asked, "-o", "json", "--overlap", "both").stdout)

    assert once == ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
    assert twice == ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"]


def test_seconds_come_first_when_asked_for() -> None:
    asked = ("--cron", "*/10 * * * * *", "--after", "2026-11-29T16:00:00Z", "-n", "3", "-o", "json")

    assert json.loads(preview(*asked, "--seconds-first").stdout) == [
        "2026-11-29T16:00:10+00:00",
        "2026-11-29T16:00:20+00:00",
        "2026-11-29T16:00:30+00:00",
    ]
    assert preview(*asked).exit_code == 2


def test_times_end_with_the_years_that_a_schedule_can_have() -> None:
    asked = ("--cron", "0 0 * * *", "--after", "2999-12-30T00:00:00Z", "-n", "3", "-o", "json")

    assert json.loads(preview(*asked).stdout) == ["2999-12-31T00:00:00+00:00"]


WORKDAYS = ("--calendar", '{"dayOfWeek": "Mon-Fri", "hour": "9-17/4", "minute": 30}')
CHRISTMAS = ("--exclude", '{"month": "Dec", "dayOfMonth": 25}')


def test_all_that_a_schedule_may_have_is_shown() -> None:
    """Of 25 December, a Friday, nothing comes; an interval's phase counts from midnight UTC."""
    result = preview(
        *(*WORKDAYS, *CHRISTMAS, "--interval", "24h/1h", "--date", "2026-12-24T20:00:00"),
        *("--timezone", "Europe/Berlin", "--after", "2026-12-24T12:00:00Z", "-n", "5"),
    )

    assert result.exit_code == 0, result.stderr
    said, *times = result.stdout.splitlines()
    assert times == [
        "2026-12-24T13:30:00+01:00",
        "2026-12-24T17:30:00+01:00",
        "2026-12-24T21:00:00+01:00",
        "2026-12-26T02:00:00+01:00",
        "2026-12-27T02:00:00+01:00",
    ]
    assert said == (
        "Every day, 1 hour later; At hour 9-17/4, minute 30, second 0, day of week 1-5;"
        " At 2026-12-24T20:00:00Z, except At any time, day of month 25, month 12 (Europe/Berlin)"
    )


def test_several_expressions_are_one_schedule() -> None:
    asked = ("--cron", "0 9 * * *", "--cron", "0 12 * * *", "--after", "2026-11-29T00:00:00Z")

    assert json.loads(preview(*asked, "-n", "3", "-o", "json").stdout) == [
        "2026-11-29T09:00:00+00:00",
        "2026-11-29T12:00:00+00:00",
        "2026-11-30T09:00:00+00:00",
    ]


def test_people_read_it_in_words() -> None:
    result = preview("--cron", "0 9 * * MON-FRI", "--after", "2026-11-29T16:00:00Z", "-n", "1")

    assert result.stdout == "At 09:00, Monday through Friday\n2026-11-30T09:00:00+00:00\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--cron", "10-5 * * * *"), "backwards"),
        (("--cron", "0 0 31 2 *"), "never fires"),
        (("--cron", "@every 5m"), "five fields"),
        (("--cron", "* * * * *", "--timezone", "../../etc/passwd"), "no time zone"),
        (("--cron", "CRON_TZ=UTC * * * * *", "--timezone", "UTC"), "beside"),
        (("--cron", "1," * 200), "longer than"),
        (("--cron", "* * * * *", "--after", "yesterday"), "not a time"),
        (("--cron", "0 0 * * *", "--after", "9999-12-31T23:59:00Z"), "1970-2999"),
        (("--cron", "0 0 * * *", "--after", "0001-01-01T00:00:00+14:00"), "1970-2999"),
        (("--cron", "1\u00a0* * * *"), "five fields"),
        ((), "say when"),
        (("--calendar", '{"hour": 25}'), "outside 0-23"),
        (("--calendar", '{"month": 2, "dayOfMonth": 30}'), "calendars[0]: never matches"),
        (("--interval", "500ms"), "intervals[0].every_ms"),
        (("--interval", "1h/2h"), "intervals[0].phase_ms"),
        (("--cron", "@daily", "--exclude", '{"hour": 0}'), "leaves no time"),
        (("--cron", "* 2 * 3 SUN#2", "--timezone", "America/New_York"), "never fires"),
    ],
)
def test_what_is_refused_is_bad_usage(arguments: tuple[str, ...], reason: str) -> None:
    """B29."""
    result = preview(*arguments)

    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stdout == ""
