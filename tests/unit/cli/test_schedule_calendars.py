"""`--calendar` and `--exclude`: what is said becomes ranges, and what is wrong is told."""

from __future__ import annotations

import pytest

from perdure.cli.errors import UsageError
from perdure.cli.schedule.calendars import parse_calendar, parse_exclusion, parse_exclusions
from perdure.schedule import ScheduleCalendarSpec, ScheduleRange

WHOLE_DAY = {
    "second": [ScheduleRange(0, 59)],
    "minute": [ScheduleRange(0, 59)],
    "hour": [ScheduleRange(0, 23)],
}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"hour": 9}', {"hour": [ScheduleRange(9)]}),
        ('{"hour": "9-17/2"}', {"hour": [ScheduleRange(9, 17, 2)]}),
        ('{"minute": "*/15"}', {"minute": [ScheduleRange(0, 59, 15)]}),
        ('{"minute": "5/20"}', {"minute": [ScheduleRange(5, 59, 20)]}),
        (
            '{"dayOfWeek": "Mon-Fri"}',
            {"day_of_week": [ScheduleRange(1, 5)]},
        ),
        ('{"day_of_week": "saturday, 7"}', {"day_of_week": [ScheduleRange(6), ScheduleRange(7)]}),
        ('{"dayOfWeek": "*/2"}', {"day_of_week": [ScheduleRange(0, 6, 2)]}),
        (
            '{"month": "Dec,1-3", "dayOfMonth": "25", "year": 2027, "comment": "once"}',
            {
                "month": [ScheduleRange(12), ScheduleRange(1, 3)],
                "day_of_month": [ScheduleRange(25)],
                "year": [ScheduleRange(2027)],
                "comment": "once",
            },
        ),
    ],
)
def test_a_calendar_is_what_temporal_users_write(text: str, fields: dict[str, object]) -> None:
    assert parse_calendar(text) == ScheduleCalendarSpec(**fields)  # type: ignore[arg-type]  # by name


def test_an_exclusion_covers_what_it_does_not_name() -> None:
    december = ScheduleRange(12)

    assert parse_exclusion('{"month": 12, "dayOfMonth": 25}') == ScheduleCalendarSpec(
        **WHOLE_DAY, month=[december], day_of_month=[ScheduleRange(25)]
    )
    assert parse_exclusion('{"hour": 12}').hour == [ScheduleRange(12)]
    assert parse_exclusion('{"hour": 12}').minute == WHOLE_DAY["minute"]
    assert parse_exclusions(["none"]) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a calendar"),
        ("{}", "not a calendar"),
        ("[]", "not a calendar"),
        ("9-17", "not a calendar"),
        ('{"hours": 9}', "no field 'hours'"),
        ('{"hour": 24}', "outside 0-23"),
        ('{"hour": 1.5}', "a number"),
        ('{"hour": true}', "a number"),
        ('{"hour": "17-9"}', "backwards"),
        ('{"hour": "*-9"}', "no number"),
        ('{"hour": ""}', "no number"),
        ('{"hour": "9,"}', "no number"),
        ('{"minute": "*/0"}', "no step of 0"),
        ('{"dayOfWeek": "mo"}', "no number"),
        ('{"dayOfWeek": "monkey"}', "outside"),
        ('{"month": 0}', "outside 1-12"),
        ('{"hour": 9, "comment": 5}', "comment: a text"),
    ],
)
def test_a_mistake_is_told(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_calendar(text)
