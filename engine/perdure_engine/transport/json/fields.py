"""A message that is still a dict of its fields, as JSON; and JSON, as the message.

Towards JSON no message is made: histories of thousands of events come this way. Which field is to be written how is
worked out once for each type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.json import payloads

MessageT = TypeVar("MessageT", bound=Message)

Write = Callable[[Any], Any]


class Writing(NamedTuple):
    """`kept` when it is set to nothing: the field knows whether it was set."""

    write: Write
    kept: bool


def fields_to_json(kind: Descriptor, fields: Fields) -> dict[str, Any]:
    known = _writings(kind)
    found = {}
    for name, value in fields.items():
        write, kept = known[name]
        if value is not None and (kept or value):
            found[name] = write(value)
    return found


def message_from_json(kind: type[MessageT], value: Mapping[str, Any]) -> MessageT:
    """What this version does not know is passed over. Raises ValueError, TypeError, KeyError."""
    message = kind()
    for name, one in value.items():
        field = kind.DESCRIPTOR.fields_by_name.get(name)
        if field is not None:
            _set(message, field, one)
    return message


# --- towards JSON


@cache
def _writings(kind: Descriptor) -> dict[str, Writing]:
    return {
        field.name: Writing(_writing(field), field.has_presence and not field.is_repeated)
        for field in kind.fields
    }


def _writing(field: FieldDescriptor) -> Write:
    write = _writing_one(field)
    if not field.is_repeated:
        return write
    return lambda values: [write(value) for value in values]


def _writing_one(field: FieldDescriptor) -> Write:
    message_type, enum_type = field.message_type, field.enum_type
    if message_type is not None:
        return lambda value: fields_to_json(message_type, value)
    if enum_type is not None:
        names = {one.number: one.name for one in enum_type.values}
        return lambda value: names.get(value, int(value))
    if field.type == FieldDescriptor.TYPE_BYTES:
        if field.name in payloads.FIELD_MAPS:
            return payloads.fields_json
        if field.name in payloads.SINGLE_PAYLOADS:
            return payloads.payload_json
        return payloads.payloads_json
    return lambda value: value


# --- from JSON


def _set(message: Message, field: Any, value: Any) -> None:
    if field.is_repeated:
        getattr(message, field.name).extend([_read_one(field, one) for one in value])
    elif field.message_type is not None:
        target = getattr(message, field.name)
        target.SetInParent()  # a message without fields is there all the same
        target.CopyFrom(_read_one(field, value))
    else:
        setattr(message, field.name, _read_one(field, value))


def _read_one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return message_from_json(GetMessageClass(field.message_type), value)
    if field.enum_type is not None:
        return _number(field.enum_type, value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        if field.name in payloads.FIELD_MAPS:
            return payloads.fields_bytes(value)
        if field.name in payloads.SINGLE_PAYLOADS:
            return payloads.payload_bytes(value)
        return payloads.payloads_bytes(value)
    return value


def _number(kind: EnumDescriptor, value: Any) -> int:
    """A choice of a later version reads as not said."""
    if isinstance(value, int):
        return value
    known = kind.values_by_name.get(value)
    return 0 if known is None else known.number
