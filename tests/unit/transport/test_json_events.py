"""Events as the archive keeps them: nothing is lost on the way there and back, and the SDK reads them too."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from google.protobuf.message import Message
from tests.unit.core import samples
from tests.unit.transport.test_events import filled

from perdure import client
from perdure._wire.history import (
    FIELD_MAPS,
    SINGLE_PAYLOADS,
    message_from_history_event,
)
from perdure_api.v1 import common_pb2, event_pb2
from perdure_engine.core import events as core
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.replies import Closed
from perdure_engine.core.status import Status
from perdure_engine.ports.archive import ArchiveCorrupt, ArchivedRun
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.transport.grpc.convert import archived
from perdure_engine.transport.grpc.convert.closing_events import closing_event
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.grpc.convert.replies import result_fields
from perdure_engine.transport.json import payloads
from perdure_engine.transport.json.events import event_from_json, event_json

EVENT_TYPES = get_args(core.Event)
VALUES = [
    common_pb2.Payload(encoding="json/plain", data=b'"Ada"'),
    common_pb2.Payload(encoding="binary/null"),
    common_pb2.Payload(
        encoding="binary/encrypted", data=b"\x00\xff" * 200, metadata={"key": b"\x07"}
    ),
]


def encoded(field: Any) -> bytes:
    """A message such as the field holds."""
    if field.name in FIELD_MAPS:
        # one: of several the order differs from one encoding to the next
        return common_pb2.Header(fields={"a": VALUES[2]}).SerializeToString()
    if field.name in SINGLE_PAYLOADS:
        return VALUES[2].SerializeToString()
    return common_pb2.Payloads(payloads=VALUES).SerializeToString()


def with_payloads(event: Any) -> Any:
    """The event with real payloads in its fields of bytes, also in its failures."""
    changes = {}
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if isinstance(value, Failure):
            changes[field.name] = Failure(
                FailureKind.APPLICATION,
                "no",
                cause=Failure(FailureKind.CANCELED, "stopped", details=encoded(field)),
                details=encoded(field),
                encoded_attributes=VALUES[2].SerializeToString(),
            )
        elif field.type is bytes and value.startswith(b"bytes "):
            changes[field.name] = encoded(field)
    return msgspec.structs.replace(event, **changes)


def read_by_the_sdk(text: bytes) -> Message:
    history = client.WorkflowHistory.from_json("w", text.decode())
    return message_from_history_event(history.events[0])


@pytest.mark.parametrize("event", samples.EVENTS, ids=lambda event: type(event).__name__)
def test_a_sample_comes_back(event: Any) -> None:
    assert event_from_json(event_json(event)) == event_message(event)


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda event_type: event_type.__name__)
def test_every_field_comes_back_and_the_sdk_reads_the_same(event_type: Any) -> None:
    event = with_payloads(filled(event_type))
    message = event_message(event)

    text = event_json(event)

    assert event_from_json(text) == message
    assert read_by_the_sdk(text) == message
    assert json.loads(text)["event_type"] == event_type.__name__


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda event_type: event_type.__name__)
def test_bytes_that_are_no_payloads_come_back(event_type: Any) -> None:
    """The engine never looked into them when they came."""
    event = filled(event_type)

    assert event_from_json(event_json(event)) == event_message(event)


def test_what_people_see() -> None:
    event = core.WorkflowExecutionSignaled(
        7,
        1_796_000_000_000_001,
        "pay",
        common_pb2.Payloads(payloads=VALUES[:1]).SerializeToString(),
        "me@host",
        b"",
        b"",
        b"",
    )

    assert json.loads(event_json(event)) == {
        "event_id": 7,
        "event_time": "2026-11-30T00:53:20.000001Z",
        "event_type": "WorkflowExecutionSignaled",
        "attributes": {
            "signal_name": "pay",
            "input": [{"encoding": "json/plain", "data": "IkFkYSI="}],
            "identity": "me@host",
        },
    }


def test_a_payload_of_a_later_version_stays_whole() -> None:
    """What this version does not know must not be lost in years of an archive."""
    later = common_pb2.Payloads(payloads=VALUES[:1]).SerializeToString() + b"\x52\x03new"

    value = payloads.payloads_json(later)

    assert isinstance(value, str)
    assert payloads.payloads_bytes(value) == later


@pytest.mark.parametrize("size", [0, 1, 100, 112, 113, 114, 127, 128, 5_000])
def test_payloads_of_all_lengths(size: int) -> None:
    data = common_pb2.Payloads(
        payloads=[common_pb2.Payload(encoding="json/plain", data=b"7" * size)]
    ).SerializeToString()

    value = payloads.payloads_json(data)

    assert isinstance(value, list)
    assert payloads.payloads_bytes(value) == data


def test_the_names_that_say_what_bytes_hold_are_those_of_the_sdk() -> None:
    assert (payloads.FIELD_MAPS, payloads.SINGLE_PAYLOADS) == (FIELD_MAPS, SINGLE_PAYLOADS)
    fields = [
        field.name
        for kind in event_pb2.DESCRIPTOR.message_types_by_name.values()
        for field in kind.fields
    ]
    assert set(fields) >= FIELD_MAPS


def test_events_and_fields_of_a_later_version() -> None:
    event = event_from_json(
        b'{"event_id": 3, "event_time": "2026-11-29T00:00:00Z", "event_type": "TimeTravelled",'
        b' "attributes": {"to": 1}}'
    )
    assert event.WhichOneof("attributes") is None
    assert event.event_id == 3
    fired = event_from_json(
        b'{"event_id": 3, "event_time": "2026-11-29T00:00:00Z", "event_type": "TimerFired",'
        b' "attributes": {"timer_id": "t", "new": {"a": 1}}}'
    )
    assert fired.timer_fired.timer_id == "t"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"event_id": 1, "event_time": "yesterday", "event_type": "TimerFired", "attributes": {}}',
        b'{"event_id": 1, "event_time": "2026-11-29T00:00:00Z", "event_type": "TimerFired",'
        b' "attributes": {"timer_id": 7}}',
        b'{"event_id": 1, "event_time": "2026-11-29T00:00:00Z", "event_type": "TimerFired",'
        b' "attributes": 5}',
    ],
)
def test_what_is_no_event_is_corrupt(text: bytes) -> None:
    with pytest.raises(ArchiveCorrupt):
        event_from_json(text)


@pytest.mark.parametrize(
    "event", [one for one in samples.EVENTS if isinstance(one, core.ClosingEvent)], ids=type
)
def test_how_an_archived_run_ended_is_told_as_of_one_in_the_tables(
    event: core.ClosingEvent,
) -> None:
    event = with_payloads(event)
    row = VisibilityRow(
        *(1, samples.RUN, samples.NAMESPACE, 1, "w1", "T", "q", Status.FAILED),
        *(1, 2, 9, 900, b"", "{}"),
    )
    run = ArchivedRun(row, [event_json(samples.STARTED), event_json(event)])

    told = archived.closed(run)

    assert result_fields(told) == result_fields(Closed(samples.RUN, Status.FAILED, event))


def test_an_end_of_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(ArchiveCorrupt, match="no end"):
        closing_event(event_from_json(event_json(samples.STARTED)))


@pytest.mark.parametrize(
    "broken",
    [
        event_pb2.WorkflowExecutionTimedOut(new_run_id="no id"),
        event_pb2.WorkflowExecutionTimedOut(retry_state=99),  # type: ignore[arg-type]  # of no version
    ],
)
def test_an_end_that_does_not_read_back_is_not_the_callers_fault(
    broken: event_pb2.WorkflowExecutionTimedOut,
) -> None:
    with pytest.raises(ArchiveCorrupt, match="event 9"):
        closing_event(event_pb2.HistoryEvent(event_id=9, workflow_execution_timed_out=broken))
