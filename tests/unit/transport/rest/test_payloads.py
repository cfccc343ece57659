"""The user's values: in as JSON, out as the SDK would show them."""

from typing import Any

import pytest

from perdure._payload import Payload
from perdure._wire import history_json
from perdure._wire.payloads import fields_from_bytes, payloads_from_bytes, payloads_to_bytes
from perdure_api.v1 import common_pb2 as pb
from perdure_engine.transport.http.rest.convert import payloads

VALUES = [
    Payload("json/plain", b'{"a": [1, 2.50, null]}'),
    Payload("json/plain", b"null"),
    Payload("json/plain", b"NaN"),
    Payload("json/plain", b'{"encoding": "x", "data": "y"}'),
    Payload("json/plain", b'{"encoding": "x", "data": "y", "more": 1}'),
    Payload("json/plain", b"\xff"),
    Payload("json/plain", b'"text"', {"key": b"\x00"}),
    Payload("binary/null", b""),
    Payload("binary/plain", b"\x00\xff"),
    Payload("binary/encrypted", b"\x01\x02", {"key-id": b"k1"}),
    Payload("json/protobuf", b"{}", {"messageType": b"a.B"}),
]


@pytest.mark.parametrize("payload", VALUES, ids=str)
def test_a_payload_is_shown_as_the_sdk_shows_it(payload: Payload) -> None:
    (shown,) = payloads.values_of(payloads_to_bytes([payload]))

    assert shown == history_json.payload_to_json(payload)
    assert history_json.payload_from_json(shown).encoding == payload.encoding


@pytest.mark.parametrize("value", [0, "", "é", [1, {"b": None}], 1.5, True, {"encoding": "a"}])
def test_a_value_that_came_in_goes_out_as_it_was(value: Any) -> None:
    sent = payloads.from_values([value, None])

    assert payloads.values_of(sent) == [value, None]
    assert [one.encoding for one in payloads_from_bytes(sent)] == ["json/plain", "binary/null"]


def test_an_object_that_looks_like_a_payload_comes_in_as_json() -> None:
    """Nobody's parameters may turn into bytes by their names."""
    value = {"encoding": "binary/plain", "data": "AAEC"}

    (payload,) = payloads_from_bytes(payloads.from_values([value]))

    assert payload.encoding == "json/plain"


def test_results_are_one_value_a_memo_is_a_map_and_a_summary_is_a_text() -> None:
    assert payloads.result_of(payloads.from_values([{"a": 1}])) == {"a": 1}
    assert payloads.result_of(b"") is None
    assert payloads.result_of(payloads.from_values([1, 2])) == [1, 2]
    memo = payloads.from_fields({"a": 1, "b": None})
    assert payloads.fields_of(memo) == {"a": 1, "b": None}
    assert fields_from_bytes(memo)["a"] == Payload("json/plain", b"1")
    assert payloads.single_value_of(payloads.from_text("short")) == "short"
    assert payloads.single_value_of(b"") is None
    assert payloads.from_text("") == payloads.from_values([]) == payloads.from_fields({}) == b""


def test_a_memo_is_the_same_bytes_in_each_process() -> None:
    """Protobuf writes a map in an order that is each process's own, unless it is told not to."""
    memo = payloads.from_fields({f"name{number}": number for number in range(12)})
    assert memo == pb.Memo.FromString(memo).SerializeToString(deterministic=True)


@pytest.mark.parametrize("of", [payloads.values_of, payloads.single_value_of, payloads.fields_of])
def test_bytes_that_are_no_payload_are_shown_as_bytes(of: Any) -> None:
    assert "unreadable" in str(of(b"\xff\xff\xff"))


def test_deep_json_of_a_worker_is_shown_as_bytes() -> None:
    deep = pb.Payloads(payloads=[pb.Payload(encoding="json/plain", data=b"[" * 100_000)])

    assert payloads.values_of(deep.SerializeToString())[0]["encoding"] == "json/plain"
