"""Errors on the wire: whole when they are ours, mute when they are not."""

import asyncio
import logging
from typing import Any

import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]  # no py.typed
from tests.unit.frontend.fakes import FakeIds

from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.transport.grpc.errors import STATUS_CODES, Errors


def detail(status: Any, kind: Any) -> Any:
    for packed in status.details:
        if packed.Is(kind.DESCRIPTOR):
            found = kind()
            packed.Unpack(found)
            return found
    return None


def test_a_refusal_travels_whole() -> None:
    refusal = Rejected(
        Code.RESOURCE_EXHAUSTED,
        "SHARD_FULL",
        "try later",
        field="calls",
        metadata={"shard": "3"},
        retry_after_ms=1_250,
    )

    status = Errors(FakeIds()).status(refusal)

    assert (status.code, status.message) == (8, "try later")
    info = detail(status, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("SHARD_FULL", "perdure.dev")
    assert dict(info.metadata) == {"shard": "3"}
    (violation,) = detail(status, error_details_pb2.BadRequest).field_violations
    assert violation.field == "calls"
    pause = detail(status, error_details_pb2.RetryInfo).retry_delay
    assert pause.ToMilliseconds() == 1_250


def test_a_plain_refusal_carries_no_empty_details() -> None:
    status = Errors(FakeIds()).status(Rejected(Code.NOT_FOUND, "TASK_NOT_FOUND", "gone"))

    assert detail(status, error_details_pb2.BadRequest) is None
    assert detail(status, error_details_pb2.RetryInfo) is None


def test_every_code_of_ours_is_one_of_grpcs() -> None:
    for code in Code:
        assert STATUS_CODES[code].name == code.name


@pytest.mark.parametrize(
    "error", [StoreUnavailable("dsn=secret"), OutcomeUnknown("secret"), asyncio.CancelledError()]
)
def test_what_may_be_tried_again_says_so(error: BaseException) -> None:
    status = Errors(FakeIds()).status(error)

    assert status.code == Code.UNAVAILABLE
    assert "secret" not in str(status)


def test_any_other_exception_is_an_id_here_and_a_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        try:
            raise ValueError("dsn=postgres://u:secret@h")
        except ValueError as error:
            encoded = Errors(FakeIds()).encoded(error)

    assert b"secret" not in encoded
    status = type(Errors(FakeIds()).status(invalid("f", "x"))).FromString(encoded)
    assert status.code == Code.INTERNAL
    error_id = detail(status, error_details_pb2.ErrorInfo).metadata["error_id"]
    (record,) = caplog.records
    assert error_id in record.getMessage()
    assert record.exc_info is not None
    assert "secret" in str(record.exc_info[1])


def test_details_stay_under_what_metadata_may_hold() -> None:
    refusal = Rejected(
        Code.INVALID_ARGUMENT,
        "R",
        "x" * 100_000,
        field="f" * 100_000,
        metadata={"k": "v" * 100_000},
    )

    assert len(Errors(FakeIds()).encoded(refusal)) < 6_000
