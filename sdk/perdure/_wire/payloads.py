"""Payloads as the wire carries them: encoded messages in `bytes` fields, unread by the engine."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import DecodeError

from perdure.converter import Payload
from perdure.errors import PayloadDecodeError
from perdure_api.v1 import common_pb2 as pb

# Nearly all argument lists and results are one short JSON value without metadata. Such a message is
# put together and taken apart here by hand, in a quarter of protobuf's time, as
#
#     0A length  0A 0A "json/plain"  12 length data
#
# Each length is a single byte as long as the whole is shorter than 128. Next comes what functions
# return that return nothing.
_SHORT_MAX = 127
_JSON = "json/plain"
_JSON_HEAD = b"\x0a\x0ajson/plain\x12"
_DATA_AT = 2 + len(_JSON_HEAD) + 1
_SHORT_DATA_MAX = _SHORT_MAX - _DATA_AT + 2
_NULL = "binary/null"
_ONE_NULL = b"\x0a\x0d\x0a\x0bbinary/null"


def payloads_to_bytes(payloads: list[Payload]) -> bytes:
    if not payloads:
        return b""
    if len(payloads) == 1:
        payload = payloads[0]
        size = len(payload.data)
        is_short = 0 < size <= _SHORT_DATA_MAX
        if is_short and payload.encoding == _JSON and not payload.metadata:
            head = bytes((0x0A, size + _DATA_AT - 2))
            return b"%b%b%c%b" % (head, _JSON_HEAD, size, payload.data)
        if payload.encoding == _NULL and not size and not payload.metadata:
            return _ONE_NULL
    return pb.Payloads(payloads=[_to_message(one) for one in payloads]).SerializeToString()


def payloads_from_bytes(data: bytes) -> list[Payload]:
    if not data:
        return []
    size = len(data)
    if (
        _DATA_AT < size <= _SHORT_MAX + 2
        and data[0] == 0x0A
        and data[1] == size - 2
        and data[_DATA_AT - 1] == size - _DATA_AT
        and data.startswith(_JSON_HEAD, 2)
    ):
        return [Payload(_JSON, data[_DATA_AT:])]
    if data == _ONE_NULL:
        return [Payload(_NULL, b"")]
    try:
        message = pb.Payloads.FromString(data)
    except DecodeError as error:
        raise PayloadDecodeError(f"not an encoded Payloads message: {error}") from None
    return [_from_message(one) for one in message.payloads]


def payload_to_bytes(payload: Payload | None) -> bytes:
    return b"" if payload is None else _to_message(payload).SerializeToString()


def payload_from_bytes(data: bytes) -> Payload | None:
    if not data:
        return None
    try:
        return _from_message(pb.Payload.FromString(data))
    except DecodeError as error:
        raise PayloadDecodeError(f"not an encoded Payload message: {error}") from None


def fields_to_bytes(fields: Mapping[str, Payload]) -> bytes:
    """A Header or a Memo: both are a map from names to payloads under the same number."""
    if not fields:
        return b""
    message = pb.Header(fields={name: _to_message(one) for name, one in fields.items()})
    return message.SerializeToString()


def upsert_to_bytes(upserted: Mapping[str, Payload | None]) -> bytes:
    """A change of a Memo: None, an empty message, takes the name away."""
    message = pb.Memo()
    for name, payload in upserted.items():
        if payload is None:
            message.fields[name].SetInParent()
        else:
            message.fields[name].CopyFrom(_to_message(payload))
    return message.SerializeToString()


def fields_from_bytes(data: bytes) -> dict[str, Payload]:
    if not data:
        return {}
    try:
        message = pb.Header.FromString(data)
    except DecodeError as error:
        raise PayloadDecodeError(f"not an encoded Header message: {error}") from None
    return {name: _from_message(one) for name, one in message.fields.items()}


def _to_message(payload: Payload) -> pb.Payload:
    if payload.metadata:
        return pb.Payload(encoding=payload.encoding, data=payload.data, metadata=payload.metadata)
    return pb.Payload(encoding=payload.encoding, data=payload.data)


def _from_message(message: pb.Payload) -> Payload:
    metadata = message.metadata
    if metadata:
        return Payload(message.encoding, message.data, dict(metadata))
    return Payload(message.encoding, message.data)
