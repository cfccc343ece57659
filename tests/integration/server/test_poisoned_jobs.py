"""Jobs that crash their workers, from end to end: gRPC, engine, PostgreSQL (requirement P5)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import psycopg
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.server.poisoned import QUEUE, RawWorker, crash_in_a_row

from perdure.client import Client, JobHandle
from perdure.errors import RPCError, RPCStatusCode
from perdure.job import JobStatus
from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core.poison import SURGICAL


@asynccontextmanager
async def served(dsn: str) -> AsyncIterator[tuple[Client, grpc.aio.Channel]]:
    async with (
        running_node(dsn) as node,
        await Client.connect(node.address) as client,
        channel_to(node.address) as channel,
    ):
        yield client, channel


async def poisoned(client: Client, channel: grpc.aio.Channel, name: str = "bad") -> JobHandle[Any]:
    handle = await client.jobs.create(name, queue=QUEUE)
    await crash_in_a_row(channel)
    return handle


def ids(*tasks: pb.JobTask) -> set[str]:
    return {str(uuid.UUID(bytes=one.job_id)) for one in tasks}


def told(dsn: str, question: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(question).fetchall()


async def test_invariants_37_38_the_third_crash_leaves_the_job_to_the_surgical_pool(
    database_dsn: str,
) -> None:
    async with served(database_dsn) as (client, channel):
        handle = await poisoned(client, channel)
        stored = told(database_dsn, "select status, ready, attempt from perdure_v1_jobs")
        other = await client.jobs.create("good", queue=QUEUE)
        normal, surgeon = RawWorker(channel), RawWorker(channel, SURGICAL)
        assert await surgeon.poll(0.2) == [], "not before a minute has passed"
        assert await handle.resume(reason="look") is JobStatus.POISONED
        (for_all,), (for_surgeons,) = await normal.poll(), await surgeon.poll()
        assert await normal.poll(0.2) == []
        await normal.completes(for_all)
        running = await handle.describe()
        await surgeon.completes(for_surgeons)
        found = await handle.describe()

    assert stored == [("Poisoned", False, 1)]
    assert ids(for_all) == {other.id}
    assert ids(for_surgeons) == {handle.id}
    assert for_surgeons.crashes == 3
    assert (running.status, running.crashes) == (JobStatus.IN_PROGRESS, 3)
    assert running.last_crash is not None
    assert running.last_crash.message == "killed by signal 11 (SIGSEGV)"
    assert running.last_crash.stack_trace == "its stacks"
    assert (found.status, found.crashes, found.first_crash_time) == (JobStatus.COMPLETED, 0, None)


async def test_invariant_35_counts_outlive_engines_and_unclaimed_starts_count_for_nothing(
    database_dsn: str,
) -> None:
    async with served(database_dsn) as (client, channel):
        handle = await client.jobs.create("bad", queue=QUEUE)
        for _ in range(2):
            worker = RawWorker(channel)
            await worker.crashes(await worker.one())
        await RawWorker(channel).one()  # it never hears of it again: the engine stops
    async with served(database_dsn) as (client, channel):
        worker = RawWorker(channel)
        task = await worker.one(20)
        counted = (await client.jobs.get(handle.id).describe()).crashes
        await worker.crashes(task)
        found = await client.jobs.get(handle.id).describe()
        reported = datetime.now(UTC)
    async with served(database_dsn) as (client, channel):
        again = await client.jobs.get(handle.id).describe()

    assert (task.crashes, counted) == (2, 2)
    assert (found.status, found.crashes) == (JobStatus.POISONED, 3)
    assert found.next_attempt_time is not None
    assert found.first_crash_time is not None
    minute = timedelta(minutes=1)
    assert found.first_crash_time + minute <= found.next_attempt_time <= reported + minute
    assert again.status is JobStatus.POISONED
    assert again.next_attempt_time == found.next_attempt_time


async def test_dead_letters_are_listed_and_moved_by_operators(database_dsn: str) -> None:
    """Each act is audited, and refused where it does not fit."""
    async with served(database_dsn) as (client, channel):
        jobs = client.jobs
        first, second, third = [await poisoned(client, channel) for _ in range(3)]
        plain = await jobs.create("good", queue="nobody")
        listed = [one.id async for one in jobs.list(status=JobStatus.POISONED, task_name="bad")]
        counted = await jobs.count(status=[JobStatus.FAILED, JobStatus.POISONED])
        would = await jobs.redrive(task_name="bad", dry_run=True)
        assert await first.cancel(reason="no") is JobStatus.CANCELLED
        assert await second.resume(reason="look") is JobStatus.POISONED
        for refused in (first.resume(), plain.resume()):
            with pytest.raises(RPCError) as caught:
                await refused
            assert caught.value.status is RPCStatusCode.FAILED_PRECONDITION
        redriven = await jobs.redrive(status=JobStatus.POISONED, reason="mended")
        worker = RawWorker(channel)
        tasks = await worker.poll()
        await worker.completes(*tasks)
        statuses = [(await one.describe()).status for one in (first, second, third)]
        found = told(database_dsn, "select action from audit order by shard_id, seq")

    assert set(listed) == {first.id, second.id, third.id}
    assert (counted.count, would, redriven) == (3, 3, 2)
    assert ids(*tasks) == {second.id, third.id}
    assert {task.crashes for task in tasks} == {0}
    assert statuses == [JobStatus.CANCELLED, JobStatus.COMPLETED, JobStatus.COMPLETED]
    actions = sorted(action for (action,) in found)
    assert actions == ["job.cancel", "job.redrive", "job.redrive", "job.resume"]
