"""A program as it is written for Temporal: it undoes what it has done in `except ActivityError` only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import activity, workflow
from perdure.common import WorkflowStatus
from perdure.errors import (
    ActivityError,
    CancelledError,
    ChildWorkflowError,
    WorkflowFailureError,
    is_cancelled_exception,
)
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker
from perdure.workflow import ActivityCancellationType

STEP = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Payments:
    def __init__(self) -> None:
        self.refunded: list[str] = []
        self.under_way = asyncio.Semaphore(0)

    @activity.defn
    async def charge(self, whom: str) -> None:
        """Goes on until it is cancelled."""
        self.under_way.release()
        await asyncio.Event().wait()

    @activity.defn
    async def refund(self, whom: str) -> None:
        self.refunded.append(whom)


@workflow.defn
class Shipment:
    @workflow.run
    async def run(self, what: str) -> None:
        await workflow.execute_activity_method(Payments.charge, what, start_to_close_timeout=HOUR)


@workflow.defn
class Order:
    """Pays two people and sends one parcel, all at once."""

    async def pay(self, whom: str, how: ActivityCancellationType) -> None:
        try:
            await workflow.execute_activity_method(
                Payments.charge, whom, start_to_close_timeout=HOUR, cancellation_type=how
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                await self.refund(whom)
            raise

    async def send(self, what: str) -> None:
        try:
            await workflow.execute_child_workflow(Shipment.run, what)
        except ChildWorkflowError as error:
            if is_cancelled_exception(error):
                await self.refund(what)
            raise

    async def refund(self, whom: str) -> None:
        await workflow.execute_activity_method(Payments.refund, whom, start_to_close_timeout=STEP)

    @workflow.run
    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pay("seller", ActivityCancellationType.TRY_CANCEL))
            waiting = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
            group.create_task(self.pay("carrier", waiting))
            group.create_task(self.send("parcel"))


@workflow.defn
class Hurried:
    @workflow.run
    async def run(self) -> str:
        try:
            async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                for whom in ("seller", "carrier"):
                    group.create_task(
                        workflow.execute_activity_method(
                            Payments.charge,
                            whom,
                            task_queue="nobody-polls",
                            start_to_close_timeout=HOUR,
                        )
                    )
        except TimeoutError:
            return "took too long"
        return "paid"


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        yield env


def worker(env: WorkflowEnvironment, payments: Payments, cached: int) -> Worker:
    return Worker(
        env.client,
        task_queue="q",
        workflows=[Order, Shipment, Hurried],
        activities=[payments.charge, payments.refund],
        max_cached_workflows=cached,
    )


@pytest.mark.parametrize("cached", [0, 1000])
async def test_a_cancelled_run_undoes_all_of_a_group_and_ends_as_cancelled(
    env: WorkflowEnvironment, cached: int
) -> None:
    payments = Payments()
    async with worker(env, payments, cached):
        handle = await env.client.start_workflow(Order.run, id="o", task_queue="q")
        for _ in range(3):
            await payments.under_way.acquire()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert isinstance(failed.value.cause, CancelledError)
    assert (await handle.describe()).status is WorkflowStatus.CANCELED
    assert sorted(payments.refunded) == ["carrier", "parcel", "seller"]


@pytest.mark.parametrize("cached", [0, 1000])
async def test_a_time_limit_around_a_group_of_activities_ends_as_everywhere_in_asyncio(
    env: WorkflowEnvironment, cached: int
) -> None:
    async with worker(env, Payments(), cached):
        result = await env.client.execute_workflow(Hurried.run, id="h", task_queue="q")

    assert result == "took too long"
