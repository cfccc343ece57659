"""The user's values, both ways: JSON outside, encoded payloads inside.

What comes in is always JSON. What goes out is the JSON value that a payload holds where it holds one and nothing
besides, null where it holds None, and else {"encoding", "data" in base64, "metadata"?}: so are values that would be
taken for the last form. It is the form in which the SDK writes and reads histories.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from perdure_api.v1 import common_pb2 as pb

JSON = "json/plain"
NULL = "binary/null"
MARK = "parameters"
OF_PARAMETERS = b"object"
"""Of a payload that is an object of parameters by name: the SDK gives each parameter of the function its value."""
UNREADABLE = "unreadable"
"""Of bytes that are no payload at all: whoever put them there knows what they are."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

_MARKED = {MARK: OF_PARAMETERS}
# Each job that comes in has a message of this kind, which is put together here in a quarter of protobuf's time:
#
#     0A length  0A 0A "json/plain"  12 length data  1A metadata
_JSON_HEAD = pb.Payload(encoding=JSON).SerializeToString() + b"\x12"
_MARK_TAIL = pb.Payload(metadata=_MARKED).SerializeToString()
_SHORT_LENGTHS = [bytes((size,)) for size in range(0x80)]
_RAW = frozenset(("encoding", "data"))
_RAW_OR_MORE = _RAW | {"metadata"}


def from_values(values: Sequence[Any]) -> bytes:
    """Payloads: one for each value, as a caller with the SDK would send them."""
    if not values:
        return b""
    return pb.Payloads(payloads=[_message(value) for value in values]).SerializeToString()


def from_parameters(values: Mapping[str, Any]) -> bytes:
    """Payloads of one JSON object, marked as parameters by name."""
    data = encode(values)
    told = _length(len(data))
    size = len(_JSON_HEAD) + len(told) + len(data) + len(_MARK_TAIL)
    return b"".join((b"\x0a", _length(size), _JSON_HEAD, told, data, _MARK_TAIL))


def _length(size: int) -> bytes:
    """As protobuf writes it."""
    if size < 0x80:
        return _SHORT_LENGTHS[size]
    parts = bytearray()
    while size >= 0x80:
        parts.append(size & 0x7F | 0x80)
        size >>= 7
    parts.append(size)
    return bytes(parts)


def from_text(text: str) -> bytes:
    """A Payload of a text; b"" of an empty one."""
    return pb.Payload(encoding=JSON, data=encode(text)).SerializeToString() if text else b""


def from_fields(values: Mapping[str, Any]) -> bytes:
    """A Memo: the same bytes in each process, for by them a repeated call is known."""
    if not values:
        return b""
    memo = pb.Memo(fields={name: _message(one) for name, one in values.items()})
    return memo.SerializeToString(deterministic=True)


def values_of(payloads: bytes) -> list[Any]:
    """Of a Payloads message."""
    try:
        return [value_of(one) for one in pb.Payloads.FromString(payloads).payloads]
    except DecodeError:
        return [_unreadable(payloads)]


def parameters_of(payloads: bytes) -> dict[str, Any] | None:
    """Of a Payloads message that `from_parameters` has made; None of any other."""
    try:
        found = pb.Payloads.FromString(payloads).payloads
    except DecodeError:
        return None
    if len(found) != 1 or found[0].encoding != JSON or dict(found[0].metadata) != _MARKED:
        return None
    try:
        value = decode(found[0].data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def result_of(payloads: bytes) -> Any:
    """Of the Payloads of something that has one value: null when there is none."""
    values = values_of(payloads)
    return values[0] if len(values) == 1 else values or None


def single_value_of(payload: bytes) -> Any:
    """Of a Payload message; None of an empty one."""
    try:
        return value_of(pb.Payload.FromString(payload)) if payload else None
    except DecodeError:
        return _unreadable(payload)


def fields_of(fields: bytes) -> dict[str, Any]:
    """Of a Memo or a Header: both are a map from names to payloads under the same number."""
    try:
        return {name: value_of(one) for name, one in pb.Memo.FromString(fields).fields.items()}
    except DecodeError:
        return {UNREADABLE: _unreadable(fields)}


def value_of(payload: pb.Payload) -> Any:
    if not payload.metadata:
        if payload.encoding == NULL and not payload.data:
            return None
        if payload.encoding == JSON:
            try:
                value = decode(payload.data)
            except (msgspec.DecodeError, RecursionError):
                return _raw(payload)
            if value is not None and not _looks_raw(value):
                return value
    return _raw(payload)


def _message(value: Any) -> pb.Payload:
    if value is None:
        return pb.Payload(encoding=NULL)
    return pb.Payload(encoding=JSON, data=encode(value))


def _raw(payload: pb.Payload) -> dict[str, Any]:
    raw: dict[str, Any] = {"encoding": payload.encoding, "data": _base64(payload.data)}
    if payload.metadata:
        raw["metadata"] = {name: _base64(one) for name, one in payload.metadata.items()}
    return raw


def _unreadable(data: bytes) -> dict[str, Any]:
    return {"encoding": UNREADABLE, "data": _base64(data)}


def _looks_raw(value: Any) -> bool:
    return isinstance(value, dict) and _RAW <= value.keys() <= _RAW_OR_MORE


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
