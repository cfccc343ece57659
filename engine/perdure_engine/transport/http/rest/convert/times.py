"""Instants and durations, both ways: datetimes and seconds outside, µs and ms inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import UNSET, UnsetType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def instant(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def instant_or_unset(us: int) -> datetime | UnsetType:
    """0 is "not set"."""
    return EPOCH + timedelta(microseconds=us) if us else UNSET


def to_us(value: datetime) -> int:
    """At least 1: 0 is "not set", and no instant here is before the epoch."""
    return max((value - EPOCH) // MICROSECOND, 1)


def to_us_or_zero(value: datetime | UnsetType | None) -> int:
    return to_us(value) if isinstance(value, datetime) else 0


def to_ms(seconds: float | None) -> int:
    """0 for what is not set, and never 0 for what is."""
    return 0 if seconds is None else max(round(seconds * 1_000), 1)


def to_seconds(ms: int) -> float:
    return ms / 1_000


def seconds_or_none(ms: int) -> float | None:
    """0 is "not set"."""
    return ms / 1_000 if ms else None


def seconds_or_unset(ms: int) -> float | UnsetType:
    """0 is "not set"."""
    return ms / 1_000 if ms else UNSET
