"""History events as people and tools read them: every field, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from perdure._failure_info import FailureInfo
from perdure._payload import Payload
from perdure._wire.failures import failure_from_message, failure_to_message
from perdure._wire.payloads import (
    fields_from_bytes,
    fields_to_bytes,
    payload_from_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure._wire.policies import (
    instant_from_us,
    instant_to_us,
    retry_policy_from_message,
    retry_policy_to_message,
)
from perdure.common import RetryPolicy
from perdure_api.v1 import common_pb2, event_pb2

# Fields of bytes hold encoded messages (see common.proto); which one is the name's to say.
FIELD_MAPS = frozenset(("header", "memo", "upserted_memo"))
SINGLE_PAYLOADS = frozenset(("static_summary", "static_details", "summary", "encoded_attributes"))


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
    if isinstance(value, Message):
        return _fields(value)
    if field.message_type is not None:
        return [_fields(one) for one in cast("Sequence[Message]", value)]
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        if field.name in FIELD_MAPS:
            return fields_from_bytes(value)
        if field.name in SINGLE_PAYLOADS:
            return payload_from_bytes(value)
        return payloads_from_bytes(value)
    return value


def message_from_history_event(event: HistoryEvent) -> event_pb2.HistoryEvent:
    """The inverse: nothing that the event says is lost."""
    message = event_pb2.HistoryEvent(
        event_id=event.event_id, time_us=instant_to_us(event.event_time)
    )
    field = ATTRIBUTES.get(event.event_type)
    if field is not None:
        _set_all(getattr(message, field.name), event.attributes)
    return message


# By the name of the event type.
ATTRIBUTES: Mapping[str, FieldDescriptor] = {
    field.message_type.name: field
    for field in event_pb2.HistoryEvent.DESCRIPTOR.fields
    if field.message_type is not None
}


def _set_all(message: Message, values: Mapping[str, Any]) -> None:
    message.SetInParent()
    for name, value in values.items():
        _set(message, message.DESCRIPTOR.fields_by_name[name], value)


def _set(message: Message, field: Any, value: Any) -> None:
    if isinstance(value, FailureInfo):
        getattr(message, field.name).CopyFrom(failure_to_message(value))
    elif isinstance(value, RetryPolicy):
        getattr(message, field.name).CopyFrom(retry_policy_to_message(value))
    elif field.message_type is not None and field.is_repeated:
        for one in value:
            _set_all(getattr(message, field.name).add(), one)
    elif field.message_type is not None:
        _set_all(getattr(message, field.name), value)
    elif field.type == FieldDescriptor.TYPE_BYTES:
        setattr(message, field.name, _encoded(field.name, value))
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.enum_type is not None and isinstance(value, str):
        setattr(message, field.name, field.enum_type.values_by_name[value].number)
    else:
        setattr(message, field.name, value)


def _encoded(name: str, value: Any) -> bytes:
    if name in FIELD_MAPS:
        return fields_to_bytes(cast("Mapping[str, Payload]", value))
    if name in SINGLE_PAYLOADS:
        return payload_to_bytes(cast("Payload", value))
    return payloads_to_bytes(list(cast("Sequence[Payload]", value)))
