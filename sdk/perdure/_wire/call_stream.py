"""Calls that share one stream.

A message of a stream costs each side a quarter of what a call of its own does. What collects while one message is on
its way travels in the next. A call has the same meaning and the same deadline as one that goes alone; when the stream
breaks, every call on it fails as if its connection had broken, and the next call opens another stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from perdure._wire.connection import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX
from perdure._wire.errors import copy_of, error_from_call, error_from_status
from perdure.errors import RPCError, RPCStatusCode

Fill = Callable[[Any], None]
"""Puts a request into the message of its call."""


class _Pending:
    __slots__ = ("answered", "fill", "size")

    def __init__(self, answered: asyncio.Future[Any], fill: Fill, size: int) -> None:
        self.answered = answered
        self.fill = fill
        self.size = size


class CallStream:
    """Bound to the event loop in which it was made. The first call opens the stream; it stays from then on."""

    def __init__(
        self,
        open_stream: Callable[[], grpc.aio.StreamStreamCall[Any, Any]],
        make_request: Callable[[], Any],
    ) -> None:
        """`make_request`: an empty message of `calls` and `forget`."""
        self._open_stream = open_stream
        self._make_request = make_request
        self._loop = asyncio.get_running_loop()
        self._last_call_no = 0
        self._pending: dict[int, _Pending] = {}
        self._to_send: deque[int] = deque()
        self._to_forget: list[int] = []
        self._something_to_send = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def call(self, fill: Fill, timeout_s: float, size: int = 0) -> Any:
        """The answer's message. `size`: about how many bytes the request has. Cancelled, the call is taken back.

        Raises RPCError, and what `fill` raises.
        """
        self._last_call_no = call_no = self._last_call_no + 1
        answered: asyncio.Future[Any] = self._loop.create_future()
        self._pending[call_no] = _Pending(answered, fill, size)
        self._to_send.append(call_no)
        self._something_to_send.set()
        if self._keeper is None:
            self._keeper = self._loop.create_task(self._keep_stream())
        timer = self._loop.call_later(timeout_s, self._end_late_call, call_no)
        try:
            answer = await answered
        finally:
            timer.cancel()
            if self._pending.pop(call_no, None) is not None:
                self._forget(call_no)
        if answer.error:
            raise error_from_status(answer.error)
        return answer

    async def close(self) -> None:
        """Calls under way fail. Closing twice is fine."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))

    async def _keep_stream(self) -> None:
        """Until it ends."""
        stream = self._open_stream()
        sender = self._loop.create_task(self._send_all(stream))
        error = RPCError("the client was closed", RPCStatusCode.CANCELLED)
        try:
            while True:
                response: Any = await stream.read()
                if response is grpc.aio.EOF:
                    error = RPCError("the engine ended the stream", RPCStatusCode.UNAVAILABLE)
                    return
                for answer in response.answers:
                    pending = self._pending.pop(answer.call_no, None)
                    if pending is not None and not pending.answered.done():
                        pending.answered.set_result(answer)
        except grpc.RpcError as broken:
            error = _of_every_call(error_from_call(broken))
        except Exception as defect:  # of ours: the callers must hear of it, not wait
            error = RPCError(f"the stream failed: {defect!r}", RPCStatusCode.INTERNAL)
            raise
        finally:
            sender.cancel()
            stream.cancel()
            self._keeper = None
            self._to_send.clear()
            self._to_forget.clear()
            for call_no in list(self._pending):
                self._fail(call_no, copy_of(error))

    async def _send_all(self, stream: grpc.aio.StreamStreamCall[Any, Any]) -> None:
        while True:
            await self._something_to_send.wait()
            self._something_to_send.clear()
            while self._to_send or self._to_forget:
                try:
                    await stream.write(self._next_request())
                except (grpc.RpcError, asyncio.InvalidStateError):
                    return  # the receiving side hears of it too, and why

    def _next_request(self) -> Any:
        """As much of what waits as fits into a message."""
        request = self._make_request()
        request.forget.extend(self._to_forget)
        self._to_forget.clear()
        size = 0
        while self._to_send:
            pending = self._pending.get(self._to_send[0])
            if pending is None:  # forgotten before it was sent
                self._to_send.popleft()
                continue
            size += pending.size
            if request.calls and size > BATCH_BYTES_MAX:
                break
            call_no = self._to_send.popleft()
            try:
                pending.fill(request.calls.add(call_no=call_no))
            except Exception as defect:  # a value that fits no field: it is its caller's alone
                del request.calls[-1]
                self._fail(call_no, defect)
                continue
            if pending.size > BATCH_BYTES_MAX and request.ByteSize() > MESSAGE_BYTES_MAX:
                del request.calls[-1]  # sent all the same, it would cost the others their stream
                self._fail(call_no, _too_large())
        return request

    def _end_late_call(self, call_no: int) -> None:
        if call_no not in self._pending:
            return  # it has its answer, of which its caller hears after this
        error = RPCError("the call was not answered in time", RPCStatusCode.DEADLINE_EXCEEDED)
        self._fail(call_no, error)
        self._forget(call_no)

    def _fail(self, call_no: int, error: Exception) -> None:
        pending = self._pending.pop(call_no)
        if not pending.answered.done():
            pending.answered.set_exception(error)

    def _forget(self, call_no: int) -> None:
        if self._keeper is not None and call_no not in self._to_send:
            self._to_forget.append(call_no)
            self._something_to_send.set()


def _of_every_call(error: RPCError) -> RPCError:
    """A stream that breaks says nothing against a single call: that one of them is too large, least of all."""
    if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
        return RPCError(error.message, RPCStatusCode.UNAVAILABLE)
    return error


def _too_large() -> RPCError:
    return RPCError(
        f"the message is larger than {MESSAGE_BYTES_MAX} bytes", RPCStatusCode.RESOURCE_EXHAUSTED
    )
