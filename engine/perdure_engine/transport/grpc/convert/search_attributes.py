"""Search attributes, in both directions."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_api.v1 import common_pb2 as pb
from perdure_engine.core.errors import invalid
from perdure_engine.core.search_attributes import (
    Attributes,
    AttributeType,
    AttributeValue,
    SearchAttribute,
)
from perdure_engine.transport.grpc.convert.fields import Fields

# The field that a type's value travels in.
FIELDS = {
    AttributeType.TEXT: "text",
    AttributeType.KEYWORD: "text",
    AttributeType.INT: "int_value",
    AttributeType.DOUBLE: "double_value",
    AttributeType.BOOL: "bool_value",
    AttributeType.DATETIME: "datetime_us",
    AttributeType.KEYWORD_LIST: "keyword_list",
}


def attributes_of(field: str, messages: Sequence[pb.SearchAttribute]) -> Attributes:
    """Raises INVALID_ARGUMENT for a type unknown to this version and for a value of another type."""
    return tuple(
        [_attribute(f"{field}[{index}]", message) for index, message in enumerate(messages)]
    )


def attribute_fields(attributes: Attributes) -> list[Fields]:
    return [_fields(attribute) for attribute in attributes]


def _attribute(field: str, message: pb.SearchAttribute) -> SearchAttribute:
    try:
        type_ = AttributeType(message.type)
    except ValueError:
        raise invalid(f"{field}.type", "is not set, or unknown to this version") from None
    which = message.WhichOneof("value")
    value: AttributeValue = None
    if which is not None:
        if which != FIELDS[type_]:
            raise invalid(f"{field}.{which}", f"is not the value of a {type_.name}")
        found = getattr(message, which)
        value = tuple(found.values) if which == "keyword_list" else found
    return SearchAttribute(message.name, type_, value)


def _fields(attribute: SearchAttribute) -> Fields:
    fields: Fields = {"name": attribute.name, "type": attribute.type}
    value = attribute.value
    if value is not None:
        fields[FIELDS[attribute.type]] = {"values": value} if isinstance(value, tuple) else value
    return fields
