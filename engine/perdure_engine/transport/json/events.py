"""Events of a history as JSON, as `perdure workflow show -o json` prints them and the SDK's WorkflowHistory reads them.

{"event_id": 5, "event_time": "2026-11-29T10:00:00.000001Z", "event_type": "ActivityTaskScheduled",
 "attributes": {"activity_id": "1", "input": [{"encoding": "json/plain", "data": "IkFkYSI="}], …}}
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from perdure_api.v1 import event_pb2
from perdure_engine.core.events import Event
from perdure_engine.ports.archive import ArchiveCorrupt
from perdure_engine.transport.grpc.convert.events import ATTRIBUTES
from perdure_engine.transport.json.fields import fields_to_json, message_from_json

_TYPE_WITHIN = 200  # bytes: behind the number and the time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

_kinds = {
    field.name: field.message_type
    for field in event_pb2.HistoryEvent.DESCRIPTOR.fields
    if field.message_type is not None
}
_field_names = {kind.name: name for name, kind in _kinds.items()}


def event_json(event: Event) -> bytes:
    name, attributes = ATTRIBUTES[type(event)]
    kind = _kinds[name]
    return _encode(
        {
            "event_id": event.event_id,
            "event_time": time_text(event.time_us),
            "event_type": kind.name,
            "attributes": fields_to_json(kind, attributes(event)),
        }
    )


def event_from_json(text: bytes) -> event_pb2.HistoryEvent:
    """Raises ArchiveCorrupt. A type of a later version has no attributes here."""
    try:
        value = _decode(text)
        time_us = (datetime.fromisoformat(value["event_time"]) - _EPOCH) // _US
        message = event_pb2.HistoryEvent(event_id=value["event_id"], time_us=time_us)
        name = _field_names.get(value["event_type"])
        if name is not None:
            attributes = getattr(message, name)
            attributes.SetInParent()
            attributes.CopyFrom(message_from_json(type(attributes), value["attributes"]))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArchiveCorrupt(f"an event does not read back: {error!r}") from error
    return message


def is_of_type(text: bytes, event_type: str) -> bool:
    """Told without reading all of it: a history may be long. The type stands before anything of the user's."""
    return text.find(b'"event_type":"%b"' % event_type.encode(), 0, _TYPE_WITHIN) >= 0


def time_text(time_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat().replace("+00:00", "Z")
