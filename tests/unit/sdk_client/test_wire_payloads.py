"""Payloads on the wire: what is put together by hand is what protobuf makes and reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure._wire.payloads import (
    fields_from_bytes,
    fields_to_bytes,
    payload_from_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure.converter import Payload
from perdure.errors import PayloadDecodeError
from perdure_api.v1 import common_pb2 as pb

payload = st.builds(
    Payload,
    st.one_of(st.just("json/plain"), st.sampled_from(["binary/null", "binary/plain", ""])),
    st.binary(max_size=200),
    st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=2),
)


def by_protobuf(payloads: list[Payload]) -> bytes:
    return pb.Payloads(
        payloads=[
            pb.Payload(encoding=one.encoding, data=one.data, metadata=dict(one.metadata))
            for one in payloads
        ]
    ).SerializeToString(deterministic=True)


@given(st.lists(payload, max_size=3))
def test_what_is_written_is_read_again_by_us_and_by_protobuf(payloads: list[Payload]) -> None:
    data = payloads_to_bytes(payloads)

    assert payloads_from_bytes(data) == payloads
    message = pb.Payloads.FromString(data)
    assert [(one.encoding, one.data, dict(one.metadata)) for one in message.payloads] == [
        (one.encoding, one.data, dict(one.metadata)) for one in payloads
    ]


@pytest.mark.parametrize("size", [0, 1, 2, 96, 110, 111, 112, 113, 114, 126, 127, 128, 300, 20_000])
def test_short_values_are_the_same_bytes_as_protobufs(size: int) -> None:
    payloads = [Payload("json/plain", b"7" * size)]

    assert payloads_to_bytes(payloads) == by_protobuf(payloads)
    assert payloads_from_bytes(by_protobuf(payloads)) == payloads


def test_what_returns_nothing_is_the_same_bytes_as_protobufs() -> None:
    payloads = [Payload("binary/null", b"")]

    assert payloads_to_bytes(payloads) == by_protobuf(payloads)
    assert payloads_from_bytes(by_protobuf(payloads)) == payloads


@given(st.binary(max_size=150))
def test_garbage_is_refused_or_read_as_protobuf_reads_it(data: bytes) -> None:
    for prefix in (b"", b"\x0a", b"\x0a" + bytes((len(data) + 13,)) + b"\x0a\x0ajson/plain\x12"):
        try:
            expected = pb.Payloads.FromString(prefix + data)
        except Exception:
            with pytest.raises(PayloadDecodeError):
                payloads_from_bytes(prefix + data)
        else:
            found = payloads_from_bytes(prefix + data)
            assert [one.data for one in found] == [one.data for one in expected.payloads]


def test_nothing_is_no_bytes() -> None:
    assert payloads_to_bytes([]) == b""
    assert payloads_from_bytes(b"") == []
    assert payload_to_bytes(None) == b""
    assert payload_from_bytes(b"") is None
    assert fields_to_bytes({}) == b""
    assert fields_from_bytes(b"") == {}


def test_maps_and_single_payloads() -> None:
    fields = {"a": Payload("json/plain", b"1"), "b": Payload("x", b"", {"k": b"v"})}

    assert fields_from_bytes(fields_to_bytes(fields)) == fields
    assert payload_from_bytes(payload_to_bytes(fields["b"])) == fields["b"]
    with pytest.raises(PayloadDecodeError):
        fields_from_bytes(b"\xff")
    with pytest.raises(PayloadDecodeError):
        payload_from_bytes(b"\xff")
