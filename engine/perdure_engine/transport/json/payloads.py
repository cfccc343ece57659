"""Fields of bytes, which hold encoded messages (see common.proto); which one is the name's to say.

Bytes that are no such message, or say more than this version knows, stay whole: a text in base64.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from perdure_api.v1 import common_pb2 as pb

FIELD_MAPS = frozenset(("header", "memo", "upserted_memo"))
SINGLE_PAYLOADS = frozenset(("static_summary", "static_details", "summary", "encoded_attributes"))

Parsed = dict[str, Any] | list[dict[str, Any]] | str

# Nearly all argument lists and results are one short JSON value without metadata, encoded as
#     0A length  0A 0A "json/plain"  12 length data
_JSON = "json/plain"
_JSON_HEAD = b"\x0a\x0ajson/plain\x12"
_DATA_AT = 2 + len(_JSON_HEAD) + 1
_SHORT_MAX = 127  # a length of one byte


def payloads_json(data: bytes) -> Parsed:
    size = len(data)
    if (
        _DATA_AT < size <= _SHORT_MAX + 2
        and data[0] == 0x0A
        and data[1] == size - 2
        and data[_DATA_AT - 1] == size - _DATA_AT
        and data.startswith(_JSON_HEAD, 2)
    ):
        return [{"encoding": _JSON, "data": _text(data[_DATA_AT:])}]
    return _whole(data, pb.Payloads, lambda message: [_payload(one) for one in message.payloads])


def payload_json(data: bytes) -> Parsed:
    return _whole(data, pb.Payload, _payload)


def fields_json(data: bytes) -> Parsed:
    """Of a header or a memo: both are a map from names to payloads under the same number."""
    return _whole(
        data,
        pb.Header,
        lambda message: {name: _payload(one) for name, one in message.fields.items()},
    )


def payloads_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    return pb.Payloads(payloads=[_message(one) for one in value]).SerializeToString()


def payload_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    return _message(value).SerializeToString()


def fields_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    message = pb.Header(fields={name: _message(one) for name, one in value.items()})
    return message.SerializeToString()


def _whole(data: bytes, kind: type[Any], parse: Callable[[Any], Any]) -> Parsed:
    """What `parse` makes of the message, if that says all that the bytes do."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        return _text(data)
    message.DiscardUnknownFields()
    return parse(message) if message.ByteSize() == len(data) else _text(data)


def _payload(message: pb.Payload) -> dict[str, Any]:
    found: dict[str, Any] = {"encoding": message.encoding, "data": _text(message.data)}
    if message.metadata:
        found["metadata"] = {name: _text(one) for name, one in message.metadata.items()}
    return found


def _message(value: Mapping[str, Any]) -> pb.Payload:
    return pb.Payload(
        encoding=value["encoding"],
        data=_bytes(value["data"]),
        metadata={name: _bytes(one) for name, one in value.get("metadata", {}).items()},
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
