"""Search attributes, in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure._search_attributes import (
    SearchAttributeIndexedValueType,
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from perdure._wire.policies import instant_to_us
from perdure_api.v1 import common_pb2 as pb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {int(kind): kind for kind in SearchAttributeIndexedValueType}
_FIELDS = {
    SearchAttributeIndexedValueType.TEXT: "text",
    SearchAttributeIndexedValueType.KEYWORD: "text",
    SearchAttributeIndexedValueType.INT: "int_value",
    SearchAttributeIndexedValueType.DOUBLE: "double_value",
    SearchAttributeIndexedValueType.BOOL: "bool_value",
    SearchAttributeIndexedValueType.DATETIME: "datetime_us",
    SearchAttributeIndexedValueType.KEYWORD_LIST: "keyword_list",
}


def updates_to_fields(updates: Iterable[SearchAttributeUpdate[Any]]) -> list[dict[str, Any]]:
    return [_fields(update.key, update.value) for update in updates]


def attributes_to_fields(attributes: TypedSearchAttributes) -> list[dict[str, Any]]:
    return [_fields(pair.key, pair.value) for pair in attributes]


def attributes_from_messages(messages: Sequence[pb.SearchAttribute]) -> TypedSearchAttributes:
    """Without those of a type that this SDK does not know yet."""
    if not messages:
        return TypedSearchAttributes.empty
    return TypedSearchAttributes(
        [_pair(message, _KINDS[message.type]) for message in messages if message.type in _KINDS]
    )


def _fields(key: SearchAttributeKey[Any], value: Any) -> dict[str, Any]:
    kind = key.indexed_value_type
    fields: dict[str, Any] = {"name": key.name, "type": int(kind)}
    if value is not None:
        match kind:
            case SearchAttributeIndexedValueType.DATETIME:
                value = instant_to_us(value)
            case SearchAttributeIndexedValueType.KEYWORD_LIST:
                value = {"values": value}
            case _:
                pass
        fields[_FIELDS[kind]] = value
    return fields


def _pair(
    message: pb.SearchAttribute, kind: SearchAttributeIndexedValueType
) -> SearchAttributePair[Any]:
    key: SearchAttributeKey[Any] = SearchAttributeKey(message.name, kind)
    return SearchAttributePair(key, _value(message, kind))


def _value(message: pb.SearchAttribute, kind: SearchAttributeIndexedValueType) -> Any:
    value: Any = getattr(message, _FIELDS[kind])
    match kind:
        case SearchAttributeIndexedValueType.DATETIME:
            return _EPOCH + timedelta(microseconds=value)
        case SearchAttributeIndexedValueType.KEYWORD_LIST:
            return list(value.values)
        case _:
            return value
