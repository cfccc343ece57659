"""The hours of a job that crashes its workers, in virtual time: gRPC, and an engine that does not wait for clocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
from tests.channels import channel_to
from tests.integration.server.poisoned import QUEUE, RawWorker, crash_in_a_row

from perdure.client import JobHandle
from perdure.job import JobStatus
from perdure.testing import WorkflowEnvironment
from perdure_engine.core.poison import SURGICAL

SECOND = timedelta(seconds=1)


@asynccontextmanager
async def poisoned() -> AsyncIterator[tuple[WorkflowEnvironment, grpc.aio.Channel, JobHandle[Any]]]:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        channel_to(env.client.core.connection.target) as channel,
    ):
        handle = await env.client.jobs.create("bad", queue=QUEUE)
        await crash_in_a_row(channel)
        yield env, channel, handle


async def test_invariants_37_38_each_delay_and_never_the_normal_pool() -> None:
    async with poisoned() as (env, channel, handle):
        normal, surgeon = RawWorker(channel), RawWorker(channel, SURGICAL)
        for_all = asyncio.ensure_future(normal.poll(60))
        for delay_s in (60, 300, 1800):
            due = (await handle.describe()).next_attempt_time
            assert due is not None
            left = due - await env.get_current_time()
            assert 0 <= delay_s - left / SECOND < 1
            for_surgeons = asyncio.ensure_future(surgeon.poll(60))
            await env.sleep(left - SECOND)
            assert not for_surgeons.done(), "never early"
            await env.sleep(2 * SECOND)
            await surgeon.crashes(*await for_surgeons)
        found = await handle.describe()
        assert not for_all.done()
        for_all.cancel()

    assert (found.status, found.crashes) == (JobStatus.POISONED, 6)


async def test_invariant_39_suspended_after_a_day_without_success() -> None:
    async with poisoned() as (env, channel, handle):
        began = (await handle.describe()).first_crash_time
        assert began is not None
        day_is_over = began + timedelta(hours=24) - await env.get_current_time()
        await env.sleep(day_is_over - SECOND)
        before = await handle.describe()
        await env.sleep(2 * SECOND)
        after = await handle.describe()
        surgeon = RawWorker(channel, SURGICAL)
        assert await surgeon.poll(0.2) == []
        assert await handle.resume(reason="mended") is JobStatus.POISONED
        await surgeon.completes(await surgeon.one())
        ended = await handle.describe()

    assert (before.status, before.next_attempt_time) == (JobStatus.POISONED, None)
    assert (after.status, after.crashes) == (JobStatus.SUSPENDED, 3)
    assert "3 times in a row" in after.reason
    assert (ended.status, ended.reason) == (JobStatus.COMPLETED, "")
