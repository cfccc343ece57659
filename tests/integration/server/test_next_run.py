"""Runs that follow each other, on a real node: PostgreSQL, gRPC, the SDK's client and worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.engine_node import running_node

from perdure import workflow
from perdure.client import (
    Client,
    RPCError,
    RPCStatusCode,
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
    WorkflowStatus,
)
from perdure.common import RetryPolicy
from perdure.errors import ApplicationError, CancelledError
from perdure.worker import Worker
from perdure_engine.server.node import Node

QUEUE = "chains"
ANSWER_S = 30.0


@workflow.defn
class Counting:
    """Counts to 3 in runs of one step, and keeps the signals that it saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @workflow.run
    async def run(self, count: int, seen: list[str]) -> list[Any]:
        await workflow.sleep(timedelta(milliseconds=1))
        if count < 3:
            workflow.continue_as_new(count + 1, [*seen, *self.seen])
        return [count, workflow.info().first_execution_run_id, *seen, *self.seen]

    @workflow.signal
    def note(self, text: str) -> None:
        self.seen.append(text)


@workflow.defn
class Failing:
    @workflow.run
    async def run(self, failures: int) -> list[Any]:
        attempt = workflow.info().attempt
        if attempt <= failures:
            raise ApplicationError(f"attempt {attempt}", type="Flaky")
        return [attempt, str(workflow.get_last_failure())]


@asynccontextmanager
async def connected(node: Node) -> AsyncIterator[Client]:
    """A client, with a worker beside it."""
    async with await Client.connect(node.address) as client:
        worker = Worker(client, task_queue=QUEUE, workflows=[Counting, Failing])
        async with worker, asyncio.timeout(ANSWER_S):
            yield client


def rows(dsn: str, workflow_id: str) -> tuple[list[int], list[int]]:
    """The statuses of its runs as lists show them, the oldest first; and that of its current run."""
    with psycopg.connect(dsn) as connection:
        listed = connection.execute(
            "select status from visibility where workflow_id = %s order by start_time",
            [workflow_id],
        ).fetchall()
        current = connection.execute(
            "select status from current_runs where workflow_id = %s", [workflow_id]
        ).fetchall()
    return [status for (status,) in listed], [status for (status,) in current]


async def test_a_workflow_continues_as_new_and_its_result_is_the_chains(database_dsn: str) -> None:
    async with running_node(database_dsn) as node, connected(node) as client:
        handle = await client.start_workflow(
            Counting.run, args=[1, []], id="counting", task_queue=QUEUE, start_signal="note",
            start_signal_args=["first"], memo={"k": 7},
        )  # fmt: skip

        assert await handle.result() == [3, handle.first_execution_run_id, "first"]
        with pytest.raises(WorkflowContinuedAsNewError) as caught:
            await handle.result(follow_runs=False)
        second = client.get_workflow_handle("counting", run_id=caught.value.new_execution_run_id)
        described = await second.describe()
        assert described.status is WorkflowStatus.CONTINUED_AS_NEW
        assert described.continued_from_run_id == handle.first_execution_run_id
        last = await client.get_workflow_handle("counting").describe()
        assert (last.status, last.run_id) == (WorkflowStatus.COMPLETED, described.next_run_id)
        assert last.memo == {"k": 7}
        history = await second.fetch_history()
        assert history.events[-1].event_type == "WorkflowExecutionContinuedAsNew"

    continued, completed = WorkflowStatus.CONTINUED_AS_NEW, WorkflowStatus.COMPLETED
    assert rows(database_dsn, "counting") == ([continued, continued, completed], [completed])


async def test_a_failed_workflow_is_run_again_by_its_policy(database_dsn: str) -> None:
    async with running_node(database_dsn) as node, connected(node) as client:
        policy = RetryPolicy(initial_interval=timedelta(milliseconds=20), maximum_attempts=3)
        options: dict[str, Any] = {"task_queue": QUEUE, "retry_policy": policy}

        again = await client.execute_workflow(Failing.run, 2, id="again", **options)
        assert again == [3, "Flaky: attempt 2"]
        with pytest.raises(WorkflowFailureError) as caught:
            await client.execute_workflow(Failing.run, 3, id="never", **options)
        assert str(caught.value.cause) == "Flaky: attempt 3"
        first = await client.start_workflow(Failing.run, 1, id="once", **options)
        with pytest.raises(WorkflowFailureError) as caught:
            await first.result(follow_runs=False)
        assert str(caught.value.cause) == "Flaky: attempt 1"
        assert await first.result() == [2, "Flaky: attempt 1"]

    failed, completed = WorkflowStatus.FAILED, WorkflowStatus.COMPLETED
    assert rows(database_dsn, "again") == ([failed, failed, completed], [completed])


async def test_the_next_node_goes_on_with_a_run_that_waits_for_its_time(
    database_dsn: str,
) -> None:
    policy = RetryPolicy(initial_interval=timedelta(seconds=2))
    async with running_node(database_dsn) as node, connected(node) as client:
        handle = await client.start_workflow(
            Failing.run, 1, id="moved", task_queue=QUEUE, retry_policy=policy
        )
        with pytest.raises(WorkflowFailureError):
            await handle.result(follow_runs=False)
        waiting = await client.get_workflow_handle("moved").describe()
        assert waiting.status is WorkflowStatus.RUNNING
        assert waiting.first_task_time is not None
        assert waiting.attempt == 2

    async with running_node(database_dsn) as node, connected(node) as client:
        result = await client.get_workflow_handle("moved").result()
        assert result == [2, "Flaky: attempt 1"]


async def test_a_cron_workflow_waits_for_its_time_and_can_be_cancelled(database_dsn: str) -> None:
    async with running_node(database_dsn) as node, connected(node) as client:
        handle = await client.start_workflow(
            Counting.run, args=[1, []], id="cron", task_queue=QUEUE, cron_schedule="0 0 1 1 *"
        )
        described = await handle.describe()
        assert described.cron_schedule == "0 0 1 1 *"
        assert described.first_task_time is not None
        assert (described.first_task_time.month, described.first_task_time.day) == (1, 1)
        await handle.signal(Counting.note, "kept")
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        assert isinstance(caught.value.cause, CancelledError)
        with pytest.raises(RPCError) as refused:
            await client.start_workflow(
                Counting.run, args=[1, []], id="bad", task_queue=QUEUE, cron_schedule="10-5 * * * *"
            )
        assert refused.value.status is RPCStatusCode.INVALID_ARGUMENT
        assert [field for field, _ in refused.value.field_violations] == ["cron_schedule"]
