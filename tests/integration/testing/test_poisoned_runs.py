"""A run whose code crashes its workers, in virtual time: what passes by itself until it is suspended, and what not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from tests.channels import channel_to
from tests.integration.server.test_crashes import ANSWERS_MAX, Doctor, begin

from perdure.client import WorkflowHandle
from perdure.common import WorkflowStatus
from perdure.testing import WorkflowEnvironment
from perdure_engine.core.poison import SURGICAL

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
UNATTENDED_MS = 3_000  # of real time, after which what no worker asks for holds time up no longer


@asynccontextmanager
async def poisoned() -> AsyncIterator[tuple[WorkflowEnvironment, Doctor, WorkflowHandle[Any, Any]]]:
    """Ready in the surgical pool."""
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        channel_to(env.client.core.connection.target) as channel,
    ):
        doctor = Doctor(channel)
        handle = await begin(env.client)
        for _ in range(3):
            assert await doctor.crash(await doctor.take())
        await handle.resume()
        yield env, doctor, handle


async def test_invariant_39_when_nothing_else_can_happen_time_passes_to_its_suspension() -> None:
    async with poisoned() as (env, doctor, handle):
        began = await env.get_current_time()
        waiting = asyncio.ensure_future(handle.result())
        for _ in range(ANSWERS_MAX):
            assert not await doctor.poll(), "it is nothing for the normal pool"
            if (await handle.describe()).suspended:
                break
        passed = await env.get_current_time() - began
        assert not await doctor.poll(pool=SURGICAL, timeout_ms=100)
        waiting.cancel()

    assert DAY - MINUTE < passed < DAY + MINUTE


async def test_no_hour_is_skipped_while_a_surgical_worker_has_it() -> None:
    async with poisoned() as (env, doctor, handle):
        began = await env.get_current_time()
        waiting = asyncio.ensure_future(handle.result())
        task = await doctor.take(pool=SURGICAL)
        assert not await doctor.poll(timeout_ms=UNATTENDED_MS)
        passed = await env.get_current_time() - began
        assert await doctor.complete(task)
        await waiting
        described = await handle.describe()

    assert (described.status, passed < MINUTE) == (WorkflowStatus.COMPLETED, True)


async def test_what_else_waits_for_time_is_not_held_up_by_a_suspension_to_come() -> None:
    """Nor is what somebody asks for in hours skipped over."""
    async with poisoned() as (env, _, handle):
        await env.sleep(23 * HOUR)
        before = await handle.describe()
        await env.sleep(2 * HOUR)
        after = await handle.describe()

    assert (before.status, before.suspended) == (WorkflowStatus.RUNNING, False)
    assert (after.status, after.suspended) == (WorkflowStatus.PAUSED, True)
