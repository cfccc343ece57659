"""Jobs in the environment that skips time: days of delays and retries in milliseconds, none early."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import job
from perdure.common import RetryPolicy
from perdure.errors import JobFailedError, JobSkippedError
from perdure.job import Concurrency, JobStatus
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

QUEUE = "q"
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@job.defn
async def same(value: int) -> int:
    return value


@job.defn
async def fails() -> None:
    raise ValueError("no")


@job.defn
async def blocks(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with (
        await WorkflowEnvironment.start_time_skipping() as env,
        Worker(
            env.client,
            task_queue=QUEUE,
            activities=[same, fails, blocks],
            graceful_shutdown_timeout=timedelta(0),
        ),
    ):
        yield env


async def test_a_delay_passes_while_somebody_waits_for_the_result(env: WorkflowEnvironment) -> None:
    begun = await env.get_current_time()
    handle = await env.client.jobs.create(same, 1, queue=QUEUE, delay=30 * DAY)
    assert (await handle.describe()).status is JobStatus.PENDING

    assert await handle.result() == 1
    found = await handle.describe()
    assert found.start_time is not None
    assert found.start_time - begun >= 30 * DAY
    assert found.start_time - begun < 30 * DAY + timedelta(seconds=1)


async def test_retries_wait_for_their_time(env: WorkflowEnvironment) -> None:
    policy = RetryPolicy(initial_interval=HOUR, backoff_coefficient=2.0, maximum_attempts=4)
    handle = await env.client.jobs.create(fails, queue=QUEUE, retry_policy=policy)
    with pytest.raises(JobFailedError):
        await handle.result()

    times = [one.time for one in (await handle.describe()).failures if one.time is not None]
    waits_h = [(later - earlier) / HOUR for earlier, later in itertools.pairwise(times)]
    assert len(waits_h) == 3
    for wait_h, least_h in zip(waits_h, (1, 2, 4), strict=True):
        assert least_h <= wait_h <= 1.3 * least_h  # with jitter on top


async def test_what_nobody_takes_expires(env: WorkflowEnvironment) -> None:
    expires = await env.get_current_time() + DAY
    handle = await env.client.jobs.create(same, 1, queue="nobody", expires_at=expires)
    with pytest.raises(JobSkippedError):
        await handle.result()


async def test_time_stays_as_it_is_while_a_job_runs(env: WorkflowEnvironment) -> None:
    """Else its time limit would run out before it had done anything."""
    handle = await env.client.jobs.create(blocks, 0.05, queue=QUEUE, timeout=HOUR)
    later = await env.client.jobs.create(same, 1, queue=QUEUE, delay=DAY)

    assert await asyncio.gather(handle.result(), later.result()) == ["done", 1]


async def test_the_rate_of_a_key_is_held_by_the_engines_time(env: WorkflowEnvironment) -> None:
    limited = Concurrency(key="ada", limit=100, rate_per_s=1 / 60)
    begun = await env.get_current_time()
    made = await env.client.jobs.create_many(
        [job.new(same, number, queue=QUEUE, concurrency=limited) for number in range(5)]
    )
    await asyncio.gather(*(handle.result() for handle in made))

    assert await env.get_current_time() - begun >= timedelta(minutes=4)


async def test_a_worker_calls_a_job_a_job(
    env: WorkflowEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """Not an activity: whoever reads its log looks for what is in `perdure job list`."""
    once = RetryPolicy(maximum_attempts=1)
    with pytest.raises(JobFailedError):
        await env.client.jobs.execute(fails, queue=QUEUE, retry_policy=once)
    with pytest.raises(JobFailedError, match="job 'nothing' is not registered here"):
        await env.client.jobs.execute("nothing", queue=QUEUE, retry_policy=once)

    said = [record.getMessage() for record in caplog.records if record.name.startswith("perdure")]
    assert "job fails failed: ValueError: no" in said
    assert not [one for one in said if "activity" in one]
