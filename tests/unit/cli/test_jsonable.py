"""What the SDK tells, as plain JSON values."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure._failure_info import ApplicationInfo, FailureInfo
from perdure.cli.jsonable import to_jsonable
from perdure.common import WorkflowStatus
from perdure.converter import DataConverter, Payload
from perdure.errors import PayloadDecodeError

CONVERTER = DataConverter.default.payload_converter


def decode(payload: Payload) -> Any:
    try:
        return CONVERTER.from_payload(payload)
    except PayloadDecodeError:
        return payload


@dataclass(frozen=True)
class Described:
    status: WorkflowStatus
    memo: Mapping[str, Any]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
        (WorkflowStatus.TIMED_OUT, "TIMED_OUT"),
        (datetime(2026, 11, 29, 10, tzinfo=UTC), "2026-11-29T10:00:00Z"),
        (timedelta(minutes=1, milliseconds=5), 60.005),
        ([1, (2, 3)], [1, [2, 3]]),
        ({1: b""}, {"1": ""}),
        (Described(WorkflowStatus.FAILED, {"a": 1}), {"status": "FAILED", "memo": {"a": 1}}),
        (CONVERTER.to_payload({"a": [1]}), {"a": [1]}),
        (CONVERTER.to_payload(None), None),
        (Payload("binary/zstd", b"\x01"), {"encoding": "binary/zstd", "data": "AQ=="}),
        (
            Payload("binary/encrypted", b"\x01", {"encryption-key-id": b"k1"}),
            {
                "encoding": "binary/encrypted",
                "data": "AQ==",
                "metadata": {"encryption-key-id": "k1"},
            },
        ),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    assert to_jsonable(value, decode) == expected


def test_a_failure_with_all_that_is_in_it() -> None:
    failure = FailureInfo(
        message="no",
        cause=FailureInfo(message="why"),
        info=ApplicationInfo(type="Refused", details=[CONVERTER.to_payload(1)]),
    )

    found = to_jsonable(failure, decode)

    assert found["message"] == "no"
    assert found["cause"]["message"] == "why"
    assert found["info"]["type"] == "Refused"
    assert found["info"]["details"] == [1]
    assert "encoded_attributes" not in found


def test_a_failure_whose_message_is_encrypted() -> None:
    hidden = Payload("binary/encrypted", b"\x01")
    failure = FailureInfo(message="Encoded failure", encoded_attributes=hidden)

    found = to_jsonable(failure, decode)

    assert found["message"] == "Encoded failure"
    assert found["encoded_attributes"] == {"encoding": "binary/encrypted", "data": "AQ=="}
