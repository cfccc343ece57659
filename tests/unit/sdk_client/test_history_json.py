"""A history as JSON says everything that the history says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure._failure_info import ActivityInfo, ApplicationInfo, FailureInfo, TerminatedInfo
from perdure._wire.history import (
    ATTRIBUTES,
    FIELD_MAPS,
    SINGLE_PAYLOADS,
    history_event_from_message,
    message_from_history_event,
)
from perdure._wire.history_json import (
    event_from_json,
    event_to_json,
    payload_from_json,
    payload_to_json,
)
from perdure._wire.payloads import fields_to_bytes, payload_to_bytes, payloads_to_bytes
from perdure.client import HistoryEvent, WorkflowHistory
from perdure.common import RetryPolicy
from perdure.converter import DataConverter, Payload
from perdure.errors import RetryState
from perdure_api.v1 import event_pb2

CONVERTER = DataConverter.default.payload_converter
NOON = datetime(2026, 11, 29, 12, 0, 0, 1, tzinfo=UTC)

FAILURE = FailureInfo(
    message="broke",
    stack_trace="at line 1",
    source="PythonSDK",
    info=ActivityInfo(
        scheduled_event_id=5,
        started_event_id=6,
        identity="w",
        activity_type="pay",
        activity_id="1",
        retry_state=RetryState.TIMEOUT,
    ),
    cause=FailureInfo(
        message="no money",
        info=ApplicationInfo(
            type="Refused", details=[CONVERTER.to_payload({"cents": 5})], next_retry_delay_ms=0
        ),
        cause=FailureInfo(message="", info=TerminatedInfo()),
    ),
)
EVENTS = [
    HistoryEvent(
        1,
        NOON,
        "WorkflowExecutionStarted",
        {
            "workflow_type": "Order",
            "run_id": "run-1",
            "input": [CONVERTER.to_payload(one) for one in ("größe", b"\x00\xff", None, 1.5)],
            "header": {"trace": Payload("binary/encrypted", b"\x01", {"key": b"k1"})},
            "memo": {"note": CONVERTER.to_payload({"a": [1, 2]})},
            "retry_policy": RetryPolicy(
                maximum_attempts=3,
                maximum_interval=timedelta(minutes=5),
                non_retryable_error_types=("Refused",),
            ),
            "static_summary": CONVERTER.to_payload("an order"),
        },
    ),
    HistoryEvent(2, NOON, "WorkflowTaskScheduled", {}),
    HistoryEvent(3, NOON, "WorkflowTaskFailed", {"cause": "WORKFLOW_TASK_FAILED_CAUSE_DEADLOCK"}),
    HistoryEvent(4, NOON, "ActivityTaskFailed", {"scheduled_event_id": 5, "failure": FAILURE}),
    HistoryEvent(5, None, "", {}),  # of a newer engine
    HistoryEvent(
        4,
        NOON,
        "WorkflowTaskCompleted",
        {
            "identity": "w",
            "wake_rules": [{"activity_ids": ["1", "2"], "failed": 1}, {"activity_ids": ["3"]}],
        },
    ),
    HistoryEvent(
        5,
        NOON,
        "UpsertWorkflowSearchAttributes",
        {
            "search_attributes": [
                {"name": "Region", "type": "SEARCH_ATTRIBUTE_TYPE_KEYWORD"},
                {
                    "name": "Labels",
                    "type": "SEARCH_ATTRIBUTE_TYPE_KEYWORD_LIST",
                    "keyword_list": {"values": ["a", "b"]},
                },
            ]
        },
    ),
]


def test_events_read_back_as_they_were() -> None:
    history = WorkflowHistory("order-1", "run-1", EVENTS)

    assert WorkflowHistory.from_json("order-1", history.to_json()) == history
    assert WorkflowHistory.from_json("order-1", history.to_json_dict()) == history


def test_lines_as_the_command_line_prints_them_read_back() -> None:
    lines = "".join(json.dumps(event_to_json(event)) + "\n" for event in EVENTS)

    assert WorkflowHistory.from_json("order-1", lines).events == EVENTS


def test_a_reader_finds_the_values() -> None:
    attributes = event_to_json(EVENTS[0])["attributes"]

    assert attributes["input"] == [
        "größe",
        {"encoding": "binary/plain", "data": "AP8="},
        None,
        1.5,
    ]
    assert attributes["memo"] == {"note": {"a": [1, 2]}}
    assert attributes["retry_policy"]["maximum_interval_ms"] == 300_000


@pytest.mark.parametrize("event_type", ATTRIBUTES)
def test_every_kind_of_event_loses_no_field(event_type: str) -> None:
    message = event_pb2.HistoryEvent(event_id=7, time_us=1)
    attributes = getattr(message, ATTRIBUTES[event_type].name)
    attributes.SetInParent()
    for field in attributes.DESCRIPTOR.fields:
        set_some_value(attributes, field)

    event = event_from_json(
        json.loads(json.dumps(event_to_json(history_event_from_message(message))))
    )

    assert message_from_history_event(event) == message


def set_some_value(message: Any, field: Any) -> None:
    payload = Payload("json/plain", b'"x"')
    if field.message_type is not None:
        if field.message_type.name == "RetryPolicy":
            policy = message.retry_policy
            policy.initial_interval_ms = 1_000
            policy.backoff_coefficient = 2.0
            policy.maximum_attempts = 3
        elif field.message_type.name == "Failure":
            getattr(message, field.name).message = "broke"
    elif field.enum_type is not None:
        setattr(message, field.name, field.enum_type.values[1].number)
    elif field.type == field.TYPE_BYTES:
        if field.name in FIELD_MAPS:
            encoded = fields_to_bytes({"a": payload})
        elif field.name in SINGLE_PAYLOADS:
            encoded = payload_to_bytes(payload)
        else:
            encoded = payloads_to_bytes([payload])
        setattr(message, field.name, encoded)
    elif field.is_repeated:
        getattr(message, field.name).append("x")
    elif field.type == field.TYPE_STRING:
        setattr(message, field.name, "x")
    else:
        setattr(message, field.name, True if field.type == field.TYPE_BOOL else 1)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["encoding", "data", "metadata", "a"]), inner)
    ),
    max_leaves=8,
)


@given(value=JSON_VALUES)
def test_any_value_reads_back(value: Any) -> None:
    payload = CONVERTER.to_payload(value)

    found = payload_from_json(json.loads(json.dumps(payload_to_json(payload))))

    assert found.encoding == payload.encoding
    assert CONVERTER.from_payload(found, Any) == value


@given(data=st.binary(), encoding=st.sampled_from(["json/plain", "binary/null", "x/y"]))
def test_any_bytes_read_back(data: bytes, encoding: str) -> None:
    """Also where they are not what their encoding says."""
    payload = Payload(encoding, data, {"key": b"\x00"})

    assert payload_from_json(json.loads(json.dumps(payload_to_json(payload)))) == payload
    plain = payload_from_json(json.loads(json.dumps(payload_to_json(Payload(encoding, data)))))
    assert plain.encoding == encoding
    assert plain.data == data or json.loads(plain.data) == json.loads(data)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no events"),
        ('{"events": []}', "no events"),
        ("[1]", "an event is an object"),
        ('{"event_type": "TimerFired"}', "event_id"),
        ('{"event_id": 3, "event_type": "TimerFyred"}', "event 3.*TimerFyred"),
        (
            '{"event_id": 3, "event_type": "TimerFired", "attributes": {"timer": "1"}}',
            "event 3.*TimerFired.*'timer'",
        ),
        (
            '{"event_id": 3, "event_type": "TimerFired", "attributes": {"timer_id": 5}}',
            "event 3.*timer_id",
        ),
        (
            '{"event_id": 3, "event_type": "WorkflowTaskFailed", "attributes": {"cause": "BAD"}}',
            "event 3.*cause.*BAD",
        ),
        (
            '{"event_id": 3, "event_type": "WorkflowExecutionCompleted", "attributes": '
            '{"result": [{"encoding": "x", "data": "?"}]}}',
            "event 3.*result",
        ),
        ('{"event_id": 3, "event_time": "yesterday"}', "event 3"),
        ('{"event_id": 3} nonsense', "Expecting value"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        WorkflowHistory.from_json("w", text)
