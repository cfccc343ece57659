"""Chains of runs over days, with time skipped: cron, and attempts after a time-out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import workflow
from perdure.common import RetryPolicy, WorkflowStatus
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

DAY = timedelta(days=1)


@workflow.defn
class Daily:
    @workflow.run
    async def run(self) -> list[str]:
        before: list[str] = workflow.get_last_completion_result(list[str]) or []
        return [*before, workflow.now().strftime("%H:%M")]


@workflow.defn
class Slow:
    """Its first attempt takes too long."""

    @workflow.run
    async def run(self) -> list[str | int]:
        if workflow.info().attempt == 1:
            await workflow.sleep(10 * DAY)
        failure = workflow.get_last_failure()
        return [type(failure).__name__, workflow.info().attempt]


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        worker = Worker(
            env.client,
            task_queue="q",
            workflows=[Daily, Slow],
            graceful_shutdown_timeout=timedelta(),
        )
        async with worker:
            yield env


async def test_a_cron_workflow_runs_at_each_time_until_its_chain_is_over(
    env: WorkflowEnvironment,
) -> None:
    handle = await env.client.start_workflow(
        Daily.run,
        id="daily",
        task_queue="q",
        cron_schedule="30 9 * * *",
        execution_timeout=3.5 * DAY,
    )

    assert await handle.result() == ["09:30"] * 4
    described = await env.client.get_workflow_handle("daily").describe()
    assert described.status is WorkflowStatus.COMPLETED
    assert described.first_run_id == handle.first_execution_run_id
    assert described.next_run_id == ""


async def test_a_run_that_took_too_long_is_tried_again(env: WorkflowEnvironment) -> None:
    handle = await env.client.start_workflow(
        Slow.run,
        id="slow",
        task_queue="q",
        run_timeout=DAY,
        retry_policy=RetryPolicy(initial_interval=timedelta(hours=6)),
    )

    assert await handle.result() == ["TimeoutError", 2]
