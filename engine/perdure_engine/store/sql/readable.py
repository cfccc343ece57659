"""Copies for people of what rows hold in bytes: `readable` columns, which the views of `perdure_v1_…` show."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_encode = msgspec.json.Encoder().encode


def to_json(facts: Mapping[str, str | int | None]) -> str:
    """What both databases take as jsonb: a NUL character, which neither can hold, becomes U+FFFD."""
    return _encode({name: _held(fact) for name, fact in facts.items()}).decode()


def _held(fact: str | int | None) -> str | int | None:
    return fact.replace("\0", "\ufffd") if isinstance(fact, str) else fact
