"""What the SDK tells of workflows, as plain JSON values."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeGuard

import msgspec

from perdure._failure_info import FailureInfo
from perdure.common import TypedSearchAttributes
from perdure.converter import Payload

Decode = Callable[[Payload], Any]
"""Gives back the payload itself when it cannot be decoded."""


def to_jsonable(value: Any, decode: Decode) -> Any:
    """Instants as ISO 8601 in UTC, durations in seconds, choices by name, payloads decoded."""
    match value:
        case Enum():  # before str and int, which some are
            return value.name
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Payload():
            return _payload(value, decode)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case _:
            return _compound(value, decode)


def _compound(value: Any, decode: Decode) -> Any:
    if isinstance(value, TypedSearchAttributes):
        return {pair.key.name: to_jsonable(pair.value, decode) for pair in value}
    if _is_mapping(value):
        return {str(name): to_jsonable(one, decode) for name, one in value.items()}
    if _is_sequence(value):
        return [to_jsonable(one, decode) for one in value]
    return _fields(value, decode)


# Guards, because isinstance leaves the type of what is inside unknown.
def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence)


def _payload(payload: Payload, decode: Decode) -> Any:
    value = decode(payload)
    if not isinstance(value, Payload):
        return to_jsonable(value, decode)
    shown: dict[str, Any] = {
        "encoding": payload.encoding,
        "data": base64.b64encode(payload.data).decode("ascii"),
    }
    if payload.metadata:  # which key, say
        metadata = payload.metadata.items()
        shown["metadata"] = {name: one.decode(errors="replace") for name, one in metadata}
    return shown


def _fields(value: Any, decode: Decode) -> Any:
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
        if isinstance(value, FailureInfo) and value.encoded_attributes is None:
            names.remove("encoded_attributes")
    else:
        return msgspec.to_builtins(value, str_keys=True)
    return {name: to_jsonable(getattr(value, name), decode) for name in names}
