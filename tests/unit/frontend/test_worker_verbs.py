"""Polls, completions, heartbeats: checked, and undone when they must be."""

from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, WORKER_ID, Room, task_token

from perdure_engine.core import commands, limits
from perdure_engine.core.errors import Code, Rejected, invalid, not_found
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import (
    CancelActivity,
    CompleteActivity,
    CompleteWorkflowTask,
    FailActivity,
    FailWorkflowTask,
    WorkAhead,
)
from perdure_engine.core.replies import QueryAnswer, WentAhead
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken
from perdure_engine.frontend.handlers.complete_tasks import Completion, complete_tasks
from perdure_engine.frontend.handlers.describe_cluster import describe_cluster
from perdure_engine.frontend.handlers.describe_task_queue import describe_task_queue
from perdure_engine.frontend.handlers.goodbye import goodbye
from perdure_engine.frontend.handlers.heartbeat import heartbeat
from perdure_engine.frontend.handlers.poll_tasks import PollTasks, poll_tasks
from perdure_engine.ports.history import HeldTask, QueueFacts, QueueName, WorkerRef
from perdure_engine.ports.matching import PollAnswer, QueueInfo
from perdure_engine.ports.store import NO_NODE, NodeRow, ShardRow

WORKER = WorkerRef(WORKER_ID, "w@host", "build-1")
ACTIVITY = task_token(TaskKind.ACTIVITY)
FAILURE = Failure(FailureKind.APPLICATION, "no")
TOO_MUCH = bytes(limits.PAYLOAD_BYTES_MAX + 1)

GOOD_ACTIVITY = commands.ScheduleActivity(
    "1", "charge", "", b"", b"", 0, 0, 10_000, 0, RetryPolicy(), 3
)


def again(**changes: Any) -> commands.ContinueAsNew:
    plain = commands.ContinueAsNew("", "", b"", b"", b"", 0, 0, None)
    return msgspec.structs.replace(plain, **changes)


def poll(**changes: Any) -> PollTasks:
    fields: dict[str, Any] = {
        "namespace_id": NAMESPACE_ID,
        "task_queue": "orders",
        "worker": WORKER,
        "max_workflow_tasks": 5,
        "max_activity_tasks": 0,
        "timeout_ms": 0,
    }
    return PollTasks(**{**fields, **changes})


def done(*wanted: commands.Command) -> CompleteWorkflowTask:
    return CompleteWorkflowTask(task_token(), list(wanted), True, WORKER_ID, "w@host", "build-1")


async def test_b42_a_poll_is_clamped_to_the_limits() -> None:
    room = Room()
    room.matching.answers = [PollAnswer([], [])]

    await poll_tasks(room.frontend, poll(max_activity_tasks=10**6, timeout_ms=10**9))

    (asked,) = room.matching.polls
    assert (asked.max_workflow_tasks, asked.max_activity_tasks) == (5, limits.POLL_TASKS_MAX)
    assert asked.timeout_s == 60.0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task_queue": ""}, "task_queue"),
        ({"task_queue": "__internal"}, "task_queue"),
        ({"worker": WorkerRef(b"short", "", "")}, "worker_id"),
        ({"worker": WorkerRef(WORKER_ID, "\0", "")}, "identity"),
        ({"worker": WorkerRef(WORKER_ID, "", "x" * 501)}, "build_id"),
        ({"max_workflow_tasks": -1}, "max_workflow_tasks"),
        ({"max_activity_tasks": -1}, "max_activity_tasks"),
        ({"max_workflow_tasks": 0}, "max_workflow_tasks"),
        ({"timeout_ms": -1}, "timeout_ms"),
    ],
)
async def test_bad_polls_do_not_reach_matching(changes: dict[str, Any], field: str) -> None:
    room = Room()

    with pytest.raises(Rejected) as caught:
        await poll_tasks(room.frontend, poll(**changes))

    assert caught.value.field == field
    assert not room.touched


async def test_a_stopping_node_answers_polls_empty() -> None:
    room = Room()
    room.frontend.parking.close()

    assert await poll_tasks(room.frontend, poll()) is None


async def test_completions_are_submitted_together_and_only_failures_listed() -> None:
    room = Room()
    gone = not_found("TASK", "the attempt is over")
    room.history.answer = lambda i: gone if isinstance(i, CancelActivity) else None
    intents: list[Any] = [
        done(GOOD_ACTIVITY, commands.StartTimer("1", 0), commands.CancelTimer("1")),
        FailWorkflowTask(task_token(), WorkflowTaskFailedCause.DEADLOCK, None, ""),
        CompleteActivity(ACTIVITY, b"r", ""),
        CancelActivity(ACTIVITY, b"", ""),
        FailActivity(ACTIVITY, FAILURE, b"", ""),
    ]

    failures, _ = await complete_tasks(
        room.frontend, [Completion(intent, []) for intent in intents] + [invalid("token", "is bad")]
    )

    assert room.history.completed == intents
    assert [(index, type(error)) for index, error in failures] == [(5, Rejected), (3, Rejected)]
    assert failures[1][1] is gone


def with_ahead(*asked: Any, result: bytes = b"r") -> CompleteActivity:
    return CompleteActivity(ACTIVITY, result, "", WorkAhead(done(*asked), 3, False))


async def test_what_went_ahead_is_named_by_its_place() -> None:
    room = Room()
    room.history.answer = lambda i: WentAhead() if i.result == b"counts" else None
    said = [with_ahead(result=result) for result in (b"r", b"counts", b"r", b"counts")]

    settled = await complete_tasks(room.frontend, [Completion(one, []) for one in said])

    assert settled == ([], [1, 3])
    assert room.history.completed == said


@pytest.mark.parametrize("command", [commands.StartTimer("1", -1), again(input=TOO_MUCH)])
async def test_b27_a_bad_command_ahead_costs_only_what_is_ahead(command: Any) -> None:
    """The task of its own fails with the cause; nobody has to be told here."""
    room = Room()

    settled = await complete_tasks(room.frontend, [Completion(with_ahead(command), [])])

    assert settled == ([], [])
    assert room.history.completed == [CompleteActivity(ACTIVITY, b"r", "")]


@pytest.mark.parametrize(
    ("intent", "field"),
    [
        (with_ahead(result=TOO_MUCH), "activity_success.result"),
        (CompleteActivity(ACTIVITY, TOO_MUCH, ""), "activity_success.result"),
        (FailActivity(ACTIVITY, FAILURE, TOO_MUCH, ""), "activity_failure.heartbeat_details"),
        (CancelActivity(ACTIVITY, TOO_MUCH, ""), "activity_cancellation.details"),
    ],
)
async def test_b7_too_large_results_are_refused(intent: Any, field: str) -> None:
    room = Room()

    ((_, error),), _ = await complete_tasks(room.frontend, [Completion(intent, [])])

    assert isinstance(error, Rejected)
    assert error.field == field
    assert not room.touched


AT = "workflow_task_success.commands[1]."


@pytest.mark.parametrize(
    ("command", "field"),
    [
        ({"start_to_close_timeout_ms": 0}, "schedule_activity.start_to_close_timeout_ms"),
        ({"start_to_close_timeout_ms": -1}, "schedule_activity.start_to_close_timeout_ms"),
        ({"heartbeat_timeout_ms": 1 << 60}, "schedule_activity.heartbeat_timeout_ms"),
        ({"activity_type": "../x"}, "schedule_activity.activity_type"),
        ({"activity_id": ""}, "schedule_activity.activity_id"),
        ({"task_queue": "__q"}, "schedule_activity.task_queue"),
        ({"input": TOO_MUCH}, "schedule_activity.input"),
        ({"priority": 9}, "schedule_activity.priority"),
        (
            {"retry_policy": RetryPolicy(backoff_coefficient=0.1)},
            "schedule_activity.retry_policy.backoff_coefficient",
        ),
        (commands.StartTimer("1", -1), "start_timer.start_to_fire_ms"),
        (commands.StartTimer("", 1), "start_timer.timer_id"),
        (commands.CancelTimer("\0"), "cancel_timer.timer_id"),
        (commands.CompleteWorkflow(TOO_MUCH), "complete_workflow.result"),
        (commands.CancelWorkflow(TOO_MUCH), "cancel_workflow.details"),
        (commands.RequestCancelActivity(0), "request_cancel_activity.scheduled_event_id"),
        (again(workflow_type="../x"), "continue_as_new.workflow_type"),
        (again(task_queue="__q"), "continue_as_new.task_queue"),
        (again(input=TOO_MUCH), "continue_as_new.input"),
        (again(header=TOO_MUCH), "continue_as_new.header"),
        (again(memo=TOO_MUCH), "continue_as_new.memo"),
        (again(run_timeout_ms=-1), "continue_as_new.run_timeout_ms"),
        (again(task_timeout_ms=120_001), "continue_as_new.task_timeout_ms"),
        (
            again(retry_policy=RetryPolicy(maximum_attempts=-1)),
            "continue_as_new.retry_policy.maximum_attempts",
        ),
    ],
)
async def test_b25_b26_b27_b48_a_bad_command_fails_its_task_with_the_cause(
    command: Any, field: str
) -> None:
    """The worker is told, and the run does not wait for the task's timeout again and again."""
    room = Room()
    if isinstance(command, dict):
        command = msgspec.structs.replace(GOOD_ACTIVITY, **command)

    ((index, error),), _ = await complete_tasks(
        room.frontend, [Completion(done(commands.StartTimer("1", 5), command), [])]
    )

    assert isinstance(error, Rejected)
    assert (index, error.code, error.field) == (0, Code.INVALID_ARGUMENT, AT + field)
    (sent,) = room.history.completed
    assert isinstance(sent, FailWorkflowTask)
    assert (sent.token, sent.cause) == (task_token(), WorkflowTaskFailedCause.BAD_COMMAND)
    assert sent.failure is not None
    assert field in sent.failure.message


async def test_queries_are_answered_after_what_they_came_with_was_taken() -> None:
    room = Room()
    gone = not_found("TASK", "the attempt is over")
    room.history.answer = lambda i: gone if isinstance(i, FailWorkflowTask) else None
    answer = QueryAnswer(b"r", None)
    tokens = [QueryToken(2, RUN_ID, number) for number in range(4)]
    failed = FailWorkflowTask(task_token(), WorkflowTaskFailedCause.DEADLOCK, None, "")
    large = QueryAnswer(TOO_MUCH, None)

    failures, _ = await complete_tasks(
        room.frontend,
        [
            Completion(done(), [(tokens[0], answer)]),
            Completion(failed, [(tokens[1], answer)]),
            Completion(None, [(tokens[2], answer)]),
            Completion(None, [(tokens[3], large)]),
        ],
    )

    assert room.history.query_answers == [(tokens[0], answer), (tokens[2], answer)]
    assert sorted(index for index, _ in failures) == [1, 3]


def test_a_heartbeat_renews_and_tells() -> None:
    room = Room()
    held = [HeldTask(ACTIVITY, None), HeldTask(ACTIVITY, b"progress")]

    assert heartbeat(room.frontend, WORKER, held) == [None, None]
    assert room.history.beats == [(WORKER, held)]
    with pytest.raises(Rejected) as caught:
        heartbeat(room.frontend, WORKER, [HeldTask(ACTIVITY, TOO_MUCH)])
    assert caught.value.field == "held[0].heartbeat_details"
    assert len(room.history.beats) == 1


def test_goodbye_reaches_history() -> None:
    room = Room()

    goodbye(room.frontend, WORKER, [ACTIVITY])

    assert room.history.byes == [(WORKER, [ACTIVITY])]


async def test_a_cluster_is_described_as_the_store_has_it() -> None:
    room = Room()
    here, gone = b"n" * 16, b"g" * 16
    room.store.nodes = [NodeRow(here, "here:1", "eu", "all", 1, 9, True)]
    room.store.shards = [
        ShardRow(2, here, "here:1", 0),
        ShardRow(1, here, "here:1", 0),
        ShardRow(3, NO_NODE, "", 0),
        ShardRow(4, gone, "gone:1", 0),
    ]

    cluster = await describe_cluster(room.frontend)

    assert (cluster.node_id, cluster.number_of_shards) == (here, 4)
    assert [entry.shards for entry in cluster.nodes] == [[1, 2]]


def test_a_queue_is_described_with_the_age_of_its_oldest_task() -> None:
    room = Room()
    room.matching.info = QueueInfo(3, 500_000, 2)
    name = QueueName(NAMESPACE_ID, "orders", TaskKind.JOB)
    room.history.queues[name] = QueueFacts(30_000, 500_000, 12.5, 10.0)

    info = describe_task_queue(room.frontend, NAMESPACE_ID, "orders")

    assert info.job.backlog_age_ms == 1_500
    assert (info.job.backlog_count, info.job.add_rate, info.job.dispatch_rate) == (
        (30_000, 12.5, 10.0)
    )
    assert (info.activity.backlog_count, info.activity.pollers) == (0, 2)
    assert describe_task_queue(room.frontend, NAMESPACE_ID, "o").workflow.backlog_age_ms == 0
