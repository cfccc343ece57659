"""The calls of one stream: each is served as if it had come alone, and answered by its number when it is done.

For those who call all the time: a message of a stream costs each side a quarter of what a call of its own does. What
a call means, and what becomes of it when its caller goes, is the same on both ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message
from google.rpc import status_pb2  # type: ignore[import-untyped]  # ships stubs but no py.typed

from perdure_engine.core.errors import Code, Rejected, invalid, unavailable
from perdure_engine.frontend.parking import Parking
from perdure_engine.transport.grpc.decode import ended
from perdure_engine.transport.grpc.departure import StreamedCall
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.grpc.message_stream import MessageStream

CALLS_MAX = 1_000  # under way on one stream; ours keep under a hundred there
IDLE_S = 150.0
"""A stream on which nothing comes and nothing is under way for so long, or up to twice, is ended: whoever has forgotten
it does not hold it for as long as the connection lives (B43, bug report 61). Who still wants it opens another."""

Serve = Callable[[Any, StreamedCall], Awaitable[Message]]


class CallStream:
    """Serves one stream until its caller ends or breaks it, or this node stops.

    A caller that ends its half of the stream still gets the answers to what it asked. When the stream breaks, the
    calls under way are cancelled.
    """

    def __init__(
        self,
        stream: MessageStream,
        methods: Mapping[str, Serve],
        response: type[Message],
        errors: Errors,
        parking: Parking,
    ) -> None:
        """`methods` by the name of their field in calls and answers; `response` is a message of `answers`."""
        self._stream = stream
        self._methods = {
            field: (serve, stream.measured._replace(operation=serve.__name__))
            for field, serve in methods.items()
        }
        self._response: Any = response
        self._errors = errors
        self._parking = parking
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._one_writes = asyncio.Lock()
        self._leaving: int | None = None  # the call whose answer is being written
        self._serving: asyncio.Task[object] | None = None
        self._broken: Exception | None = None
        self._heard = False  # something, since it was looked at last
        self.idle = False  # it was ended for that

    async def serve(self) -> None:
        self._serving = asyncio.current_task()
        self._looks = asyncio.get_running_loop().call_later(IDLE_S, self._look)
        try:
            all_read = await self._parking.wait(self._read(), None)
            while self._calls:
                await asyncio.wait(self._calls.values())
            if not all_read:
                raise unavailable("SHUTTING_DOWN", "this node is stopping; ask another one")
        except asyncio.CancelledError:
            if self._broken is None and not self.idle:
                raise
            # By `_end` or `_look`. gRPC sends a caller that is still there no end for a handler that is cancelled.
            self._serving.uncancel()  # type: ignore[union-attr]  # the current task, set above
            if self._broken is not None:
                raise self._broken from None
        finally:
            self._looks.cancel()
            for call in self._calls.values():
                call.cancel()

    def _look(self) -> None:
        """End it if it is idle. A timer that looks costs a message nothing, one for each would."""
        if self._heard or self._calls:
            self._heard = False
            self._looks = asyncio.get_running_loop().call_later(IDLE_S, self._look)
        else:
            self.idle = True
            assert self._serving is not None
            self._serving.cancel()

    async def _read(self) -> bool:
        """Returns True when the caller has ended its half."""
        loop = asyncio.get_running_loop()
        while (request := await self._stream.read()) is not None:
            self._heard = True
            for call_no in request.forget:
                # gRPC cannot take back a write: the next one would meet it and fail
                if (forgotten := self._calls.get(call_no)) and call_no != self._leaving:
                    forgotten.cancel()
            for call in request.calls:
                call_no = call.call_no
                if call_no in self._calls:
                    raise invalid("call_no", f"{call_no} is under way on this stream")
                has_room = len(self._calls) < CALLS_MAX
                self._calls[call_no] = loop.create_task(self._serve(call_no, call, has_room))
        return True

    async def _serve(self, call_no: int, call: Any, has_room: bool) -> None:
        streamed = StreamedCall()
        response = self._response()
        answer = response.answers.add(call_no=call_no)
        try:
            if has_room:
                await self._answer(call, streamed, answer)
            else:
                answer.error = self._errors.encoded(_too_many())
            async with self._one_writes:
                await self._write(call_no, response)
        except Exception as error:
            streamed.lost()
            self._end(error)
        except BaseException:
            streamed.lost()
            raise
        finally:
            del self._calls[call_no]

    async def _write(self, call_no: int, response: Message) -> None:
        self._leaving = call_no
        try:
            await self._stream.write(response)
        except Exception as error:
            raise unavailable("STREAM_BROKEN", f"the stream takes no answer: {error!r}") from error
        finally:
            self._leaving = None

    def _end(self, error: Exception) -> None:
        """Once."""
        if self._broken is None:
            self._broken = error
            assert self._serving is not None
            self._serving.cancel()

    async def _answer(self, call: Any, streamed: StreamedCall, answer: Any) -> None:
        field = call.WhichOneof("call")
        if field not in self._methods:
            unknown = invalid("call", "is not set, or of a kind unknown to this version")
            answer.error = self._errors.encoded(unknown)
            return
        serve, measured = self._methods[field]
        served = await ended(serve(getattr(call, field), streamed), self._errors, measured)
        if isinstance(served, status_pb2.Status):
            answer.error = served.SerializeToString()
        else:
            getattr(answer, field).CopyFrom(served)


def _too_many() -> Rejected:
    return Rejected(
        Code.RESOURCE_EXHAUSTED,
        "TOO_MANY_CALLS",
        f"the stream carries {CALLS_MAX} calls already; open another one",
    )
