"""History events as people and tools read them: every field, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from perdure._wire.failures import failure_from_message
from perdure._wire.payloads import fields_from_bytes, payload_from_bytes, payloads_from_bytes
from perdure._wire.policies import instant_from_us, retry_policy_from_message
from perdure._wire.search_attributes import values_from_messages
from perdure_api.v1 import common_pb2, event_pb2

# Fields of bytes hold encoded messages (see common.proto); which one is the name's to say.
_FIELD_MAPS = frozenset(("header", "memo"))
_SINGLE_PAYLOADS = frozenset(("static_summary", "static_details"))


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    event_id: int
    event_time: datetime | None
    event_type: str
    """As in the contract, e.g. "ActivityTaskScheduled"; empty for one that is not known here."""
    attributes: Mapping[str, Any]
    """Fields by their name on the wire, those that are set: payloads as lists of `Payload`, headers
    and memos as dicts of them, failures as `FailureInfo`, policies as `RetryPolicy`, choices by
    name."""


def history_event_from_message(message: event_pb2.HistoryEvent) -> HistoryEvent:
    kind = message.WhichOneof("attributes")
    event_time = instant_from_us(message.time_us)
    if kind is None:
        return HistoryEvent(message.event_id, event_time, "", {})
    attributes: Message = getattr(message, kind)
    return HistoryEvent(
        message.event_id, event_time, attributes.DESCRIPTOR.name, _fields(attributes)
    )


def _fields(message: Message) -> dict[str, Any]:
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, common_pb2.Failure):
        return failure_from_message(value)
    if isinstance(value, common_pb2.RetryPolicy):
        return retry_policy_from_message(value)
    if field.name == "search_attributes":
        return values_from_messages(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        if field.name in _FIELD_MAPS:
            return fields_from_bytes(value)
        if field.name in _SINGLE_PAYLOADS:
            return payload_from_bytes(value)
        return payloads_from_bytes(value)
    return value
