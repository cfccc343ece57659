"""Spans and points of time as people write them: `90s`, `1h30m`, `2d`; `2026-11-29T10:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from perdure.cli.errors import UsageError

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")


def parse_duration(text: str) -> timedelta:
    """Raises UsageError for what is no duration, and for zero."""
    duration = _duration_or_none(text)
    if duration is None:
        raise UsageError(f"not a duration (500ms, 90s, 1h30m, 7d): {text!r}")
    if not duration:
        raise UsageError(f"a duration must be longer than 0: {text!r}")
    return duration


def optional_duration(text: str | None) -> timedelta | None:
    """Of an option that may be left out."""
    return None if text is None else parse_duration(text)


def parse_instant(text: str, now: datetime) -> datetime:
    """ISO 8601 (UTC unless it says otherwise), or a duration: that long before `now`."""
    duration = _duration_or_none(text)
    try:
        return _iso_instant(text) if duration is None else now - duration
    except (ValueError, OverflowError):
        raise UsageError(
            f"not a time (2026-11-29T10:00:00Z, or 2h for two hours ago): {text!r}"
        ) from None


def parse_time(text: str) -> datetime:
    """ISO 8601 only: for what is still to come."""
    try:
        return _iso_instant(text)
    except ValueError:
        raise UsageError(f"not a time (2026-11-29T10:00:00Z): {text!r}") from None


def _iso_instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _duration_or_none(text: str) -> timedelta | None:
    if not _DURATION.fullmatch(text):
        return None
    try:
        return sum(
            (float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), timedelta()
        )
    except OverflowError:
        raise UsageError(f"too long a duration: {text!r}") from None
