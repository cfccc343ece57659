"""CompleteTasks over real gRPC: what follows from completions comes with their answer."""

from typing import Any

import pytest
from tests.integration.transport.calls import WORKER_ID, complete, refusal
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import FakeHistory, task_token
from tests.unit.transport.test_handed import activity_task, workflow_task

from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_engine.core.errors import Code, not_found
from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.matching import PollAnswer


def done(served: Served) -> wpb.TaskCompletion:
    token = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))
    return wpb.TaskCompletion(token=token, activity_success=wpb.ActivitySuccess(result=b"r"))


def completion(served: Served, **changes: Any) -> wpb.CompleteTasksRequest:
    fields = {"task_queue": "orders", "max_workflow_tasks": 3, "max_activity_tasks": 2} | changes
    return complete(done(served), **fields)


async def test_the_answer_brings_what_follows_up_to_what_was_asked_for(served: Served) -> None:
    served.matching.to_take = [PollAnswer([workflow_task()], [activity_task()])]

    answer = await served.workers.CompleteTasks(completion(served))

    assert [task.workflow_id for task in answer.workflow_tasks] == ["order-1"]
    assert [task.activity_type for task in answer.activity_tasks] == ["charge"]
    (taker,) = served.matching.takers
    wanted = taker.request
    assert (wanted.queue, wanted.worker.worker_id) == ("orders", WORKER_ID)
    assert (wanted.max_workflow_tasks, wanted.max_activity_tasks) == (3, 2)
    assert served.history.undone == []


async def test_tasks_come_though_a_completion_was_too_late(served: Served) -> None:
    served.history.answer = lambda _: not_found("TASK", "the attempt is over")
    served.matching.to_take = [PollAnswer([workflow_task()], [])]

    answer = await served.workers.CompleteTasks(completion(served))

    assert [failure.index for failure in answer.failures] == [0]
    assert len(answer.workflow_tasks) == 1


async def test_who_asks_for_none_is_given_none_and_needs_no_queue(served: Served) -> None:
    answer = await served.workers.CompleteTasks(complete(done(served)))

    assert answer == wpb.CompleteTasksResponse()
    assert served.matching.takers == []
    assert len(served.history.completed) == 1


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("task_queue", {"task_queue": ""}),
        ("task_queue", {"task_queue": "q" * 1_001}),
        ("max_workflow_tasks", {"max_workflow_tasks": -1}),
        ("max_activity_tasks", {"max_activity_tasks": -1}),
    ],
)
async def test_a_wish_that_makes_no_sense_is_refused_before_anything_is_saved(
    served: Served, field: str, changes: dict[str, Any]
) -> None:
    refused = await refusal(served.workers.CompleteTasks(completion(served, **changes)))

    assert refused.code == Code.INVALID_ARGUMENT
    assert refused.field == field
    assert served.history.completed == []


async def test_inv17_a_call_that_breaks_before_its_completions_are_saved_takes_nothing(
    served: Served,
) -> None:
    """Invariant 17; and what its worker holds is judged sooner."""
    served.history.answer = lambda _: FakeHistory.PENDING
    served.matching.to_take = [PollAnswer([workflow_task()], [])]
    call = served.workers.CompleteTasks(completion(served))
    await served.history.completed_seen.wait()
    call.cancel()

    await served.history.broken_seen.wait()
    assert [taker.ended for taker in served.matching.takers] == ["left"]
    assert served.history.broken_polls == [WORKER_ID]
    assert served.history.undone == []


async def test_inv17_tasks_that_cannot_be_delivered_are_undone(served: Served) -> None:
    broken = workflow_task(run_id=None)
    served.matching.to_take = [PollAnswer([broken], [])]

    refused = await refusal(served.workers.CompleteTasks(completion(served)))

    assert refused.code == Code.INTERNAL
    assert served.history.undone == [broken]
