"""Instants as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_text(at_us: int) -> str:
    """RFC 3339 in UTC; with fractions of a second only if there are any."""
    at = EPOCH + timedelta(microseconds=at_us)
    return at.isoformat().removesuffix("+00:00") + "Z"
