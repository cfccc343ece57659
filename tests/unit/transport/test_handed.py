"""Tasks to a worker: every field, and never more than a message holds."""

from typing import Any

import msgspec
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, Room, task_token

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.events import (
    ActivityTaskScheduled,
    Event,
    WorkflowExecutionSignaled,
    WorkflowTaskScheduled,
    WorkflowTaskStarted,
)
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.get_task_history import get_task_history
from perdure_engine.ports.history import HandedActivityTask, HandedQuery, HandedWorkflowTask
from perdure_engine.ports.matching import PollAnswer
from perdure_engine.transport.grpc.convert.handed import tasks_fields


def poll_response(frontend: Frontend, answer: PollAnswer) -> pb.PollTasksResponse:
    return pb.PollTasksResponse(**tasks_fields(frontend, answer))


SCHEDULED = WorkflowTaskScheduled(2, 10, "orders", 10_000, 1)
STARTED = WorkflowTaskStarted(3, 11, 2, "w@host", 300, False)


def signaled(event_id: int, size: int = 10) -> Event:
    return WorkflowExecutionSignaled(event_id, 9, "s", bytes(size), "", b"", RUN_ID, b"h" * 8)


def workflow_task(**changes: Any) -> HandedWorkflowTask:
    task = HandedWorkflowTask(
        task_token(),
        2,
        NAMESPACE_ID,
        "order-1",
        RUN_ID,
        "Order",
        1,
        0,
        3,
        [signaled(1), SCHEDULED, STARTED],
        0,
        [STARTED],
        [],
        10_000,
        300,
        True,
    )
    return msgspec.structs.replace(task, **changes)


def activity_task(size: int = 10) -> HandedActivityTask:
    scheduled = ActivityTaskScheduled(
        5, 100, "a1", "charge", "pay", bytes(size), b"h", 1, 2, 3, 4, 4, RetryPolicy(7), 2
    )
    token = task_token(TaskKind.ACTIVITY)
    return HandedActivityTask(
        token, NAMESPACE_ID, "order-1", RUN_ID, "Order", scheduled, 6, 200, b"progress"
    )


def ids(events: Any) -> list[int]:
    return [event.event_id for event in events]


def test_a_workflow_task_comes_whole() -> None:
    room = Room()
    query = HandedQuery(QueryToken(2, RUN_ID, 9), "status", b"args", b"head")

    response = poll_response(room.frontend, PollAnswer([workflow_task(queries=[query])], []))

    (task,) = response.workflow_tasks
    assert room.sealer.open_task("token", task.token, NAMESPACE_ID) == task_token()
    assert (task.workflow_id, task.run_id, task.workflow_type) == (
        "order-1",
        uuid_text(RUN_ID),
        "Order",
    )
    assert (task.attempt, task.previous_started_event_id, task.started_event_id) == (1, 0, 3)
    assert (task.task_timeout_ms, task.history_size_bytes) == (10_000, 300)
    assert task.suggest_continue_as_new
    assert not task.query_only
    assert ids(task.events) == [1, 2, 3]
    assert task.next_page_token == b""
    (asked,) = task.queries
    assert (asked.query_type, asked.args, asked.header) == ("status", b"args", b"head")
    opened = room.sealer.open_query("token", asked.query_token, NAMESPACE_ID)
    assert opened == query.token


def test_a_task_that_only_carries_queries_has_no_token() -> None:
    room = Room()
    (task,) = poll_response(
        room.frontend, PollAnswer([workflow_task(token=None, tail=[])], [])
    ).workflow_tasks

    assert task.token == b""
    assert task.query_only


def test_an_activity_task_comes_whole() -> None:
    room = Room()
    (task,) = poll_response(room.frontend, PollAnswer([], [activity_task()])).activity_tasks

    token = room.sealer.open_task("token", task.token, NAMESPACE_ID)
    assert token == task_token(TaskKind.ACTIVITY)
    assert (task.activity_id, task.activity_type, task.input, task.header) == (
        "a1",
        "charge",
        bytes(10),
        b"h",
    )
    assert (task.attempt, task.scheduled_time_us, task.started_time_us) == (6, 100, 200)
    assert task.schedule_to_close_timeout_ms == 1
    assert task.start_to_close_timeout_ms == 3
    assert task.heartbeat_timeout_ms == 4
    assert (task.heartbeat_details, task.priority) == (b"progress", 2)
    assert task.retry_policy.initial_interval_ms == 7
    assert task.idempotency_key == f"{uuid_text(RUN_ID)}:5"


def test_an_activity_that_was_pending_at_a_reset_keeps_the_key_of_the_run_before() -> None:
    room = Room()
    before = bytes(range(16))
    handed = msgspec.structs.replace(activity_task(), key_run_id=before)
    (task,) = poll_response(room.frontend, PollAnswer([], [handed])).activity_tasks

    assert (task.run_id, task.idempotency_key) == (uuid_text(RUN_ID), f"{uuid_text(before)}:5")


async def test_historys_own_pages_go_on_with_what_is_saved_and_end_with_what_is_not() -> None:
    room = Room()
    events = [signaled(1), signaled(2)]
    handed = workflow_task(
        events=events,
        next_event_id=3,
        started_event_id=6,
        tail=[msgspec.structs.replace(STARTED, event_id=6)],
    )

    (task,) = poll_response(room.frontend, PollAnswer([handed], [])).workflow_tasks
    room.history.task_pages = [([signaled(3), signaled(4), signaled(5)], 0)]
    rest = await get_task_history(room.frontend, NAMESPACE_ID, task.next_page_token)

    assert ids(task.events) == [1, 2]
    assert ids(rest.events) == [3, 4, 5, 6]
    assert room.history.reads[0][:4] == (2, RUN_ID, 3, 5)


async def test_a_history_that_does_not_fit_comes_in_pages() -> None:
    room = Room()
    size = 300 * 1024
    handed = workflow_task(
        events=[signaled(n, size) for n in range(1, 11)]
        + [msgspec.structs.replace(STARTED, event_id=11)],
        tail=[],
        started_event_id=11,
        history_bytes=10 * size,
    )

    response = poll_response(room.frontend, PollAnswer([handed], []))

    (task,) = response.workflow_tasks
    assert response.ByteSize() <= limits.BATCH_MESSAGE_BYTES_MAX
    assert ids(task.events) == [1, 2, 3, 4, 5, 6]
    room.history.task_pages = [([signaled(n) for n in range(7, 11)], 0)]
    rest = await get_task_history(room.frontend, NAMESPACE_ID, task.next_page_token)
    assert ids(rest.events) == [7, 8, 9, 10, 11]
    assert room.history.reads[0][:4] == (2, RUN_ID, 7, 10)


def test_a_first_page_that_is_small_is_sent_whatever_the_whole_history_weighs() -> None:
    room = Room()
    handed = workflow_task(history_bytes=50 * 1024 * 1024)

    (task,) = poll_response(room.frontend, PollAnswer([handed], [])).workflow_tasks

    assert ids(task.events) == [1, 2, 3]
    assert task.next_page_token == b""


def test_many_tasks_that_do_not_fit_are_given_back() -> None:
    room = Room()
    tasks = [activity_task(limits.PAYLOAD_BYTES_MAX // 2) for _ in range(5)]
    workflow_tasks = [workflow_task()]
    answer = PollAnswer(list(workflow_tasks), list(tasks))

    response = poll_response(room.frontend, answer)

    assert len(response.activity_tasks) == 1
    assert len(response.workflow_tasks) == 1
    assert room.history.undone == tasks[1:]
    assert (answer.activity_tasks, answer.workflow_tasks) == (tasks[:1], workflow_tasks)


def test_the_first_task_always_goes() -> None:
    room = Room()
    task = activity_task(limits.PAYLOAD_BYTES_MAX)
    answer = PollAnswer([workflow_task()], [task])

    response = poll_response(room.frontend, answer)

    assert len(response.activity_tasks) == 1
    assert response.ByteSize() <= 2 * limits.REQUEST_BYTES_MAX
    assert room.history.undone == [workflow_task()]
    assert answer.workflow_tasks == []
