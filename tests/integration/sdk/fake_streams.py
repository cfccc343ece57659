"""Streams of calls, as the fake engine serves them: by the functions that serve the calls which come alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NoReturn

from google.rpc import status_pb2

Method = Callable[[Any, Any], Awaitable[Any]]


class _Aborted(Exception):
    def __init__(self, error: status_pb2.Status) -> None:
        self.error = error


class _Caller:
    """What takes the place of a context."""

    async def abort(self, code: Any, message: str, metadata: Any) -> NoReturn:
        ((_, encoded),) = metadata
        raise _Aborted(status_pb2.Status.FromString(encoded))


async def serve_calls(
    requests: AsyncIterator[Any],
    context: Any,
    methods: Mapping[str, Method],
    response: Callable[..., Any],
) -> None:
    """Until the stream ends; then the calls under way are cancelled. `response` is made of `answers`."""
    calls: dict[int, asyncio.Task[None]] = {}
    one_writes = asyncio.Lock()

    async def serve(call: Any) -> None:
        field = call.WhichOneof("call")
        answer: dict[str, Any] = {"call_no": call.call_no}
        try:
            answer[field] = await methods[field](getattr(call, field), _Caller())
        except _Aborted as aborted:
            answer["error"] = aborted.error.SerializeToString()
        async with one_writes:
            await context.write(response(answers=[answer]))

    try:
        async for request in requests:
            for call_no in request.forget:
                calls[call_no].cancel()
            for call in request.calls:
                calls[call.call_no] = asyncio.create_task(serve(call))
    finally:
        for task in calls.values():
            task.cancel()
