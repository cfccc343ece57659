"""What a refusal becomes, and whether the call goes out again."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from perdure._wire.errors import EngineError, copy_of, error_from_call, error_from_status
from perdure._wire.retry import (
    DELAY_S_MAX,
    FIRST_DELAY_S,
    backoff_s,
    is_too_large,
    retry_delay_s,
)
from perdure.errors import RPCError, RPCStatusCode


def status(code: int, *details: Message) -> bytes:
    packed: list[AnyMessage] = []
    for detail in details:
        one = AnyMessage()
        one.Pack(detail)
        packed.append(one)
    return status_pb2.Status(code=code, message="because", details=packed).SerializeToString()


INFO = error_details_pb2.ErrorInfo(reason="WHY", metadata={"run_id": "r"})
RETRY = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000))
BAD = error_details_pb2.BadRequest(field_violations=[{"field": "f", "description": "d"}])


def test_the_details_of_a_status() -> None:
    error = error_from_status(status(3, INFO, BAD, RETRY))

    assert isinstance(error, EngineError)
    assert str(error) == "because"
    assert error.status is RPCStatusCode.INVALID_ARGUMENT
    assert error.reason == "WHY"
    assert error.facts == {"run_id": "r"}
    assert error.field_violations == [("f", "d")]
    assert error.retry_delay_s == 1.5


def test_a_copy_says_the_same() -> None:
    error = error_from_status(status(3, INFO, BAD, RETRY))
    copy = copy_of(error)

    assert copy is not error
    assert vars(copy) == vars(error)
    plain = copy_of(RPCError("x", RPCStatusCode.INTERNAL))
    assert (plain.message, plain.status) == ("x", RPCStatusCode.INTERNAL)


@pytest.mark.parametrize("data", [b"\xff\xff", status(77)])
def test_a_status_that_cannot_be_read(data: bytes) -> None:
    assert error_from_status(data).status is RPCStatusCode.INTERNAL


def call_error(
    code: grpc.StatusCode, details: bytes | None = None, text: str = "text"
) -> grpc.RpcError:
    metadata = grpc.aio.Metadata()
    if details is not None:
        metadata.add("grpc-status-details-bin", details)
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details=text)


def test_the_error_of_a_call() -> None:
    plain = error_from_call(call_error(grpc.StatusCode.NOT_FOUND))
    assert (plain.message, plain.status) == ("text", RPCStatusCode.NOT_FOUND)
    detailed = error_from_call(call_error(grpc.StatusCode.NOT_FOUND, status(5, INFO)))
    assert detailed.reason == "WHY"
    garbled = error_from_call(call_error(grpc.StatusCode.NOT_FOUND, b"\xff\xff"))
    assert garbled.status is RPCStatusCode.NOT_FOUND


def test_an_engine_that_cancels_is_going_down() -> None:
    error = error_from_call(call_error(grpc.StatusCode.CANCELLED))
    assert error.status is RPCStatusCode.UNAVAILABLE


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL])
def test_a_connection_that_broke_is_an_engine_that_is_away(code: grpc.StatusCode) -> None:
    broken = error_from_call(call_error(code, text="Stream removed (Socket closed)"))
    assert broken.status is RPCStatusCode.UNAVAILABLE
    assert error_from_call(call_error(code)).status.name == code.name


def test_the_back_off_doubles_to_its_limit_and_half_of_it_is_chance() -> None:
    longest = [backoff_s(attempt, lambda: 1.0) for attempt in (1, 2, 3, 10, 10_000)]
    assert longest == [
        FIRST_DELAY_S,
        2 * FIRST_DELAY_S,
        4 * FIRST_DELAY_S,
        DELAY_S_MAX,
        DELAY_S_MAX,
    ]
    assert backoff_s(1, lambda: 0.0) == FIRST_DELAY_S / 2


@pytest.mark.parametrize("code", list(RPCStatusCode))
def test_only_what_may_heal_is_repeated(code: RPCStatusCode) -> None:
    delay_s = retry_delay_s(RPCError("x", code), 1, lambda: 0.0)
    assert (delay_s is not None) == (code is RPCStatusCode.UNAVAILABLE)
    moved = RPCError("x", code, reason="SHARD_MOVED")
    assert retry_delay_s(moved, 1, lambda: 0.0) is not None


def test_busy_is_not_too_large() -> None:
    busy = RPCError("x", RPCStatusCode.RESOURCE_EXHAUSTED, retry_delay_s=2.0)
    too_large = RPCError("x", RPCStatusCode.RESOURCE_EXHAUSTED)

    assert retry_delay_s(busy, 1, lambda: 0.0) == 2.0
    assert retry_delay_s(busy, 1, lambda: 1.0) == pytest.approx(2.4)
    assert not is_too_large(busy)
    assert is_too_large(too_large)
