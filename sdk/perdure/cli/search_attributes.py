"""Search attributes from the command line: `Region="eu"`, `Amount=12`, `Due:Datetime="2026-11-29"`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.common import (
    SearchAttributeIndexedValueType,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
)

_Kind = SearchAttributeIndexedValueType
_KINDS = {kind.name.replace("_", "").lower(): kind for kind in _Kind}


def parse_search_attributes(entries: Sequence[str]) -> TypedSearchAttributes:
    """Raises UsageError. Without a type: Bool, Int, Double, Keyword or KeywordList, as the JSON is."""
    pairs: list[SearchAttributePair[Any]] = []
    for entry in entries:
        name, separator, text = entry.partition("=")
        name, _, told = name.partition(":")
        if not separator or not name:
            raise UsageError(f"--search-attribute must be NAME=JSON or NAME:TYPE=JSON: {entry!r}")
        (value,) = read_inputs((text,), ())
        kind = _KINDS.get(told.lower()) if told else _kind_of(value)
        if kind is None:
            raise UsageError(f"--search-attribute of no known type: {entry!r}")
        if kind is _Kind.DATETIME and isinstance(value, str):
            value = _instant(value)
        try:
            pairs.append(SearchAttributePair(SearchAttributeKey(name, kind), value))
        except TypeError as error:
            raise UsageError(str(error)) from None
    try:
        return TypedSearchAttributes(pairs)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _kind_of(value: Any) -> _Kind | None:
    match value:
        case bool():
            return _Kind.BOOL
        case int():
            return _Kind.INT
        case float():
            return _Kind.DOUBLE
        case str():
            return _Kind.KEYWORD
        case list():
            return _Kind.KEYWORD_LIST
        case _:
            return None


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"not a time (2026-11-29T10:00:00Z): {text!r}") from None
