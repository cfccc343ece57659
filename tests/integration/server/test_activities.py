"""Activities over real gRPC and PostgreSQL: outcomes from outside, checkpoints, operation, processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.engine_node import running_node

from perdure import activity, workflow
from perdure.client import (
    AsyncActivityCancelledError,
    Client,
    PendingActivity,
    PendingActivityState,
    RPCError,
    RPCStatusCode,
    WorkflowFailureError,
    WorkflowHandle,
)
from perdure.common import ActivityOptionsUpdate, RawValue, RetryPolicy
from perdure.errors import ActivityError, ApplicationError, AttemptLostError, CancelledError
from perdure.worker import Worker

MINUTE = timedelta(minutes=1)
QUEUE = "activities"


@workflow.defn
class CallOne:
    """Runs one activity by its name."""

    @workflow.run
    async def run(self, name: str, attempts: int = 0) -> Any:
        return await workflow.execute_activity(
            name,
            "order-1",
            activity_id="one",
            start_to_close_timeout=MINUTE,
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(milliseconds=1), maximum_attempts=attempts
            ),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


@asynccontextmanager
async def working(
    address: str, *activities: Callable[..., Any], **options: Any
) -> AsyncIterator[Client]:
    async with await Client.connect(address) as client:
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[CallOne],
            activities=list(activities),
            graceful_shutdown_timeout=timedelta(0),
            **options,
        )
        async with worker:
            yield client


async def start(client: Client, *args: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow("CallOne", args=args, id="call", task_queue=QUEUE)


async def shown(handle: WorkflowHandle[Any, Any], *states: PendingActivityState) -> PendingActivity:
    """The pending activity, as soon as it is in one of the states."""
    async with asyncio.timeout(30):
        while True:
            described = await handle.describe()
            for one in described.pending_activities:
                if one.state in states:
                    return one


# --- async completion -----------------------------------------------------------------------------


class Handing:
    """An activity that hands its outcome over, and tells the test of each attempt."""

    def __init__(self) -> None:
        self.attempts: asyncio.Queue[activity.Info] = asyncio.Queue()

    @activity.defn
    async def approve(self, order: str) -> str:
        activity.heartbeat("asked for", order)
        self.attempts.put_nowait(activity.info())
        activity.raise_complete_async()


async def test_inv16_an_outcome_from_outside_after_worker_and_engine_have_gone(
    database_dsn: str,
) -> None:
    """Invariants 16, 30: no lease puts it back, of this owner or of the next; one outcome counts."""
    handing = Handing()
    async with (
        running_node(database_dsn, {"history.lease_s": 1}) as node,
        working(node.address, handing.approve) as client,
    ):
        run = await start(client, "approve")
        info = await handing.attempts.get()
        pending = await shown(run, PendingActivityState.STARTED)
        assert pending.attempt == 1
        handle = client.get_async_activity_handle(task_token=info.task_token)
        await handle.heartbeat("seen by", "Ada")
    async with (
        running_node(database_dsn, {"history.lease_s": 1}) as node,
        working(node.address, handing.approve) as client,
    ):
        run = client.get_workflow_handle("call")
        by_ids = client.get_async_activity_handle(
            workflow_id="call", run_id=None, activity_id="one"
        )
        await by_ids.heartbeat()
        pending = await shown(run, PendingActivityState.STARTED)
        found = client.data_converter.payload_converter.from_payloads(pending.heartbeat_details)
        assert (pending.attempt, found) == (1, ["seen by", "Ada"])
        handle = client.get_async_activity_handle(task_token=info.task_token)
        await handle.complete("granted")
        assert await run.result() == "granted"
        with pytest.raises(RPCError) as late:
            await handle.complete("granted again")
        assert late.value.status is RPCStatusCode.NOT_FOUND
    assert handing.attempts.empty()


async def test_a_failure_from_outside_is_retried_with_its_progress(database_dsn: str) -> None:
    handing = Handing()
    async with (
        running_node(database_dsn) as node,
        working(node.address, handing.approve) as client,
    ):
        run = await start(client, "approve")
        first = await handing.attempts.get()
        handle = client.get_async_activity_handle(task_token=first.task_token)
        await shown(run, PendingActivityState.STARTED)
        await handle.fail(ApplicationError("busy", type="Busy"), last_heartbeat_details=["k"])
        second = await handing.attempts.get()
        assert (second.attempt, second.heartbeat_details) == (2, ["k"])
        by_ids = client.get_async_activity_handle(
            workflow_id="call", run_id=run.result_run_id, activity_id="one"
        )
        await by_ids.fail(ApplicationError("no", type="Never", non_retryable=True))
        with pytest.raises(WorkflowFailureError) as failed:
            await run.result()
    assert isinstance(failed.value.cause, ActivityError)
    assert isinstance(failed.value.cause.cause, ApplicationError)
    assert failed.value.cause.cause.type == "Never"


async def test_cancellation_reaches_who_completes_from_outside(database_dsn: str) -> None:
    handing = Handing()
    async with (
        running_node(database_dsn) as node,
        working(node.address, handing.approve) as client,
    ):
        run = await start(client, "approve")
        info = await handing.attempts.get()
        handle = client.get_async_activity_handle(task_token=info.task_token)
        with pytest.raises(RPCError) as early:
            await handle.report_cancellation()
        assert early.value.status is RPCStatusCode.FAILED_PRECONDITION
        await run.cancel()
        await shown(run, PendingActivityState.CANCEL_REQUESTED)
        with pytest.raises(AsyncActivityCancelledError):
            await handle.heartbeat()
        await handle.report_cancellation("stopped")
        with pytest.raises(WorkflowFailureError) as failed:
            await run.result()
    assert isinstance(failed.value.cause, CancelledError)


async def test_a_cancellation_is_raised_in_a_thread_and_not_in_a_shield(database_dsn: str) -> None:
    begun, told = threading.Event(), threading.Event()
    done: list[str] = []

    @activity.defn
    def spins(_: str) -> None:
        try:
            with activity.shield_thread_cancel_exception():
                begun.set()
                activity.wait_for_cancelled_sync()
                done.append("whole")
        finally:
            told.set()
        done.append("never")

    async with running_node(database_dsn) as node, working(node.address, spins) as client:
        run = await start(client, "spins")
        await asyncio.to_thread(begun.wait)
        await run.cancel()
        with pytest.raises(WorkflowFailureError) as failed:
            await run.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert told.is_set()
    assert done == ["whole"]


# --- progress -------------------------------------------------------------------------------------


async def test_b18_the_next_attempt_resumes_from_the_checkpoint(database_dsn: str) -> None:
    """B18, invariant 33: what a lost attempt says afterwards changes no row, and it is told to stop."""
    seen: list[list[Any]] = []
    gates = [asyncio.Event(), asyncio.Event()]
    told = asyncio.Event()

    @activity.defn
    async def book(_: str) -> str:
        seen.append(list(activity.info().heartbeat_details))
        if activity.info().attempt == 1:
            await activity.checkpoint("row", 7)
            gates[0].set()
            try:
                await gates[1].wait()
                await activity.checkpoint("row", 8)
            except (AttemptLostError, asyncio.CancelledError):  # the heartbeat may be first
                told.set()
            return "stale"
        return f"from {activity.info().heartbeat_details[1]}"

    async with running_node(database_dsn) as node, working(node.address, book) as client:
        run = await start(client, "book")
        await gates[0].wait()
        by_ids = client.get_async_activity_handle(
            workflow_id="call", run_id=None, activity_id="one"
        )
        await by_ids.fail(ApplicationError("given up by an operator"))
        assert await run.result() == "from 7"
        gates[1].set()
        await told.wait()
    assert seen == [[], ["row", 7]]


async def test_checkpoints_in_threads_and_what_fails_after_them(database_dsn: str) -> None:
    @activity.defn
    def book(_: str) -> list[Any]:
        done = list(activity.info().heartbeat_details)
        if not done:
            activity.checkpoint_sync(1)
            activity.heartbeat(2)
            raise ApplicationError("the row after the second is bad")
        return done

    async with running_node(database_dsn) as node, working(node.address, book) as client:
        run = await start(client, "book")
        assert await run.result() == [2]


# --- kinds of activities --------------------------------------------------------------------------


@activity.defn(dynamic=True)
async def anything(args: Sequence[RawValue]) -> str:
    values = [activity.payload_converter().from_payload(one.payload, str) for one in args]
    return f"{activity.info().activity_type}{values}"


async def test_a_dynamic_activity_takes_what_nobody_else_does(database_dsn: str) -> None:
    async with running_node(database_dsn) as node, working(node.address, anything) as client:
        assert await (await start(client, "never heard of")).result() == (
            "never heard of['order-1']"
        )


@activity.defn
def in_a_process(order: str) -> list[Any]:
    if activity.info().attempt == 1:
        activity.heartbeat("from", "child")
        activity.checkpoint_sync("child", order)
        raise ApplicationError("again", "detail", type="Again")
    return [multiprocessing.parent_process() is not None, *activity.info().heartbeat_details]


@activity.defn
def waits_in_a_process(_: str) -> str:
    activity.checkpoint_sync("waits")
    activity.wait_for_cancelled_sync(30)
    activity.raise_if_cancelled()
    return "nobody told it"


@activity.defn
def dies(_: str) -> None:
    os._exit(3)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> ProcessPoolExecutor:
    """Their path is ours: they import this module by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # type: ignore[no-untyped-call]  # pytest's
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


async def test_sync_activities_run_in_processes(
    database_dsn: str, processes: ProcessPoolExecutor
) -> None:
    with processes:
        async with (
            running_node(database_dsn) as node,
            working(
                node.address, in_a_process, waits_in_a_process, activity_executor=processes
            ) as client,
        ):
            assert await (await start(client, "in_a_process")).result() == [
                True,
                "child",
                "order-1",
            ]
            run = await start(client, "waits_in_a_process")
            while not (await shown(run, PendingActivityState.STARTED)).heartbeat_details:
                pass
            await run.cancel()
            with pytest.raises(WorkflowFailureError) as failed:
                await run.result()
    assert isinstance(failed.value.cause, CancelledError)


async def test_a_worker_whose_pool_is_broken_ends(
    database_dsn: str, processes: ProcessPoolExecutor
) -> None:
    """What it holds goes back: another worker runs it."""
    with processes:
        async with running_node(database_dsn) as node, await Client.connect(node.address) as client:
            worker = Worker(
                client,
                task_queue=QUEUE,
                workflows=[CallOne],
                activities=[dies],
                activity_executor=processes,
                graceful_shutdown_timeout=timedelta(0),
            )
            run = await start(client, "dies")
            with pytest.raises(BrokenExecutor):
                await worker.run()
            await shown(run, PendingActivityState.SCHEDULED)


def prices(*versions: int) -> list[Callable[..., Any]]:
    """The functions of one activity, a version each."""

    def of(number: int) -> Callable[..., Any]:
        @activity.defn(name="price", version=number)
        async def price(_: str) -> int:
            return number

        return price

    return [of(number) for number in versions]


@workflow.defn
class Pricing:
    """Calls an activity twice, and waits in between."""

    def __init__(self) -> None:
        self.may_go_on = False

    @workflow.run
    async def run(self) -> list[int]:
        first = await workflow.execute_activity("price", "a", start_to_close_timeout=MINUTE)
        await workflow.wait_condition(lambda: self.may_go_on)
        return [
            first,
            await workflow.execute_activity("price", "b", start_to_close_timeout=MINUTE),
        ]

    @workflow.signal
    def go_on(self) -> None:
        self.may_go_on = True

    @workflow.query
    def waits(self) -> bool:
        return not self.may_go_on


async def test_a_run_ends_with_the_activity_version_that_it_began_with(database_dsn: str) -> None:
    async with running_node(database_dsn) as node, await Client.connect(node.address) as client:

        async def begin(id: str) -> WorkflowHandle[Any, Any]:
            run = await client.start_workflow("Pricing", id=id, task_queue=QUEUE)
            async with asyncio.timeout(20):
                while not (await run.query("waits")):
                    pass
            while (await run.describe()).pending_activities:
                pass
            return run

        def worker(*versions: int) -> Worker:
            return Worker(
                client,
                task_queue=QUEUE,
                workflows=[Pricing],
                activities=prices(*versions),
                graceful_shutdown_timeout=timedelta(0),
            )

        async with worker(1):
            old = await begin("old")
        async with worker(1, 2):
            new = await begin("new")
            for run in (old, new):
                await run.signal("go_on")
            assert (await old.result(), await new.result()) == ([1, 1], [2, 2])


# --- operating pending activities -----------------------------------------------------------------


async def test_a_running_attempt_is_told_of_the_pause_and_is_not_counted(
    database_dsn: str,
) -> None:
    begun, told = asyncio.Event(), threading.Event()
    attempts: list[int] = []

    @activity.defn
    async def charge(_: str) -> str:
        attempts.append(activity.info().attempt)
        if len(attempts) > 1:
            return "done"
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            why = activity.cancellation_details()
            assert why is not None
            assert why.paused
            told.set()
            raise
        return "never"

    async with running_node(database_dsn) as node, working(node.address, charge) as client:
        run = await start(client, "charge", 2)
        await begun.wait()
        await client.operator.pause_activity("call", activity_id="one", reason="provider down")
        pending = await shown(run, PendingActivityState.PAUSED)
        assert (pending.pause_reason, pending.attempt) == ("provider down", 1)
        await client.operator.update_activity_options(
            "call",
            ActivityOptionsUpdate(heartbeat_timeout=timedelta(seconds=20)),
            activity_type="charge",
        )
        pending = await shown(run, PendingActivityState.PAUSED)
        assert pending.options is not None
        assert pending.options.heartbeat_timeout == timedelta(seconds=20)
        await client.operator.reset_activity("call", activity_id="one", keep_paused=True)
        await client.operator.unpause_activity("call", activity_id="one")
        assert await run.result() == "done"
    assert told.is_set()
    assert attempts == [1, 1]
