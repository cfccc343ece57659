"""Spans and points of time as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from perdure.cli.durations import parse_duration, parse_instant
from perdure.cli.errors import UsageError

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("90s", timedelta(seconds=90)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
    ],
)
def test_durations(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-5s", "5 s", "5s ", "0s", "0ms0s", "1w", "5S", "1e9d", "999999999999d"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("2026-11-29", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29T10:00:00Z", datetime(2026, 11, 29, 10, tzinfo=UTC)),
        (
            "2026-11-29T10:00:00+02:00",
            datetime(2026, 11, 29, 10, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_instants(text: str, instant: datetime) -> None:
    assert parse_instant(text, NOW) == instant


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "9999999d"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        parse_instant(text, NOW)
