"""Chains of runs over days, with time skipped: cron, and attempts after a time-out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import workflow
from perdure.common import RetryPolicy, WorkflowStatus
from perdure.errors import (
    RPCError,
    RPCStatusCode,
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
)
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


@workflow.defn
class Again:
    """Continues as new once, then waits."""

    @workflow.run
    async def run(self, more: int) -> None:
        if more:
            workflow.continue_as_new(more - 1)
        await workflow.wait_condition(lambda: False)


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_a_handle_of_a_start_reaches_its_own_chain_only(
    env: WorkflowEnvironment, how: str
) -> None:
    client = env.client
    async with Worker(client, task_queue="again", workflows=[Again]):
        first = await client.start_workflow(Again.run, 1, id="a", task_queue="again")
        with pytest.raises(WorkflowContinuedAsNewError):
            await first.result(follow_runs=False)
        await getattr(first, how)()  # the second run of its chain
        with pytest.raises(WorkflowFailureError):
            await first.result()

        second = await client.start_workflow(Again.run, 0, id="a", task_queue="again")
        with pytest.raises(RPCError) as refused:
            await getattr(first, how)()
        named = client.get_workflow_handle("a", first_execution_run_id=first.result_run_id)
        with pytest.raises(RPCError):
            await getattr(named, how)()

        assert refused.value.status is RPCStatusCode.NOT_FOUND
        assert (await second.describe()).status is WorkflowStatus.RUNNING
        await getattr(client.get_workflow_handle("a"), how)()
        with pytest.raises(WorkflowFailureError):
            await second.result()
