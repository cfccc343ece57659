"""Tasks that have taken workers down, on an engine with PostgreSQL, in processes of a real worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.sdk import alone_code as code
from tests.integration.server.poisoned import RawWorker

from perdure.client import Client, WorkflowFailureError, WorkflowHandle
from perdure.job import JobStatus
from perdure.worker import SurgicalPool, Worker
from perdure_api.v1 import worker_service_pb2 as wpb

QUEUE = "alone"
PATIENCE_S = 40
NO_TASKS_AFTER_S = 10.0
KILLED = wpb.TaskCrash(message="killed by signal 9 (SIGKILL)")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # "spawn" imports the code by its name


class Crashing:
    """Says of each task that it takes that it has died in a process of its own."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._worker = RawWorker(channel, queue=QUEUE)

    async def crash(self, times: int, *, workflows: bool = False) -> None:
        for number in range(times):
            task = await self._worker.one(NO_TASKS_AFTER_S, workflows=workflows)
            assert task.crashes == number
            await self._worker.crashes(task, report=KILLED)


@asynccontextmanager
async def engine(dsn: str) -> AsyncIterator[tuple[Client, Crashing]]:
    async with (
        running_node(dsn) as node,
        channel_to(node.address) as channel,
        await Client.connect(node.address) as client,
    ):
        yield client, Crashing(channel)


@asynccontextmanager
async def activity_crashed_twice(
    dsn: str, *arguments: Any
) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """By hand, while its workflow alone had a worker; now it has one."""
    async with (
        engine(dsn) as (client, crashing),
        Worker(client, task_queue=QUEUE, workflows=[code.CallOne]),
    ):
        handle = await client.start_workflow("CallOne", args=arguments, id="w", task_queue=QUEUE)
        await crashing.crash(2)
        async with worker(client):
            yield handle


def worker(client: Client, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[code.CallOne, code.Alone, code.Dies],
        activities=code.ACTIVITIES,
        graceful_shutdown_timeout=timedelta(),
        **options,
    )


async def described(handle: Any, as_wanted: Callable[[Any], bool]) -> Any:
    """As soon as it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not as_wanted(told := await handle.describe()):
            pass
    return told


async def test_a_job_goes_up_the_ladder_and_harms_nobody_beside_it(database_dsn: str) -> None:
    """Invariants 36 to 38: alone from the second crash on, poisoned at the third, then only in the
    surgical pool; and a process that dies harms nobody else."""
    async with engine(database_dsn) as (client, crashing):
        guilty = await client.jobs.create("die", "SIGSEGV", result_type=str, queue=QUEUE)
        await crashing.crash(2)
        async with worker(client):
            beside = await client.jobs.create("die", "beside", result_type=str, queue=QUEUE)
            told = await described(guilty, lambda job: job.status is JobStatus.POISONED)
            assert await beside.result() == "beside"
            assert (told.crashes, told.attempt) == (3, 1)
            assert "SIGSEGV" in str(told.last_crash)

            after = await client.jobs.create("where_async", "x", result_type=dict, queue=QUEUE)
            await after.result()
            await guilty.resume(reason="another look")
            await described(guilty, lambda job: job.crashes >= 4)


async def test_poisoned_work_that_succeeds_in_the_surgical_pool(database_dsn: str) -> None:
    async with engine(database_dsn) as (client, crashing):
        job = await client.jobs.create("where_async", "x", result_type=dict, queue=QUEUE)
        await crashing.crash(3)
        assert (await job.describe()).status is JobStatus.POISONED
        async with worker(client, pool="surgical", surgical=SurgicalPool()):
            await job.resume(reason="now")
            found = await job.result()
    assert found["crashes"] == 3
    assert found["pid"] != os.getpid()


async def test_an_activity_runs_alone(database_dsn: str) -> None:
    async with activity_crashed_twice(database_dsn, "where_async", "x", 2) as handle:
        found = await handle.result()
    assert found["crashes"] == 2
    assert found["pid"] != os.getpid()


async def test_a_failure_alone_is_one_as_everywhere(database_dsn: str) -> None:
    """And forgives: the next attempt runs beside all others again."""
    async with activity_crashed_twice(database_dsn, "fail", "because", 2) as handle:
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
            told = await described(
                handle,
                lambda run: run.pending_workflow_task and run.pending_workflow_task.crashes == 3,
            )
            other = await client.execute_workflow(
                code.Dies.run, "fine", id="other", task_queue=QUEUE
            )
    assert other == "fine"
    assert "SIGSEGV" in str(told.pending_workflow_task.last_crash)
