"""Errors of calls: gRPC's status with google.rpc details, made into `RPCError`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import (  # type: ignore[import-untyped]  # ships stubs but no py.typed
    error_details_pb2,
    status_pb2,
)

from perdure.errors import RPCError, RPCStatusCode

_DETAILS_KEY = "grpc-status-details-bin"
_CODES = {code: RPCStatusCode(code.value[0]) for code in grpc.StatusCode}

# What gRPC itself says when the connection breaks under a call. Its newest version calls that
# UNAVAILABLE; elsewhere nothing but the text tells it from what an engine says.
_CODES_OF_BROKEN_STREAMS = (RPCStatusCode.UNKNOWN, RPCStatusCode.INTERNAL)
# the last: what grpc.aio says of a stream that was opened on a connection about to close
_BROKEN_STREAM = ("Stream removed", "RST_STREAM", "GOAWAY", "Internal error from Core")


class EngineError(RPCError):
    """An RPCError with the facts that came along with its reason (ErrorInfo's metadata)."""

    def __init__(
        self,
        message: str,
        status: RPCStatusCode,
        *,
        reason: str = "",
        field_violations: Sequence[tuple[str, str]] = (),
        retry_delay_s: float | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            message,
            status,
            reason=reason,
            field_violations=field_violations,
            retry_delay_s=retry_delay_s,
        )
        self.facts = facts or {}


def copy_of(error: RPCError) -> RPCError:
    """For another caller: an exception that is raised in two places gathers both tracebacks."""
    return EngineError(
        error.message,
        error.status,
        reason=error.reason,
        field_violations=error.field_violations,
        retry_delay_s=error.retry_delay_s,
        facts=error.facts if isinstance(error, EngineError) else None,
    )


async def sent(call: Callable[..., Awaitable[Any]], request: Any, timeout_s: float) -> Any:
    """The answer. Raises RPCError."""
    try:
        return await call(request, timeout=timeout_s)
    except grpc.RpcError as error:
        raise error_from_call(error) from None


def error_from_call(error: grpc.RpcError) -> RPCError:
    """Of a call that failed as a whole, on an asyncio or on a blocking channel."""
    assert isinstance(error, grpc.aio.AioRpcError | grpc.Call), error
    code = _CODES[error.code()]
    text = error.details() or ""
    if code is RPCStatusCode.CANCELLED or (
        code in _CODES_OF_BROKEN_STREAMS and any(word in text for word in _BROKEN_STREAM)
    ):
        # Our own cancellations surface as asyncio.CancelledError. This one came from an engine
        # that is going down, or has died: the next one answers.
        code = RPCStatusCode.UNAVAILABLE
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                return _with_details(text, code, status_pb2.Status.FromString(value))
            except DecodeError:
                break
    return EngineError(text, code)


def error_from_status(data: bytes) -> RPCError:
    """Of one item in a batch, whose error is an encoded google.rpc.Status."""
    try:
        status = status_pb2.Status.FromString(data)
        code = RPCStatusCode(status.code)
    except (DecodeError, ValueError):
        return EngineError("the engine's error could not be read", RPCStatusCode.INTERNAL)
    return _with_details(status.message, code, status)


def _with_details(text: str, code: RPCStatusCode, status: status_pb2.Status) -> RPCError:
    bad_request = error_details_pb2.BadRequest()
    error_info = error_details_pb2.ErrorInfo()
    retry_info = error_details_pb2.RetryInfo()
    retry_delay_s: float | None = None
    for detail in status.details:
        if detail.Unpack(retry_info):
            retry_delay_s = retry_info.retry_delay.ToTimedelta().total_seconds()
        elif not detail.Unpack(error_info):
            detail.Unpack(bad_request)
    violations = [(one.field, one.description) for one in bad_request.field_violations]
    return EngineError(
        text,
        code,
        reason=error_info.reason,
        field_violations=violations,
        retry_delay_s=retry_delay_s,
        facts=dict(error_info.metadata),
    )
