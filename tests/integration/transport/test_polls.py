"""Polls: delivered, empty, or undone; never lost."""

import asyncio
from typing import Any

from tests.integration.transport.calls import WORKER_ID, complete, poll, refusal
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, task_token
from tests.unit.transport.test_handed import STARTED, activity_task, workflow_task

from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_engine.core.errors import Code
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken
from perdure_engine.frontend.handlers.get_task_history import Rest, seal_rest
from perdure_engine.ports.matching import PollAnswer, PollRequest


async def test_a_poll_brings_tasks_that_can_be_completed(served: Served) -> None:
    served.matching.answers = [PollAnswer([workflow_task()], [activity_task()])]

    tasks = await served.workers.PollTasks(poll(max_activity_tasks=5))
    done = await served.workers.CompleteTasks(
        complete(
            wpb.TaskCompletion(
                token=tasks.workflow_tasks[0].token,
                workflow_task_success=wpb.WorkflowTaskSuccess(cached=True),
            ),
            wpb.TaskCompletion(
                token=tasks.activity_tasks[0].token,
                activity_success=wpb.ActivitySuccess(result=b"r"),
            ),
            identity="w@host",
            build_id="b1",
        )
    )

    assert not done.failures
    first, second = served.history.completed
    assert (first.token, second.token) == (task_token(), task_token(TaskKind.ACTIVITY))
    assert (first.worker_id, first.identity, first.build_id, first.cached) == (  # type: ignore[union-attr]  # a success
        WORKER_ID,
        "w@host",
        "b1",
        True,
    )
    assert served.history.undone == []


async def test_every_outcome_reaches_history(served: Served) -> None:
    seal = served.room.sealer.seal_task
    workflow, activity = seal(task_token()), seal(task_token(TaskKind.ACTIVITY))
    failure: Any = {"message": "no", "application": {"type": "E"}}
    asked = served.room.sealer.seal_query(QueryToken(2, RUN_ID, 9), NAMESPACE_ID)

    done = await served.workers.CompleteTasks(
        complete(
            wpb.TaskCompletion(
                token=workflow,
                workflow_task_success=wpb.WorkflowTaskSuccess(
                    commands=[
                        wpb.Command(
                            schedule_activity=wpb.ScheduleActivity(
                                activity_id="1", activity_type="a", start_to_close_timeout_ms=1
                            )
                        ),
                        wpb.Command(
                            request_cancel_activity=wpb.RequestCancelActivity(scheduled_event_id=5)
                        ),
                        wpb.Command(start_timer=wpb.StartTimer(timer_id="1")),
                        wpb.Command(cancel_timer=wpb.CancelTimer(timer_id="1")),
                        wpb.Command(complete_workflow=wpb.CompleteWorkflow(result=b"r")),
                        wpb.Command(fail_workflow=wpb.FailWorkflow(failure=failure)),
                        wpb.Command(cancel_workflow=wpb.CancelWorkflow(details=b"d")),
                    ]
                ),
            ),
            wpb.TaskCompletion(
                token=workflow,
                workflow_task_failure=wpb.WorkflowTaskFailure(cause=3, failure=failure),  # type: ignore[arg-type]  # its number
            ),
            wpb.TaskCompletion(
                token=activity,
                activity_failure=wpb.ActivityFailure(failure=failure, heartbeat_details=b"p"),
            ),
            wpb.TaskCompletion(
                token=activity, activity_cancellation=wpb.ActivityCancellation(details=b"d")
            ),
            wpb.TaskCompletion(query_results=[wpb.QueryResult(query_token=asked, failure=failure)]),
        )
    )

    assert not done.failures
    assert [type(intent).__name__ for intent in served.history.completed] == [
        "CompleteWorkflowTask",
        "FailWorkflowTask",
        "FailActivity",
        "CancelActivity",
    ]
    assert [type(c).__name__ for c in served.history.completed[0].commands] == [  # type: ignore[union-attr]  # a success
        "ScheduleActivity",
        "RequestCancelActivity",
        "StartTimer",
        "CancelTimer",
        "CompleteWorkflow",
        "FailWorkflow",
        "CancelWorkflow",
    ]
    ((token, answer),) = served.history.query_answers
    assert token == QueryToken(2, RUN_ID, 9)
    assert answer.failure is not None


async def test_inv17_a_poll_that_is_cancelled_while_it_waits_has_taken_nothing(
    served: Served,
) -> None:
    call = served.workers.PollTasks(poll())
    await served.matching.parked.wait()
    call.cancel()

    await served.history.broken_seen.wait()
    assert served.matching.cancelled.is_set()
    assert served.history.broken_polls == [WORKER_ID]
    assert len(served.room.frontend.parking) == 0
    assert served.history.undone == []


async def test_inv17_tasks_of_a_poll_that_was_cancelled_after_it_took_them_are_undone(
    served: Served,
) -> None:
    """The cancellation meets an answer that is already there: matching may hand both out."""
    task, activity = workflow_task(), activity_task()
    parked = asyncio.Event()

    async def answers_at_the_last_moment(_: PollRequest) -> PollAnswer:
        parked.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return PollAnswer([task], [activity])
        raise AssertionError("nothing sets that future")

    served.matching.poll = answers_at_the_last_moment  # type: ignore[assignment,method-assign]  # for this test
    call = served.workers.PollTasks(poll())
    await parked.wait()
    call.cancel()

    await served.history.undo_seen.wait()
    assert served.history.undone == [task, activity]


async def test_tasks_that_cannot_be_converted_are_undone(served: Served) -> None:
    broken = workflow_task(run_id=None)
    served.matching.answers = [PollAnswer([broken], [])]

    assert (await refusal(served.workers.PollTasks(poll()))).code == Code.INTERNAL
    assert served.history.undone == [broken]


async def test_a_stopping_server_answers_parked_polls_empty(served: Served) -> None:
    calls = [served.workers.PollTasks(poll()) for _ in range(3)]
    while len(served.matching.polls) < 3:
        served.matching.parked.clear()
        await served.matching.parked.wait()

    await served.server.stop(10)

    for call in calls:
        assert await call == wpb.PollTasksResponse()
    assert served.history.broken_polls == []
    await served.server.stop(10)


async def test_the_rest_of_a_history(served: Served) -> None:
    token = seal_rest(served.room.frontend, NAMESPACE_ID, Rest(2, RUN_ID, 4, 3, [STARTED]))

    page = await served.workers.GetTaskHistory(
        wpb.GetTaskHistoryRequest(namespace="default", page_token=token)
    )

    assert [event.event_id for event in page.events] == [3]
    assert page.next_page_token == b""


async def test_heartbeat_and_goodbye(served: Served) -> None:
    token = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))
    held = [
        wpb.HeldTask(token=token),
        wpb.HeldTask(token=token, heartbeat_details=b"", has_details=True),
    ]
    await served.workers.Heartbeat(
        wpb.HeartbeatRequest(namespace="default", worker_id=WORKER_ID, identity="w@host", held=held)
    )
    await served.workers.Goodbye(
        wpb.GoodbyeRequest(namespace="default", worker_id=WORKER_ID, released_tokens=[token])
    )

    ((worker, beaten),) = served.history.beats
    assert (worker.worker_id, worker.identity) == (WORKER_ID, "w@host")
    assert [task.details for task in beaten] == [None, b""]
    assert served.history.byes[0][1] == [task_token(TaskKind.ACTIVITY)]
