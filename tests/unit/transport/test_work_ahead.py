"""What a worker has done ahead, as the wire brings it with a result."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, Room, task_token

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core import commands as cmd
from perdure_engine.core.intents import CompleteActivity
from perdure_engine.core.jobs.intents import JobCompleted
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import Behavior
from perdure_engine.ports.history import WorkerRef
from perdure_engine.transport.grpc.convert.completions import completion_of

WORKER = WorkerRef(b"w" * 16, "w@host", "7", "shop", "shop.7")
TIMER = pb.Command(start_timer=pb.StartTimer(timer_id="t", start_to_fire_ms=5))


def read(kind: TaskKind, success: pb.WorkflowTaskSuccess, **ahead: Any) -> Any:
    room = Room()
    message = pb.TaskCompletion(
        token=room.sealer.seal_task(task_token(kind)),
        activity_success=pb.ActivitySuccess(
            result=b"r", ahead=pb.WorkflowTaskAhead(success=success, **ahead)
        ),
    )
    return completion_of(message, room.sealer, NAMESPACE_ID, WORKER)


def test_the_task_is_of_the_activity_s_run_and_of_the_worker_that_says_so() -> None:
    success = pb.WorkflowTaskSuccess(commands=[TIMER], cached=True, versioning_behavior=1)
    intent = read(
        TaskKind.ACTIVITY,
        success,
        started_event_id=9,
        started_time_us=77,
        previous_started_event_id=3,
        suggest_continue_as_new=True,
    ).intent

    assert isinstance(intent, CompleteActivity)
    token = task_token(TaskKind.ACTIVITY)
    assert (intent.token, intent.result) == (token, b"r")
    assert intent.ahead is not None
    assert (intent.ahead.previous_started_id, intent.ahead.suggests_continue_as_new) == (3, True)
    done = intent.ahead.completion
    assert done.token == TaskToken(
        token.shard_id, token.namespace_id, token.run_id, TaskKind.WORKFLOW, 8, 1, 0, 77, 0, 9
    )
    assert done.commands == [cmd.StartTimer("t", 5)]
    assert (done.worker_id, done.build_id, done.deployment_name) == (WORKER.worker_id, "7", "shop")
    assert (done.behavior, done.cached) == (Behavior.PINNED, True)


@pytest.mark.parametrize(
    "success",
    [
        pb.WorkflowTaskSuccess(commands=[TIMER, pb.Command()], versioning_behavior=1),
        pb.WorkflowTaskSuccess(commands=[TIMER], versioning_behavior=99),
    ],
)
def test_b27_what_cannot_be_read_is_left_and_the_result_is_not(
    success: pb.WorkflowTaskSuccess,
) -> None:
    intent = read(TaskKind.ACTIVITY, success, started_event_id=9).intent

    assert intent == CompleteActivity(task_token(TaskKind.ACTIVITY), b"r", "w@host")


def test_nothing_follows_from_a_job() -> None:
    success = pb.WorkflowTaskSuccess(commands=[TIMER])

    assert read(TaskKind.JOB, success) == JobCompleted(task_token(TaskKind.JOB), b"r")
