"""Streams of services that are not ours (health, reflection) end at some age: gRPC tells a handler of a caller that has
forgotten its call only when the connection ends (bug report 61), and theirs wait for ever."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import grpc

AGE_S = 600.0
"""Whoever still watches asks again."""


class Ageing:
    """What generated code takes for a server: passes handlers on, those of streams with their limit."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        limited = {name: _limited(handler) for name, handler in handlers.items()}
        self._server.add_registered_method_handlers(service, limited)

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """The same methods, told a second time."""


def _limited(handler: Any) -> Any:
    if not handler.response_streaming:
        return handler
    serve = handler.stream_stream if handler.request_streaming else handler.unary_stream
    kind = (
        grpc.stream_stream_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_stream_rpc_method_handler
    )

    async def call(request: Any, context: Any) -> None:
        try:
            async with asyncio.timeout(AGE_S):
                served = serve(request, context)
                if inspect.isasyncgen(served):
                    async for answer in served:
                        await context.write(answer)
                else:
                    await served
        except TimeoutError:
            return

    return kind(call, handler.request_deserializer, handler.response_serializer)
