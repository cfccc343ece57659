"""Workers that die with tasks in hand, on an engine with PostgreSQL: by leases that end, and by what workers say."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import grpc
import msgspec
import psycopg
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.server.calls import CALL_S
from tests.integration.server.poisoned import REPORT

from perdure.client import Client, RPCError, RPCStatusCode, WaitKind, WorkflowHandle
from perdure.common import WorkflowStatus
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.worker_service_pb2_grpc import WorkerServiceStub
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.tasks import TaskState, TimerKind
from perdure_engine.ports.rows import TaskRow
from perdure_engine.store.codec import MsgpackCodec

QUEUE = "fragile"
SETTINGS = {"history.lease_s": 1, "history.judge_every_s": 0.1}
DAY_US = 24 * 3_600 * 1_000_000
ANSWERS_MAX = 40  # polls of 500 ms that may find nothing before what is to come has come
_numbers = itertools.count(1)


class Doctor:
    """Workers by hand, each of which has an id of its own."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.workers: Any = WorkerServiceStub(channel)
        self.workflows: Any = WorkflowServiceStub(channel)

    async def poll(
        self, worker_id: bytes = b"", pool: str = "", timeout_ms: int = 500
    ) -> list[wpb.WorkflowTask]:
        request = wpb.PollTasksRequest(
            namespace="default",
            task_queue=QUEUE,
            worker_id=worker_id or new_worker(),
            max_workflow_tasks=10,
            timeout_ms=timeout_ms,
            pool=pool,
        )
        answer = await self.workers.PollTasks(request, timeout=CALL_S)
        return list(answer.workflow_tasks)

    async def take(self, worker_id: bytes = b"", pool: str = "") -> wpb.WorkflowTask:
        """The task, as soon as the pool may have it."""
        for _ in range(ANSWERS_MAX):
            for task in await self.poll(worker_id, pool):
                return task
        raise AssertionError("no task comes")

    async def says(self, worker_id: bytes, outcome: wpb.TaskCompletion) -> bool:
        """Whether it was taken."""
        request = wpb.CompleteTasksRequest(
            namespace="default", worker_id=worker_id, completions=[outcome]
        )
        answer = await self.workers.CompleteTasks(request, timeout=CALL_S)
        return not answer.failures

    async def crash(self, task: wpb.WorkflowTask) -> bool:
        return await self.says(
            new_worker(), wpb.TaskCompletion(token=task.token, task_crash=REPORT)
        )

    async def complete(self, task: wpb.WorkflowTask) -> bool:
        end = wpb.Command(complete_workflow=wpb.CompleteWorkflow(result=b""))
        success = wpb.WorkflowTaskSuccess(commands=[end])
        outcome = wpb.TaskCompletion(token=task.token, workflow_task_success=success)
        return await self.says(new_worker(), outcome)

    async def beat(self, worker_id: bytes, task: wpb.WorkflowTask) -> list[wpb.HeldTaskNotice]:
        request = wpb.HeartbeatRequest(
            namespace="default", worker_id=worker_id, held=[wpb.HeldTask(token=task.token)]
        )
        answer = await self.workers.Heartbeat(request, timeout=CALL_S)
        return list(answer.notices)


def new_worker() -> bytes:
    return f"worker {next(_numbers)}".encode().ljust(16, b".")


@asynccontextmanager
async def ward(dsn: str) -> AsyncIterator[tuple[Client, Doctor]]:
    async with (
        running_node(dsn, SETTINGS) as node,
        await Client.connect(node.address) as client,
        channel_to(node.address) as channel,
    ):
        yield client, Doctor(channel)


async def begin(
    client: Client, workflow_id: str = "order", **options: Any
) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow("Order", id=workflow_id, task_queue=QUEUE, **options)


async def crashes_of(handle: WorkflowHandle[Any, Any]) -> int:
    task = (await handle.describe()).pending_workflow_task
    assert task is not None
    return task.crashes


def rows(dsn: str) -> list[tuple[int, int]]:
    """Of live tasks: their states, and how many timers of theirs stand."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select t.state, (select count(*) from timers r where r.run_id = t.run_id and"
            " r.state <> 9) from tasks t where t.state <> 9"
        ).fetchall()


async def test_invariant_37_three_dead_workers_poison_it_and_a_restart_keeps_that(
    database_dsn: str,
) -> None:
    """Its leases end one after the other; then only the surgical pool gets it, when an operator says so."""
    async with ward(database_dsn) as (client, doctor):
        handle = await begin(client)
        began = datetime.now().astimezone()
        for number in range(3):
            assert (await doctor.take()).crashes == number
        for _ in range(ANSWERS_MAX):
            assert not await doctor.poll()
            if await crashes_of(handle) == 3:
                break
        task = (await handle.describe()).pending_workflow_task
        assert task is not None
        assert (task.crashes, task.attempt) == (3, 1)
        assert task.first_crash_time is not None
        assert began < task.first_crash_time
        assert task.next_attempt_time is not None
        assert task.next_attempt_time - task.first_crash_time > timedelta(seconds=60)
        assert task.last_crash is not None
        assert "is gone" in task.last_crash.message
        (why,) = await handle.explain()
        assert (why.kind, why.until) == (WaitKind.POISONED, task.next_attempt_time)
        assert "its code has crashed its workers" in why.text
        assert rows(database_dsn) == [(TaskState.BACKOFF, 1)]
        with pytest.raises(RPCError) as refused:
            await handle.query("state")
        assert refused.value.reason == "WORKFLOW_POISONED"

    async with ward(database_dsn) as (client, doctor):
        handle = client.get_workflow_handle("order")
        assert await crashes_of(handle) == 3
        await handle.resume(reason="the library is mended")
        assert not await doctor.poll()
        task_in_hand = await doctor.take(pool=SURGICAL)
        assert task_in_hand.crashes == 3
        other = await begin(client, "other")
        assert not await doctor.poll(pool=SURGICAL), "nothing but what is poisoned"
        assert (await doctor.take()).crashes == 0
        await other.terminate()
        assert await doctor.complete(task_in_hand)
        assert (await handle.describe()).status is WorkflowStatus.COMPLETED
        entries = [entry async for entry in client.operator.list_audit(workflow_id="order")]
        assert [(one.action, one.reason) for one in entries] == [
            ("workflow.resume", "the library is mended")
        ]
        assert not (await client.operator.verify_audit()).broken


async def test_invariant_35_a_worker_that_comes_back_takes_its_marks_along(
    database_dsn: str,
) -> None:
    """It has been away for longer than its lease; the others are dead indeed."""
    async with ward(database_dsn) as (client, doctor):
        handle = await begin(client)
        worker_id = new_worker()
        first = await doctor.take(worker_id)
        await doctor.take()
        third = await doctor.take()
        assert third.crashes == 2
        lost = [wpb.HeldTaskNotice(index=0, state=wpb.HELD_TASK_STATE_LOST)]
        assert await doctor.beat(worker_id, first) == lost
        assert await crashes_of(handle) == 1
        assert await doctor.beat(worker_id, first) == lost
        assert await crashes_of(handle) == 1
        fourth = await doctor.take()
        assert fourth.crashes == 2, "those that died are counted"
        assert await doctor.complete(fourth)


async def test_what_a_worker_says_of_a_process_is_counted_once_and_forgotten_with_a_failure(
    database_dsn: str,
) -> None:
    async with ward(database_dsn) as (client, doctor):
        handle = await begin(client)
        for number in range(3):
            task = await doctor.take()
            assert task.crashes == number
            assert await doctor.crash(task)
            assert not await doctor.crash(task), "said again"
            assert await crashes_of(handle) == number + 1
        described = (await handle.describe()).pending_workflow_task
        assert described is not None
        assert described.last_crash is not None
        assert described.last_crash.message == "killed by signal 11 (SIGSEGV)"
        assert described.last_crash.stack_trace == "its stacks"
        await handle.resume()
        surgeon = await doctor.take(pool=SURGICAL)
        failure = wpb.WorkflowTaskFailure(cause=event_pb2.WORKFLOW_TASK_FAILED_CAUSE_WORKER_FAILURE)
        assert await doctor.says(
            new_worker(), wpb.TaskCompletion(token=surgeon.token, workflow_task_failure=failure)
        )
        normal = await doctor.take()
        assert (normal.crashes, normal.attempt) == (0, 2)


def a_day_earlier(dsn: str) -> None:
    """As if the first crash of the one task that there is had been 24 hours before."""
    codec = MsgpackCodec()
    with psycopg.connect(dsn) as connection:
        ((task_id, payload),) = connection.execute(
            "select task_id, payload from tasks where state <> 9"
        ).fetchall()
        row = TaskRow(0, 0, task_id, b"", TaskState.READY, 0, 0, 0, payload, 0)
        record = codec.decode_task(row)
        assert record.crashes is not None
        first_us = record.crashes.first_us - DAY_US
        record.set_aside(crashes=msgspec.structs.replace(record.crashes, first_us=first_us))
        older = codec.encode_task(record, codec.namespace_of_task(row))
        connection.execute("update tasks set payload = %s where task_id = %s", (older, task_id))


def due_of_timers(dsn: str) -> list[tuple[int, float]]:
    """Kind, and in how many seconds it is due."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select kind, extract(epoch from due_at - now())::float8 from timers where state <> 9"
        ).fetchall()


async def test_invariant_39_after_24_hours_it_is_suspended_once_with_one_row_in_the_audit_log(
    database_dsn: str,
) -> None:
    """Nobody gets it, and its timeouts stand still, until an operator says so: over restarts of the engine."""
    async with ward(database_dsn) as (client, doctor):
        handle = await begin(
            client, run_timeout=timedelta(hours=5), execution_timeout=timedelta(hours=9)
        )
        for _ in range(3):
            assert await doctor.crash(await doctor.take())
        await handle.resume()
    a_day_earlier(database_dsn)
    async with ward(database_dsn) as (client, doctor):
        handle = client.get_workflow_handle("order")
        task = await doctor.take(pool=SURGICAL)
        assert await doctor.crash(task)
        assert not await doctor.crash(task)
        described = await handle.describe()
        assert (described.status, described.suspended) == (WorkflowStatus.PAUSED, True)
        assert described.pause_identity == "perdure"
        assert "has crashed 4 times in a row" in described.pause_reason
        listed = [one.id async for one in client.list_workflows("ExecutionStatus = 'Paused'")]
        assert listed == ["order"]
        assert rows(database_dsn) == [(TaskState.PAUSED, 0)]
        paused, poisoned = await handle.explain()
        assert (paused.kind, paused.until) == (WaitKind.PAUSED, None)
        assert (poisoned.kind, poisoned.until) == (WaitKind.POISONED, None)
        assert not await doctor.poll(pool=SURGICAL)
    async with ward(database_dsn) as (client, doctor):
        handle = client.get_workflow_handle("order")
        assert not await doctor.poll(pool=SURGICAL)
        events = (await handle.fetch_history()).events
        assert [e.attributes["suspended"] for e in events if "Paused" in e.event_type] == [True]
        await handle.unpause(reason="mended")
        assert dict(due_of_timers(database_dsn)) == {
            TimerKind.RUN_TIMEOUT: pytest.approx(5 * 3_600, abs=60),
            TimerKind.EXECUTION_TIMEOUT: pytest.approx(9 * 3_600, abs=60),
            TimerKind.SUSPENSION: pytest.approx(24 * 3_600, abs=60),
        }
        assert await doctor.complete(await doctor.take(pool=SURGICAL))
        entries = [entry async for entry in client.operator.list_audit(workflow_id="order")]
        told = [(entry.action, entry.identity, entry.reason) for entry in reversed(entries)][1:]
        assert told == [
            ("workflow.suspend", "perdure", described.pause_reason),
            ("workflow.unpause", client.identity, "mended"),
        ]
        assert not (await client.operator.verify_audit()).broken


BAD: list[tuple[dict[str, Any], str]] = [
    ({"request_id": ""}, "request_id"),
    ({"request_id": "7"}, "request_id"),
    ({"run_id": "not a uuid"}, "run_id"),
    ({"workflow_id": ""}, "workflow_id"),
    ({"reason": "a" * 5_000}, "reason"),
    ({"identity": "a\u202eb"}, "identity"),
]


async def test_bad_input_names_the_field_and_a_repeat_is_answered_the_same(
    database_dsn: str,
) -> None:
    """Nothing half-written: what is refused leaves nothing in the audit log."""
    async with ward(database_dsn) as (client, doctor):
        handle = await begin(client)
        with pytest.raises(RPCError) as sound:
            await handle.resume()
        assert (sound.value.status, sound.value.reason) == (
            RPCStatusCode.FAILED_PRECONDITION,
            "WORKFLOW_NOT_POISONED",
        )
        good = {"namespace": "default", "workflow_id": "order"}
        for changes, field in BAD:
            fields = good | {"request_id": str(uuid.uuid4())} | changes
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await doctor.workflows.ResumeWorkflow(
                    pb.ResumeWorkflowRequest(**fields), timeout=CALL_S
                )
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, changes
            assert str(refused.value.details()).startswith(field), changes
        for _ in range(3):
            assert await doctor.crash(await doctor.take())
        request = pb.ResumeWorkflowRequest(**good, request_id=str(uuid.uuid4()))
        for _ in range(2):
            await doctor.workflows.ResumeWorkflow(request, timeout=CALL_S)
        entries = [entry async for entry in client.operator.list_audit(workflow_id="order")]
        assert [one.action for one in entries] == ["workflow.resume"]
        await handle.terminate()
        again = pb.ResumeWorkflowRequest(**good, request_id=str(uuid.uuid4()))
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await doctor.workflows.ResumeWorkflow(again, timeout=CALL_S)
        assert gone.value.code() is grpc.StatusCode.NOT_FOUND
