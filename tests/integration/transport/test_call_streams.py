"""Work and Calls: many calls on one stream, each served as if it had come alone."""

import asyncio
from typing import Any

import grpc
import msgspec
import pytest
from tests.integration.transport.calls import WORKER_ID, complete, poll, refusal, refusal_in, start
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import FakeHistory, task_token
from tests.unit.transport.test_handed import activity_task, workflow_task

from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.errors import Code, not_found
from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.matching import PollAnswer, PollRequest
from perdure_engine.transport.grpc import call_stream, message_stream


async def send(call: Any, *calls: wpb.WorkCall, forget: tuple[int, ...] = ()) -> None:
    await call.write(wpb.WorkRequest(calls=calls, forget=forget))


async def answer(call: Any) -> wpb.WorkAnswer:
    """The next one; each travels in a message of its own."""
    message: wpb.WorkResponse = await call.read()
    (found,) = message.answers
    return found


def polling(call_no: int, **changes: Any) -> wpb.WorkCall:
    return wpb.WorkCall(call_no=call_no, poll_tasks=poll(**changes))


def completing(served: Served, call_no: int, **changes: Any) -> wpb.WorkCall:
    token = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))
    done = wpb.TaskCompletion(token=token, activity_success=wpb.ActivitySuccess(result=b"r"))
    return wpb.WorkCall(call_no=call_no, complete_tasks=complete(done, **changes))


async def test_calls_are_answered_by_their_number_when_each_is_done(served: Served) -> None:
    served.matching.to_take = [PollAnswer([], [activity_task()])]
    call = served.workers.Work()
    wanted = {"task_queue": "orders", "max_activity_tasks": 2}

    await send(call, polling(1), completing(served, 2, **wanted))
    completed = await answer(call)
    served.matching.answers = [PollAnswer([workflow_task()], [])]
    await send(call, polling(3))
    polled = await answer(call)

    assert completed.call_no == 2
    assert [task.activity_type for task in completed.complete_tasks.activity_tasks] == ["charge"]
    assert polled.call_no == 3
    assert [task.workflow_id for task in polled.poll_tasks.workflow_tasks] == ["order-1"]
    assert served.history.undone == []
    assert served.metrics.requests.values["CompleteTasks", "OK"] == 1
    call.cancel()


async def test_a_call_that_is_refused_disturbs_no_other(served: Served) -> None:
    served.history.answer = lambda _: not_found("TASK", "the attempt is over")
    call = served.workers.Work()

    await send(call, polling(1, task_queue=""), wpb.WorkCall(call_no=2), completing(served, 3))
    answers = {found.call_no: found for found in [await answer(call) for _ in range(3)]}

    refused = refusal_in(answers[1].error)
    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "task_queue")
    assert refusal_in(answers[2].error).field == "call"
    assert not answers[3].error
    assert [failure.index for failure in answers[3].complete_tasks.failures] == [0]
    call.cancel()


async def test_a_client_has_its_batches_answered_on_a_stream(served: Served) -> None:
    call = served.workflows.Calls()
    batch = pb.BatchCallRequest(calls=[pb.Call(start_workflow=start())])
    await call.write(
        pb.CallsRequest(
            calls=[
                pb.NumberedCall(call_no=7, batch_call=batch),
                pb.NumberedCall(call_no=8, batch_call=batch),
            ]
        )
    )
    answers = [(await call.read()).answers[0] for _ in range(2)]

    assert [found.call_no for found in answers] == [7, 8]
    assert all(found.batch_call.results[0].start_workflow.started for found in answers)
    call.cancel()


async def test_inv17_a_poll_that_is_forgotten_has_taken_nothing(served: Served) -> None:
    call = served.workers.Work()
    await send(call, polling(1))
    await served.matching.parked.wait()
    await send(call, forget=(1, 99))

    await served.history.broken_seen.wait()
    assert served.matching.cancelled.is_set()
    assert served.history.undone == []
    await send(call, completing(served, 2))
    assert (await answer(call)).call_no == 2
    call.cancel()


async def test_inv17_calls_of_a_stream_that_breaks_have_taken_nothing(served: Served) -> None:
    """And what their worker holds is judged sooner."""
    served.history.answer = lambda _: FakeHistory.PENDING
    served.matching.to_take = [PollAnswer([workflow_task()], [])]
    call = served.workers.Work()
    wanted = {"task_queue": "orders", "max_workflow_tasks": 2}
    await send(call, polling(1), completing(served, 2, **wanted))
    await served.matching.parked.wait()
    await served.history.completed_seen.wait()
    call.cancel()

    while len(served.history.broken_polls) < 3:  # of both calls, and of the stream
        served.history.broken_seen.clear()
        await served.history.broken_seen.wait()
    assert served.history.broken_polls == [WORKER_ID] * 3
    assert [taker.ended for taker in served.matching.takers] == ["left"]
    assert served.history.undone == []
    assert len(served.room.frontend.parking) == 0


async def test_the_worker_of_a_stream_that_breaks_is_suspected_though_it_had_no_call_under_way(
    served: Served,
) -> None:
    call = served.workers.Work()
    await send(call, completing(served, 1))
    assert (await answer(call)).call_no == 1
    call.cancel()

    await served.history.broken_seen.wait()
    assert served.history.broken_polls == [WORKER_ID]


async def test_inv17_tasks_of_an_answer_that_cannot_leave_are_undone(served: Served) -> None:
    """The caller reads nothing, so the answer waits half sent; then the stream breaks."""
    scheduled = msgspec.structs.replace(activity_task().scheduled, input=bytes(1_500_000))
    large = msgspec.structs.replace(activity_task(), scheduled=scheduled)
    call = served.workers.Work()
    served.matching.answers = [PollAnswer([], [large]) for _ in range(8)]
    await send(call, *[polling(number, max_activity_tasks=1) for number in range(1, 10)])
    await served.matching.parked.wait()  # the last of them: the others have their answers
    call.cancel()

    await served.history.undo_seen.wait()
    assert large in served.history.undone


async def test_inv17_an_answer_that_is_leaving_is_not_interrupted_when_its_call_is_forgotten(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC cannot take back a write: the next one would meet it, and the stream would break. Those behind it go."""
    leaves, may_leave = asyncio.Event(), asyncio.Event()
    write = message_stream.MessageStream.write

    async def held(stream: message_stream.MessageStream, message: Any) -> None:
        leaves.set()
        await may_leave.wait()
        await write(stream, message)

    monkeypatch.setattr(message_stream.MessageStream, "write", held)
    waits_its_turn = activity_task()
    served.matching.answers = [PollAnswer([], [waits_its_turn])]
    call = served.workers.Work()
    await send(call, completing(served, 1))
    await leaves.wait()
    await send(call, polling(2), polling(3))
    await served.matching.parked.wait()
    await send(call, completing(served, 4), forget=(1, 2, 3))
    await served.history.undo_seen.wait()
    may_leave.set()

    async with asyncio.timeout(30):
        assert [(await answer(call)).call_no for _ in range(2)] == [1, 4]
    assert served.history.undone == [waits_its_turn]
    call.cancel()


async def test_a_stream_whose_answer_cannot_be_written_is_ended_for_its_caller(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that is not told would wait for the rest of its calls."""

    async def fails(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(message_stream.MessageStream, "write", fails)
    call = served.workers.Work()
    await send(call, completing(served, 1), polling(2))

    async with asyncio.timeout(30):
        assert (await refusal(call.read())).reason == "STREAM_BROKEN"


async def test_inv17_tasks_that_come_as_the_stream_breaks_are_undone(served: Served) -> None:
    """The cancellation meets an answer that is already there: matching may hand both out."""
    task = workflow_task()
    parked = asyncio.Event()

    async def answers_at_the_last_moment(_: PollRequest) -> PollAnswer:
        parked.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return PollAnswer([task], [])
        raise AssertionError("nothing sets that future")

    served.matching.poll = answers_at_the_last_moment  # type: ignore[assignment,method-assign]  # for this test
    call = served.workers.Work()
    await send(call, polling(1))
    await parked.wait()
    call.cancel()

    await served.history.undo_seen.wait()
    assert served.history.undone == [task]


async def test_a_caller_that_has_asked_all_still_gets_its_answers_and_then_the_end(
    served: Served,
) -> None:
    served.history.answer = lambda _: FakeHistory.PENDING
    call = served.workers.Work()
    await send(call, completing(served, 1), completing(served, 2))
    await call.done_writing()
    while len(served.history.futures) < 2:
        served.history.completed_seen.clear()
        await served.history.completed_seen.wait()
    for future in served.history.futures:
        future.set_result(None)
    answers = [found.call_no async for message in call for found in message.answers]

    assert answers == [1, 2]
    assert (await call.code()).name == "OK"


async def test_bug_report_61_streams_that_are_forgotten_are_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their channel lives, and gRPC says nothing. Whose worker is busy is not taken for dead."""
    monkeypatch.setattr(
        call_stream, "IDLE_S", 0.3
    )  # time enough for the one call of each, on a busy machine too
    silent = [served.workflows.Calls() for _ in range(20)]
    forgotten = []
    served.history.answer = lambda _: None
    for _ in range(20):
        call = served.workers.Work()
        await send(call, completing(served, 1))
        assert (await answer(call)).call_no == 1
        forgotten.append(call)

    for call in (*forgotten, *silent):
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
    assert served.history.broken_polls == []


async def test_a_stream_that_waits_for_an_answer_is_not_idle(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = asyncio.Semaphore(0)
    look = call_stream.CallStream._look

    def counted(stream: call_stream.CallStream) -> None:
        look(stream)
        looks.release()

    monkeypatch.setattr(call_stream, "IDLE_S", 0.01)
    monkeypatch.setattr(call_stream.CallStream, "_look", counted)
    served.history.answer = lambda _: FakeHistory.PENDING
    call = served.workers.Work()
    await send(call, completing(served, 1))
    await served.history.completed_seen.wait()
    for _ in range(4):
        await looks.acquire()
    served.history.futures[0].set_result(None)

    assert (await answer(call)).call_no == 1
    assert await call.read() is grpc.aio.EOF


async def test_a_number_that_is_in_use_ends_the_stream(served: Served) -> None:
    call = served.workers.Work()
    await send(call, polling(1), polling(1))

    refused = await refusal(call.read())
    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "call_no")


async def test_too_many_calls_on_one_stream_are_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_stream, "CALLS_MAX", 2)
    call = served.workers.Work()
    await send(call, polling(1), polling(2), polling(3))
    found = await answer(call)

    assert found.call_no == 3
    assert refusal_in(found.error).reason == "TOO_MANY_CALLS"
    call.cancel()


@pytest.mark.parametrize("method", ["WorkerService/Work", "WorkflowService/Calls"])
async def test_b1_bytes_that_are_no_message_end_the_stream(served: Served, method: str) -> None:
    call: Any = served.channel.stream_stream(f"/perdure_api.v1.{method}")()
    await call.write(b"\x0a\xff\xff\xff\xff\x0f")

    refused = await refusal(call.read())
    assert (refused.code, refused.reason) == (Code.INVALID_ARGUMENT, "UNDECODABLE_MESSAGE")


async def test_a_stopping_server_answers_what_waits_and_ends_the_stream(served: Served) -> None:
    call = served.workers.Work()
    await send(call, polling(1))
    await served.matching.parked.wait()
    stopping = asyncio.ensure_future(served.server.stop(10))

    found = await answer(call)
    assert (found.call_no, found.poll_tasks) == (1, wpb.PollTasksResponse())
    assert (await refusal(call.read())).code == Code.UNAVAILABLE
    await stopping
    assert served.history.broken_polls == []
    assert call.done()
    assert await call.code() is grpc.StatusCode.UNAVAILABLE
