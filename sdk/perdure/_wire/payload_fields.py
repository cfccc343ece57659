"""Where in the contract's messages the user's values are.

A field of bytes holds user data or does not, and its name says so: a new name has to be entered
here, in one table or the other (a test looks), or codecs would let its values pass in clear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache, partial
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from perdure.errors import PayloadTooLargeError
from perdure_api.v1 import common_pb2 as pb

# The engine's limit for one argument list, result or memo.
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024


class Kind(Enum):
    PAYLOADS = "Payloads"
    PAYLOAD = "Payload"
    FIELDS = "Memo"


KINDS = {
    "args": Kind.PAYLOADS,
    "details": Kind.PAYLOADS,
    "heartbeat_details": Kind.PAYLOADS,
    "input": Kind.PAYLOADS,
    "last_completion_result": Kind.PAYLOADS,
    "last_heartbeat_details": Kind.PAYLOADS,
    "progress": Kind.PAYLOADS,
    "result": Kind.PAYLOADS,
    "signal_input": Kind.PAYLOADS,
    "encoded_attributes": Kind.PAYLOAD,
    "static_details": Kind.PAYLOAD,
    "static_summary": Kind.PAYLOAD,
    "summary": Kind.PAYLOAD,
    "memo": Kind.FIELDS,
    "upserted_memo": Kind.FIELDS,
}
# Headers are for interceptors, which have to read them wherever a call passes.
NOT_ENCODED = frozenset(
    (
        "content",
        "error",
        "hash",
        "header",
        "job_id",
        "next_page_token",
        "page_token",
        "query_token",
        "released_tokens",
        "search_attributes",
        "token",
        "worker_id",
    )
)
_OF_PAYLOADS = frozenset(
    one.DESCRIPTOR.full_name for one in (pb.Payload, pb.Payloads, pb.Header, pb.Memo)
)


class Slot(NamedTuple):
    """One place with user data in one message."""

    kind: Kind
    data: bytes
    put: Callable[[bytes], None]
    place: str
    """For people: "event 5 activity_task_completed.result"."""


def slots(message: Message, place: str = "") -> Iterator[Slot]:
    """All places of a message, and of those inside it, that are not empty."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_BYTES:
            kind = KINDS.get(field.name)
            if kind is not None:
                put = partial(setattr, message, field.name)
                yield Slot(kind, value, put, f"{place}{field.name}")
        elif field.type == FieldDescriptor.TYPE_MESSAGE and holds_user_data(field.message_type):
            for one, step in _inside(field, value):
                yield from slots(one, f"{place}{step}")


def failures(message: Message) -> Iterator[pb.Failure]:
    """All failures in a message, causes included."""
    if isinstance(message, pb.Failure):
        yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE and holds_user_data(field.message_type):
            for one, _ in _inside(field, value):
                yield from failures(one)


def _inside(field: FieldDescriptor, value: Any) -> Iterator[tuple[Message, str]]:
    if isinstance(value, Message):
        yield value, f"{field.name}."
    elif hasattr(value, "items"):
        for key, one in value.items():
            yield one, f"{field.name}[{key!r}]."
    else:
        for index, one in enumerate(value):
            event_id = getattr(one, "event_id", None)
            yield one, f"{field.name}[{index}]." if event_id is None else f"event {event_id} "


@cache
def holds_user_data(message: Descriptor) -> bool:
    """Can there be any in it? Asked once for each kind of message."""
    waiting, seen = [message], {message.full_name}
    while waiting:
        for field in waiting.pop().fields:
            if field.type == FieldDescriptor.TYPE_BYTES and field.name in KINDS:
                return True
            inner = field.message_type
            if inner is not None and inner.full_name not in seen | _OF_PAYLOADS:
                seen.add(inner.full_name)
                waiting.append(inner)
    return False


def check_sizes(message: Message) -> None:
    """Raises PayloadTooLargeError for the first place with more than the engine takes."""
    for slot in slots(message):
        size = len(slot.data)
        if size > PAYLOAD_BYTES_MAX:
            raise PayloadTooLargeError(
                f"{slot.place} has {size} bytes, the limit is {PAYLOAD_BYTES_MAX}: keep it "
                "elsewhere and pass where, or let perdure.storage.ExternalStorage do so",
                field=slot.place,
                size_bytes=size,
                bytes_max=PAYLOAD_BYTES_MAX,
            )
