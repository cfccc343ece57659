"""Calls that share a stream: who is answered, who fails, and what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from tests.unit.sdk_client.test_worker_parts import turn

from perdure._wire.call_stream import CallStream
from perdure._wire.connection import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX
from perdure.errors import RPCError, RPCStatusCode
from perdure_api.v1 import worker_service_pb2 as pb


class Stream:
    """The engine's half: `sent` has what came, and the test says what goes back."""

    def __init__(self) -> None:
        self.sent: list[pb.WorkRequest] = []
        self.cancelled = False
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._back: asyncio.Queue[Any] = asyncio.Queue()

    async def write(self, request: pb.WorkRequest) -> None:
        self.sent.append(request)
        await self.may_write.wait()

    async def read(self) -> Any:
        found = await self._back.get()
        if isinstance(found, Exception):
            raise found
        return found

    def cancel(self) -> None:
        self.cancelled = True

    def answer(self, *call_nos: int, error: bytes = b"") -> None:
        answers = [pb.WorkAnswer(call_no=call_no, error=error) for call_no in call_nos]
        self._back.put_nowait(pb.WorkResponse(answers=answers))

    def end(self, with_: Any) -> None:
        self._back.put_nowait(with_)


class Door:
    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.calls = CallStream(self._open, pb.WorkRequest)

    def _open(self) -> grpc.aio.StreamStreamCall[Any, Any]:
        self.streams.append(Stream())
        return cast("grpc.aio.StreamStreamCall[Any, Any]", self.streams[-1])

    def call(
        self, fill: Callable[[Any], None] | None = None, timeout_s: float = 60.0, size: int = 0
    ) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.calls.call(fill or poll, timeout_s, size))


def poll(call: pb.WorkCall) -> None:
    call.poll_tasks.max_workflow_tasks = 1


def ends_with(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="why")


def numbers(request: pb.WorkRequest) -> list[int]:
    return [call.call_no for call in request.calls]


async def settled() -> None:
    for _ in range(5):
        await turn()


async def failure(call: asyncio.Task[Any]) -> RPCError:
    with pytest.raises(RPCError) as caught:
        await call
    return caught.value


async def test_calls_of_one_turn_travel_together_on_one_stream_and_are_answered_apart() -> None:
    door = Door()
    first, second = door.call(), door.call()
    await settled()
    (stream,) = door.streams
    assert [numbers(request) for request in stream.sent] == [[1, 2]]

    stream.answer(2)
    assert (await second).call_no == 2
    assert not first.done()
    third = door.call()
    await settled()
    stream.answer(1, 3)
    assert (await first).call_no, (await third).call_no == (1, 3)
    assert len(door.streams) == 1
    await door.calls.close()
    assert stream.cancelled


async def test_what_collects_while_a_message_is_on_its_way_travels_in_the_next() -> None:
    door = Door()
    calls = [door.call()]
    await settled()
    (stream,) = door.streams
    stream.may_write.clear()
    calls += [door.call()]
    await settled()
    calls += [door.call(), door.call()]
    await settled()
    stream.may_write.set()
    await settled()

    assert [numbers(request) for request in stream.sent] == [[1], [2], [3, 4]]
    await door.calls.close()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_call_that_is_cancelled_is_taken_back_and_an_answer_to_it_ignored() -> None:
    door = Door()
    sent = door.call()
    await settled()
    (stream,) = door.streams
    stream.may_write.clear()
    other = door.call()
    await settled()
    unsent = door.call()
    await settled()
    sent.cancel()
    unsent.cancel()
    await settled()
    stream.may_write.set()
    await settled()

    assert [numbers(request) for request in stream.sent] == [[1], [2], []]
    assert [list(request.forget) for request in stream.sent] == [[], [], [1]]
    stream.answer(1, 3, 2)
    assert (await other).call_no == 2
    await door.calls.close()


async def test_a_call_that_is_not_answered_in_time_fails_alone_and_is_taken_back() -> None:
    door = Door()
    late, other = door.call(timeout_s=0.001), door.call()
    await settled()

    assert (await failure(late)).status is RPCStatusCode.DEADLINE_EXCEEDED
    await settled()
    (stream,) = door.streams
    assert [list(request.forget) for request in stream.sent] == [[], [1]]
    stream.answer(2)
    assert (await other).call_no == 2
    await door.calls.close()


async def test_an_error_in_an_answer_is_its_calls() -> None:
    door = Door()
    bad, good = door.call(), door.call()
    await settled()
    (stream,) = door.streams
    stream.answer(1, error=b"\x08\x05\x12\x04gone")
    stream.answer(2)

    found = await failure(bad)
    assert (found.status, found.message) == (RPCStatusCode.NOT_FOUND, "gone")
    assert (await good).call_no == 2
    await door.calls.close()


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (grpc.aio.EOF, RPCStatusCode.UNAVAILABLE),
        (ends_with(grpc.StatusCode.UNAVAILABLE), RPCStatusCode.UNAVAILABLE),
        (ends_with(grpc.StatusCode.CANCELLED), RPCStatusCode.UNAVAILABLE),
        # As the status of one call it would say that the call is too large.
        (ends_with(grpc.StatusCode.RESOURCE_EXHAUSTED), RPCStatusCode.UNAVAILABLE),
        (ends_with(grpc.StatusCode.UNIMPLEMENTED), RPCStatusCode.UNIMPLEMENTED),
        (ValueError("a defect"), RPCStatusCode.INTERNAL),
    ],
)
async def test_all_calls_of_a_stream_that_ends_fail_and_the_next_opens_another(
    end: Any, status: RPCStatusCode
) -> None:
    door = Door()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of the defect
    calls = [door.call(), door.call()]
    await settled()
    door.streams[0].end(end)

    errors = [await failure(call) for call in calls]
    assert [error.status for error in errors] == [status] * 2
    assert errors[0] is not errors[1]
    assert door.streams[0].cancelled
    following = door.call()
    await settled()
    door.streams[1].answer(3)
    assert (await following).call_no == 3
    assert [list(request.forget) for request in door.streams[1].sent] == [[]]
    await door.calls.close()


async def test_a_message_that_is_too_large_is_not_sent_and_the_others_keep_their_stream() -> None:
    def fill(call: pb.WorkCall) -> None:
        call.complete_tasks.completions.add(token=bytes(MESSAGE_BYTES_MAX))

    door = Door()
    large, small = door.call(fill, size=MESSAGE_BYTES_MAX), door.call()
    found = await failure(large)
    assert (found.status, found.retry_delay_s) == (RPCStatusCode.RESOURCE_EXHAUSTED, None)
    await settled()
    (stream,) = door.streams
    assert [number for request in stream.sent for number in numbers(request)] == [2]
    stream.answer(2)
    assert (await small).call_no == 2
    await door.calls.close()


async def test_messages_are_cut_where_batches_are() -> None:
    door = Door()
    calls = [door.call(size=BATCH_BYTES_MAX // 2) for _ in range(3)]
    await settled()

    assert [numbers(request) for request in door.streams[0].sent] == [[1, 2], [3]]
    await door.calls.close()
    for call in calls:
        assert (await failure(call)).status is RPCStatusCode.CANCELLED


async def test_a_request_that_cannot_be_made_fails_its_own_call() -> None:
    def fill(call: pb.WorkCall) -> None:
        call.poll_tasks.task_queue = "\ud800"

    door = Door()
    bad, good = door.call(fill), door.call()
    with pytest.raises(ValueError, match="surrogate"):
        await bad
    await settled()
    door.streams[0].answer(2)
    assert (await good).call_no == 2
    await door.calls.close()
    await door.calls.close()


async def test_an_answer_in_the_turn_in_which_the_time_is_over() -> None:
    loop, door = asyncio.get_running_loop(), Door()
    defects: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: defects.append(context))
    first = door.call()
    await settled()

    late = door.call(timeout_s=0.0)
    loop.call_soon(door.streams[0].answer, 2)  # after the call has begun, and before its timer
    answer = await late
    await settled()

    assert answer.call_no == 2
    assert defects == []
    assert [list(one.forget) for one in door.streams[0].sent] == [[], []]
    door.streams[0].answer(1)
    await first
    await door.calls.close()
