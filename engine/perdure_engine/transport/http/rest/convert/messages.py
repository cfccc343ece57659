"""What the contract has a message for and JSON shows as it is: events and failures.

Fields go by their names in the contract, those that are set; choices by name, messages as objects. The SDK writes and
reads histories in this form, so that one that was fetched here can be replayed there.
"""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from perdure_api.v1 import common_pb2, event_pb2
from perdure_engine.transport.http.rest.bodies.fields import Failure
from perdure_engine.transport.http.rest.bodies.workflows import Event
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.times import instant
from perdure_engine.transport.json.payloads import FIELD_MAPS, SINGLE_PAYLOADS


def event_body(message: event_pb2.HistoryEvent) -> Event:
    """Of a type of a later version nothing but its time is known here."""
    kind = message.WhichOneof("attributes")
    attributes: Message | None = None if kind is None else getattr(message, kind)
    return Event(
        event_id=message.event_id,
        event_time=instant(message.time_us),
        event_type="" if attributes is None else attributes.DESCRIPTOR.name,
        attributes={} if attributes is None else fields(attributes),
    )


def failure_of(message: common_pb2.Failure) -> Failure:
    return msgspec.convert(fields(message), Failure)


def fields(message: Message) -> dict[str, Any]:
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def _field(field: FieldDescriptor, value: Any) -> Any:
    if field.is_repeated:
        return [_one(field, one) for one in value]
    return _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        if field.name in FIELD_MAPS:
            return payloads.fields_of(value)
        if field.name in SINGLE_PAYLOADS:
            return payloads.single_value_of(value)
        return payloads.values_of(value)
    return value
