"""Tasks that have taken workers down, on an engine with PostgreSQL, in processes of a real worker."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.engine_node import running_node
from tests.integration.sdk import alone_code as code
from tests.integration.server.calls import CALL_S

from perdure.client import Client, JobHandle, WorkflowFailureError
from perdure.job import JobStatus
from perdure.worker import SurgicalPool, Worker
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1.worker_service_pb2_grpc import WorkerServiceStub

QUEUE = "alone"
PATIENCE_S = 40
NO_TASKS_AFTER_MS = 10_000


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # "spawn" imports the code by its name


class Crashing:
    """A worker by hand, each of whose tasks has died in a process of its own."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._workers: Any = WorkerServiceStub(channel)
        self._id = uuid.uuid4().bytes

    async def take(self, *, workflows: bool = False) -> Any:
        request = wpb.PollTasksRequest(
            namespace="default",
            task_queue=QUEUE,
            worker_id=self._id,
            max_workflow_tasks=int(workflows),
            max_activity_tasks=int(not workflows),
            timeout_ms=NO_TASKS_AFTER_MS,
        )
        answer = await self._workers.PollTasks(request, timeout=CALL_S)
        tasks: list[Any] = list(answer.workflow_tasks)
        tasks += [*list(answer.activity_tasks), *list(answer.job_tasks)]
        assert len(tasks) == 1
        return tasks[0]

    async def crash(self, times: int, *, workflows: bool = False) -> None:
        for number in range(times):
            task = await self.take(workflows=workflows)
            assert task.crashes == number
            crash = wpb.TaskCrash(message="killed by signal 9 (SIGKILL)")
            await self._say(wpb.TaskCompletion(token=task.token, task_crash=crash))

    async def _say(self, completion: wpb.TaskCompletion) -> None:
        request = wpb.CompleteTasksRequest(
            namespace="default", worker_id=self._id, completions=[completion]
        )
        answer = await self._workers.CompleteTasks(request, timeout=CALL_S)
        assert not answer.failures


@asynccontextmanager
async def engine(dsn: str) -> AsyncIterator[tuple[Client, Crashing]]:
    async with (
        running_node(dsn) as node,
        grpc.aio.insecure_channel(node.address) as channel,
        await Client.connect(node.address) as client,
    ):
        yield client, Crashing(channel)


def worker(client: Client, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[code.CallOne, code.Alone, code.Dies],
        activities=code.ACTIVITIES,
        graceful_shutdown_timeout=timedelta(),
        **options,
    )


async def until_status(handle: JobHandle[Any], wanted: JobStatus) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await handle.describe()).status is not wanted:
            pass


async def test_a_job_goes_up_the_ladder_and_is_cured(database_dsn: str) -> None:
    """Invariants 36 to 38: alone from the second crash on, poisoned at the third, then only in the
    surgical pool; and a process that dies harms nobody else."""
    async with engine(database_dsn) as (client, crashing):
        guilty = await client.jobs.create("die", "SIGSEGV", result_type=str, queue=QUEUE)
        await crashing.crash(2)
        async with worker(client):
            beside = await client.jobs.create("die", "beside", result_type=str, queue=QUEUE)
            await until_status(guilty, JobStatus.POISONED)
            assert await beside.result() == "beside"
            told = await guilty.describe()
            assert (told.crashes, told.attempt) == (3, 1)
            assert "SIGSEGV" in str(told.last_crash)

            cured = await client.jobs.create("where_async", "x", result_type=dict, queue=QUEUE)
            await cured.result()
            await guilty.resume(reason="another look")
            await until_crashes(guilty, 4)


async def until_crashes(handle: JobHandle[Any], count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await handle.describe()).crashes < count:
            pass


async def test_poisoned_work_that_succeeds_in_the_surgical_pool(database_dsn: str) -> None:
    async with engine(database_dsn) as (client, crashing):
        job = await client.jobs.create("where_async", "x", result_type=dict, queue=QUEUE)
        await crashing.crash(3)
        await until_status(job, JobStatus.POISONED)
        async with worker(client, pool="surgical", surgical=SurgicalPool()):
            await job.resume(reason="now")
            found = await job.result()
    assert found["crashes"] == 3
    assert found["pid"] != os.getpid()


async def test_an_activity_runs_alone(database_dsn: str) -> None:
    async with (
        engine(database_dsn) as (client, crashing),
        Worker(client, task_queue=QUEUE, workflows=[code.CallOne]),
    ):
        handle = await client.start_workflow(
            "CallOne", args=["where_async", "x", 2], id="w", task_queue=QUEUE
        )
        await crashing.crash(2)
        async with worker(client):
            found = await handle.result()
    assert found["crashes"] == 2
    assert found["pid"] != os.getpid()


async def test_a_failure_alone_is_one_as_everywhere(database_dsn: str) -> None:
    """And forgives: the next attempt runs beside all others again."""
    async with (
        engine(database_dsn) as (client, crashing),
        Worker(client, task_queue=QUEUE, workflows=[code.CallOne]),
    ):
        handle = await client.start_workflow(
            "CallOne", args=["fail", "because", 2], id="w", task_queue=QUEUE
        )
        await crashing.crash(2)
        async with worker(client):
            with pytest.raises(WorkflowFailureError) as caught:
                await handle.result()
    assert f"because in {os.getpid()}" in str(caught.value.cause.__cause__)


async def test_a_workflow_task_runs_alone(database_dsn: str) -> None:
    async with engine(database_dsn) as (client, crashing):
        handle = await client.start_workflow(code.Alone.run, 1, id="w", task_queue=QUEUE)
        await crashing.crash(2, workflows=True)
        async with worker(client):
            await handle.signal(code.Alone.add, "one")
            pid, got = await handle.result()
    assert got == "one"
    assert pid != os.getpid()


async def test_a_workflow_task_that_dies_alone_is_poisoned(database_dsn: str) -> None:
    async with engine(database_dsn) as (client, crashing):
        handle = await client.start_workflow(code.Dies.run, "SIGSEGV", id="w", task_queue=QUEUE)
        await crashing.crash(2, workflows=True)
        async with worker(client):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    pending = (await handle.describe()).pending_workflow_task
                    if pending is not None and pending.crashes == 3:
                        break
            other = await client.execute_workflow(
                code.Dies.run, "fine", id="other", task_queue=QUEUE
            )
    assert other == "fine"
    assert "SIGSEGV" in str(pending.last_crash)
