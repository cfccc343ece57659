"""What users let lists find their runs by. The type travels with the value: nothing is registered.

A run has at most one value of a name; another run of the namespace may have one of another type.
A filter then compares with those that can be compared (ports.filters), and nobody else's program
breaks because a name was taken.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable

import msgspec

from perdure_engine.core.versions import Behavior, Versioning


class AttributeType(enum.IntEnum):
    """The numbers are Temporal's."""

    TEXT = 1
    KEYWORD = 2
    INT = 3
    DOUBLE = 4
    BOOL = 5
    DATETIME = 6
    KEYWORD_LIST = 7


AttributeValue = bool | int | float | str | tuple[str, ...] | None
"""DATETIME: µs since the epoch. None takes the attribute away."""


class SearchAttribute(msgspec.Struct, frozen=True, array_like=True, gc=False):
    name: str
    type: AttributeType
    value: AttributeValue


Attributes = tuple[SearchAttribute, ...]

BUILT_IN_NAMES = frozenset(
    {
        *("WorkflowId", "RunId", "WorkflowType", "TaskQueue", "ExecutionStatus", "StartTime"),
        *("CloseTime", "HistoryLength", "HistorySizeBytes", "Stuck"),
    }
)
"""Filters mean the run's own columns by these; no attribute may be called so."""

JSON_KEYS = {
    AttributeType.TEXT: "t",
    AttributeType.KEYWORD: "k",
    AttributeType.INT: "i",
    AttributeType.DOUBLE: "f",
    AttributeType.BOOL: "b",
    AttributeType.DATETIME: "d",
    AttributeType.KEYWORD_LIST: "l",
}
WORDS_KEY = "w"  # of a Text: its words, so that one containment finds them
STUCK_KEY = "stuck"
VERSIONING_NAMES = ("DeploymentName", "BuildId", "VersioningBehavior")
_BEHAVIORS = {
    Behavior.UNSPECIFIED: "Unspecified",
    Behavior.PINNED: "Pinned",
    Behavior.AUTO_UPGRADE: "AutoUpgrade",
}

_TYPES = {key: type_ for type_, key in JSON_KEYS.items()}
_word = re.compile(r"\w+")


def merged(attributes: Attributes, changes: Iterable[SearchAttribute]) -> Attributes:
    """The last change of a name wins, with its type; without a value it takes the name away."""
    by_name = {attribute.name: attribute for attribute in attributes}
    for change in changes:
        if change.value is None:
            by_name.pop(change.name, None)
        else:
            by_name[change.name] = change
    return tuple(by_name.values())


def size(attribute: SearchAttribute) -> int:
    """In bytes, its name not counted. A number counts as eight."""
    value = attribute.value
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, tuple):
        return sum(len(one.encode()) for one in value)
    return 0 if value is None else 8


def total_size(attributes: Iterable[SearchAttribute]) -> int:
    return sum(len(attribute.name.encode()) + size(attribute) for attribute in attributes)


def words(text: str) -> list[str]:
    """What a filter finds a Text by: each of its words once, in one case."""
    return list(dict.fromkeys(_word.findall(text.casefold())))


def of_versioning(versioning: Versioning) -> Attributes:
    """What lists find the runs of a version by: Keywords with names that no user's attribute has."""
    facts = (versioning.deployment_name, versioning.build_id, _BEHAVIORS[versioning.behavior])
    return tuple(
        SearchAttribute(name, AttributeType.KEYWORD, fact)
        for name, fact in zip(VERSIONING_NAMES, facts, strict=True)
    )


def split_versioning(attributes: Attributes) -> tuple[Attributes, Versioning | None]:
    """The user's own, and what `of_versioning` added to them."""
    facts = {one.name: str(one.value) for one in attributes if one.name in VERSIONING_NAMES}
    if not facts:
        return attributes, None
    own = tuple(one for one in attributes if one.name not in VERSIONING_NAMES)
    deployment_name, build_id, behavior = (facts.get(name, "") for name in VERSIONING_NAMES)
    known = {name: number for number, name in _BEHAVIORS.items()}
    return own, Versioning(known.get(behavior, Behavior.UNSPECIFIED), deployment_name, build_id)


def to_json(attributes: Attributes, stuck_reason: str | None) -> str:
    """The row's `attrs`: {"stuck": reason, type key: {name: value, …}, …}. Both databases find by it."""
    found: dict[str, object] = {} if stuck_reason is None else {STUCK_KEY: stuck_reason}
    for attribute in attributes:
        _put(found, JSON_KEYS[attribute.type], attribute.name, attribute.value)
        if attribute.type is AttributeType.TEXT:
            _put(found, WORDS_KEY, attribute.name, words(str(attribute.value)))
    return json.dumps(found)


def _put(found: dict[str, object], key: str, name: str, value: object) -> None:
    values = found.setdefault(key, {})
    assert isinstance(values, dict)
    values[name] = value


def from_json(text: str) -> tuple[Attributes, str | None]:
    """The attributes, by name, and why the run is stuck, if it is. Unknown keys are ignored."""
    if len(text) <= len("{}"):
        return (), None
    found = json.loads(text)
    attributes = [
        SearchAttribute(name, _TYPES[key], _value(_TYPES[key], value))
        for key, values in found.items()
        if key in _TYPES
        for name, value in values.items()
    ]
    attributes.sort(key=lambda attribute: attribute.name)
    return tuple(attributes), found.get(STUCK_KEY)


def _value(type_: AttributeType, value: object) -> AttributeValue:
    """jsonb keeps a number's value and not its form: 5.0 may come back as 5."""
    if type_ is AttributeType.DOUBLE:
        return float(str(value))
    if isinstance(value, list):
        return tuple(value)
    assert isinstance(value, bool | int | float | str)
    return value
