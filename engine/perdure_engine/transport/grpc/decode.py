"""Handlers that take raw bytes, so that what cannot be decoded is refused and not called UNKNOWN.

gRPC's own deserializers answer bytes they cannot read with UNKNOWN and a Python text, and an
exception in a handler with its text, verbatim. Here both are mapped in one place around each RPC;
an interceptor would do it at the price of another coroutine per call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2  # type: ignore[import-untyped]  # ships stubs but no py.typed

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.grpc.errors import STATUS_CODES, Errors
from perdure_engine.transport.grpc.message_stream import MessageStream
from perdure_engine.transport.measured import Measured
from perdure_engine.transport.refusals import is_cancelled

T = TypeVar("T")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
OK = grpc.StatusCode.OK.name
CANCELLED = grpc.StatusCode.CANCELLED.name

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Unary = Callable[[Any, Context], Awaitable[Message]]
Stream = Callable[[MessageStream], Awaitable[None]]


def parser(method: MethodDescriptor) -> Callable[[bytes], Message]:
    """From bytes to the method's request; raises INVALID_ARGUMENT."""
    parse = GetMessageClass(method.input_type).FromString
    name = method.input_type.name

    def parsed(raw: bytes) -> Message:
        try:
            return parse(raw)
        except (DecodeError, RecursionError):
            raise _undecodable(name) from None

    return parsed


def method_handlers(
    service: ServiceDescriptor, servicer: object, errors: Errors, metrics: Metrics
) -> dict[str, Handler]:
    """A handler for each method of the service; the servicer has a function of the same name.
    Made on the loop that will serve them."""
    handlers: dict[str, Handler] = {}
    now_s = asyncio.get_running_loop().time
    for method in service.methods:
        function = getattr(servicer, method.name)
        parse = parser(method)
        measured = Measured(metrics, method.name, now_s)
        handlers[method.name] = (
            grpc.stream_stream_rpc_method_handler(
                _guarded_stream(function, parse, errors, measured)
            )
            if method.client_streaming
            else grpc.unary_unary_rpc_method_handler(_guarded(function, parse, errors, measured))
        )
    return handlers


def _guarded(
    function: Unary, parse: Callable[[bytes], Message], errors: Errors, measured: Measured
) -> Any:
    async def call(raw: bytes, context: Context) -> bytes:
        began_s, code = measured.now_s(), OK
        try:
            return (await function(parse(raw), context)).SerializeToString()
        except asyncio.CancelledError as error:
            if is_cancelled():
                code = CANCELLED
                raise
            status = errors.status(error)
            code = STATUS_CODES[status.code].name
            await errors.abort(context, status)
        except Exception as error:
            status = errors.status(error)
            code = STATUS_CODES[status.code].name
            await errors.abort(context, status)
        finally:
            measured.ended(code, began_s)

    return call


def _guarded_stream(
    function: Stream, parse: Callable[[bytes], Message], errors: Errors, measured: Measured
) -> Any:
    async def call(_: object, context: Context) -> None:
        served = function(MessageStream(context, parse, measured))
        status = await ended(served, errors, measured)
        if isinstance(status, status_pb2.Status):
            await errors.abort(context, status)

    return call


async def ended(served: Awaitable[T], errors: Errors, measured: Measured) -> T | status_pb2.Status:
    """What it came to, counted: the status of what it raised, unless it is cancelled itself."""
    began_s, code = measured.now_s(), OK
    try:
        return await served
    except asyncio.CancelledError as error:
        if is_cancelled():
            code = CANCELLED
            raise
        status = errors.status(error)
        code = STATUS_CODES[status.code].name
        return status
    except Exception as error:
        status = errors.status(error)
        code = STATUS_CODES[status.code].name
        return status
    finally:
        measured.ended(code, began_s)


def _undecodable(name: str) -> Rejected:
    return Rejected(
        Code.INVALID_ARGUMENT,
        "UNDECODABLE_MESSAGE",
        f"the bytes are not a {name}: malformed, nested too deep, or with text that is not UTF-8",
        field=name,
    )
