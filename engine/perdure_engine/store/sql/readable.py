"""Copies for people of what rows hold in bytes: `readable` columns, which the views of `perdure_v1_…` show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def to_json(facts: Mapping[str, Any]) -> str:
    """What both databases take as jsonb: a NUL character, which neither can hold, becomes U+FFFD. Not in what lies
    deeper: there stand only names, which are checked to have none."""
    return _encode({name: _held(fact) for name, fact in facts.items()}).decode()


def _held(fact: Any) -> Any:
    return fact.replace("\0", "\ufffd") if isinstance(fact, str) else fact
