"""WaitResults: many waits on one stream, answered as runs close."""

import asyncio
from typing import Any

import pytest
from tests.integration.transport.calls import refusal, refusal_in
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import RUN_ID, FakeHistory

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, not_found
from perdure_engine.core.events import WorkflowExecutionCompleted
from perdure_engine.core.replies import Closed
from perdure_engine.core.status import Status


def wait(wait_id: int, **changes: Any) -> pb.Wait:
    return pb.Wait(
        **{"wait_id": wait_id, "namespace": "default", "workflow_id": f"w{wait_id}", **changes}
    )


def closed(result: bytes = b"r") -> Closed:
    return Closed(RUN_ID, Status.COMPLETED, WorkflowExecutionCompleted(9, 1, result, 8))


async def ask(served: Served, call: Any, *waits: pb.Wait, forget: tuple[int, ...] = ()) -> None:
    """Send, and return when the waits have reached history."""
    expected = len(served.history.futures) + len(waits)
    arrived = asyncio.Event()

    def answer(_: Any) -> Any:
        if len(served.history.futures) == expected:
            arrived.set()
        return FakeHistory.PENDING

    served.history.answer = answer
    await call.write(pb.WaitResultsRequest(waits=waits, forget=forget))
    if waits:
        await arrived.wait()


async def test_answers_that_come_together_travel_in_one_message(served: Served) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, *[wait(n) for n in range(100)])

    for future in served.history.futures:
        future.set_result(closed())
    message = await call.read()

    assert [answer.wait_id for answer in message.results] == list(range(100))
    assert message.results[0].result.result == b"r"
    call.cancel()


async def test_answers_come_in_any_order_and_more_waits_may_follow(served: Served) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, wait(1), wait(2))
    served.history.futures[1].set_result(closed(b"second"))
    assert [answer.wait_id for answer in (await call.read()).results] == [2]
    await ask(served, call, wait(3))
    served.history.futures[2].set_exception(not_found("WORKFLOW", "no such run"))
    (answer,) = (await call.read()).results

    assert answer.wait_id == 3
    assert refusal_in(answer.error).code == Code.NOT_FOUND
    call.cancel()


async def test_a_bad_wait_is_answered_alone(served: Served) -> None:
    call = served.workflows.WaitResults()
    bad = [
        wait(1, workflow_id=""),
        wait(2, namespace="nowhere"),
        wait(3, run_id="x"),
        wait(4, namespace=""),
    ]
    await call.write(pb.WaitResultsRequest(waits=bad))
    answers: dict[int, Any] = {}
    while len(answers) < len(bad):
        for answer in (await call.read()).results:
            answers[answer.wait_id] = refusal_in(answer.error)

    assert {wait_id: (found.code, found.field) for wait_id, found in answers.items()} == {
        1: (Code.INVALID_ARGUMENT, "workflow_id"),
        2: (Code.NOT_FOUND, ""),
        3: (Code.INVALID_ARGUMENT, "run_id"),
        4: (Code.INVALID_ARGUMENT, "namespace"),
    }
    assert not served.room.touched
    await ask(served, call, wait(5))
    served.history.futures[0].set_result(closed())
    assert (await call.read()).results[0].wait_id == 5
    call.cancel()


async def test_a_wait_id_in_use_is_refused_and_the_first_wait_lives(served: Served) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, wait(1))
    await call.write(pb.WaitResultsRequest(waits=[wait(1)]))
    (answer,) = (await call.read()).results
    assert refusal_in(answer.error).field == "wait_id"
    served.history.futures[0].set_result(closed())

    assert (await call.read()).results[0].result.result == b"r"
    call.cancel()


async def test_forgotten_waits_are_cancelled_and_not_answered(served: Served) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, wait(1), wait(2))
    await ask(served, call, wait(3), forget=(1, 99))
    assert served.history.futures[0].cancelled()

    served.history.futures[1].set_result(closed())
    assert [answer.wait_id for answer in (await call.read()).results] == [2]
    call.cancel()


async def test_the_end_of_the_stream_cancels_its_waits(served: Served) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, wait(1))
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await served.history.futures[0]


async def test_a_client_that_has_asked_all_still_gets_its_answers_and_then_the_end(
    served: Served,
) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, wait(1), wait(2))
    await call.done_writing()
    for future in served.history.futures:
        future.set_result(closed())
    answers = [answer.wait_id async for message in call for answer in message.results]

    assert answers == [1, 2]
    assert (await call.code()).name == "OK"


async def test_a_client_that_asks_nothing_gets_the_end(served: Served) -> None:
    call = served.workflows.WaitResults()
    await call.done_writing()

    assert [message async for message in call] == []


async def test_large_answers_are_cut_into_messages(served: Served) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, *[wait(n) for n in range(5)])
    for future in served.history.futures:
        future.set_result(closed(bytes(limits.BATCH_MESSAGE_BYTES_MAX * 2 // 5)))
    messages = [await call.read() for _ in range(3)]

    assert [len(message.results) for message in messages] == [2, 2, 1]
    assert all(m.ByteSize() <= limits.BATCH_MESSAGE_BYTES_MAX for m in messages)
    call.cancel()


async def test_a_stopping_server_ends_the_stream_so_that_the_client_asks_another(
    served: Served,
) -> None:
    call = served.workflows.WaitResults()
    await ask(served, call, wait(1))
    stopping = asyncio.ensure_future(served.server.stop(10))

    assert (await refusal(call.read())).code == Code.UNAVAILABLE
    await stopping
    assert served.history.futures[0].cancelled()
