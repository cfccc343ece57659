"""Payloads as the wire carries them: encoded messages in `bytes` fields, unread by the engine."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import DecodeError

from perdure.converter import Payload
from perdure.errors import PayloadDecodeError
from perdure_api.v1 import common_pb2 as pb


def payloads_to_bytes(payloads: list[Payload]) -> bytes:
    if not payloads:
        return b""
    return pb.Payloads(payloads=[_to_message(one) for one in payloads]).SerializeToString()


def payloads_from_bytes(data: bytes) -> list[Payload]:
    if not data:
        return []
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
