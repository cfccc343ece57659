"""Histories as JSON that reads back: nothing of an event is lost on the way.

One event is

    {"event_id": 5, "event_time": "2026-11-29T10:00:00.000001Z", "event_type": "ActivityTaskScheduled",
     "attributes": {"activity_id": "1", "input": ["Ada"], …}}

Attributes are the fields of the contract by their names, those that are set; choices by name, messages
as objects. A payload is the JSON value that it holds where it holds one and nothing besides, null where
it holds None, and else {"encoding", "data" in base64, "metadata"?}: so are values that would be taken
for the last form.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from perdure._payload import Payload
from perdure._wire.history import (
    ATTRIBUTES,
    FIELD_MAPS,
    SINGLE_PAYLOADS,
    HistoryEvent,
    history_event_from_message,
    message_from_history_event,
)
from perdure._wire.payloads import (
    fields_from_bytes,
    fields_to_bytes,
    payload_from_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure._wire.policies import instant_to_us
from perdure_api.v1 import event_pb2

_RAW = frozenset(("encoding", "data"))
_RAW_OR_MORE = _RAW | {"metadata"}


def event_to_json(event: HistoryEvent) -> dict[str, Any]:
    time = event.event_time
    message = message_from_history_event(event)
    kind = message.WhichOneof("attributes")
    return {
        "event_id": event.event_id,
        "event_time": None if time is None else time.isoformat().replace("+00:00", "Z"),
        "event_type": event.event_type,
        "attributes": {} if kind is None else _message_to_json(getattr(message, kind)),
    }


def event_from_json(value: Any) -> HistoryEvent:
    """Raises ValueError that names the event and what is wrong with it."""
    if not isinstance(value, Mapping):
        raise ValueError(f"an event is an object, not {value!r:.100}")
    fields = cast("Mapping[str, Any]", value)
    event_id = fields.get("event_id")
    if not isinstance(event_id, int):
        raise ValueError(f"an event has no number as its event_id: {fields!r:.100}")
    try:
        time = fields.get("event_time")
        message = event_pb2.HistoryEvent(
            event_id=event_id, time_us=instant_to_us(datetime.fromisoformat(time) if time else None)
        )
        event_type = fields.get("event_type")
        if event_type:
            attributes: Any = fields.get("attributes") or {}
            field = ATTRIBUTES.get(event_type)
            if field is None:
                raise ValueError(f"an event type {event_type!r} is not known here")
            _set_field(message, field, attributes)
        return history_event_from_message(message)
    except (TypeError, ValueError) as error:
        raise ValueError(f"event {event_id}: {error}") from error


# --- any message ----------------------------------------------------------------------------------


def _message_to_json(message: Message) -> dict[str, Any]:
    return {field.name: _field_to_json(field, value) for field, value in message.ListFields()}


def _field_to_json(field: FieldDescriptor, value: Any) -> Any:
    if field.is_repeated:
        return [_one_to_json(field, one) for one in value]
    return _one_to_json(field, value)


def _one_to_json(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _message_to_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        if field.name in FIELD_MAPS:
            return {name: payload_to_json(one) for name, one in fields_from_bytes(value).items()}
        if field.name in SINGLE_PAYLOADS:
            payload = payload_from_bytes(value)
            return None if payload is None else payload_to_json(payload)
        return [payload_to_json(one) for one in payloads_from_bytes(value)]
    return value


def _message_from_json(kind: type[Message], value: Any) -> Message:
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind.DESCRIPTOR.name} is an object, not {value!r:.100}")
    message = kind()
    for name, one in cast("Mapping[str, Any]", value).items():
        field = kind.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"{kind.DESCRIPTOR.name} has no field {name!r}")
        try:
            _set_field(message, field, one)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from error
    return message


def _set_field(message: Message, field: Any, value: Any) -> None:
    if field.is_repeated:
        getattr(message, field.name).extend(_one_from_json(field, one) for one in value)
    elif field.message_type is not None:
        target = getattr(message, field.name)
        target.SetInParent()  # a message without fields is there all the same
        target.CopyFrom(_one_from_json(field, value))
    else:
        setattr(message, field.name, _one_from_json(field, value))


def _one_from_json(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _message_from_json(GetMessageClass(field.message_type), value)
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"{value!r} is none of {field.enum_type.name}")
        return known.number
    if field.type == FieldDescriptor.TYPE_BYTES:
        if field.name in FIELD_MAPS:
            return fields_to_bytes({name: payload_from_json(one) for name, one in value.items()})
        if field.name in SINGLE_PAYLOADS:
            return payload_to_bytes(payload_from_json(value))
        return payloads_to_bytes([payload_from_json(one) for one in value])
    return value


# --- payloads -------------------------------------------------------------------------------------


def payload_to_json(payload: Payload) -> Any:
    if payload.encoding == "binary/null" and not payload.data and not payload.metadata:
        return None
    if payload.encoding == "json/plain" and not payload.metadata:
        try:
            value = json.loads(payload.data, parse_constant=_refuse_constant)
        except ValueError:
            return _raw(payload)
        if value is not None and not _looks_raw(value):
            return value
    return _raw(payload)


def payload_from_json(value: Any) -> Payload:
    if value is None:
        return Payload("binary/null", b"")
    if _looks_raw(value):
        data = base64.b64decode(value["data"], validate=True)
        metadata = {
            name: base64.b64decode(one, validate=True)
            for name, one in value.get("metadata", {}).items()
        }
        if metadata:
            return Payload(value["encoding"], data, metadata)
        return Payload(value["encoding"], data)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Payload("json/plain", text.encode())


def _raw(payload: Payload) -> dict[str, Any]:
    raw: dict[str, Any] = {"encoding": payload.encoding, "data": _base64(payload.data)}
    if payload.metadata:
        raw["metadata"] = {name: _base64(one) for name, one in payload.metadata.items()}
    return raw


def _looks_raw(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    names = cast("dict[str, Any]", value).keys()
    return names >= _RAW and names <= _RAW_OR_MORE


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
