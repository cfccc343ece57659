"""Faults that other engines had, by their number in cases/bug_reports.md: what users' code sees of them.

Here the engine runs in the test's process and skips time: a task that is lost shows as a time-out at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.client import WorkflowFailureError
from perdure.common import RetryPolicy, WorkflowStatus
from perdure.errors import ActivityError, ApplicationError, CancelledError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

STEP = timedelta(minutes=1)
ONCE = RetryPolicy(maximum_attempts=1)
MIB = 1 << 20


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        yield env


@asynccontextmanager
async def running(env: WorkflowEnvironment, **options: Any) -> AsyncIterator[Worker]:
    worker = Worker(
        env.client, task_queue="q", graceful_shutdown_timeout=timedelta(seconds=2), **options
    )
    async with worker:
        yield worker


# ---- 13


@workflow.defn
class Renewed:
    def __init__(self) -> None:
        self._told = ""

    @workflow.run
    async def run(self, round: int) -> int:
        if round == 1:
            await workflow.wait_condition(lambda: bool(self._told))
            workflow.continue_as_new(round + 1)
        return round

    @workflow.update
    def tell(self, text: str) -> str:
        self._told = text
        return f"heard {text}"


async def test_case_13_an_update_completes_as_its_run_continues_as_new(
    env: WorkflowEnvironment,
) -> None:
    async with running(env, workflows=[Renewed]):
        handle = await env.client.start_workflow(Renewed.run, 1, id="w", task_queue="q")

        heard = await handle.execute_update(Renewed.tell, "x", id="u-1")

        assert heard == "heard x"
        assert await handle.result() == 2
        first = env.client.get_workflow_handle("w", run_id=handle.first_execution_run_id)
        again = first.get_update_handle("u-1")
        assert await again.result() == "heard x"


# ---- 15


@activity.defn
def five_mib() -> str:
    return "x" * (5 * MIB)


@activity.defn
def length(text: str) -> int:
    return len(text)


@workflow.defn
class TooMuch:
    @workflow.run
    async def run(self) -> str:
        try:
            await workflow.execute_activity(five_mib, start_to_close_timeout=STEP)
        except ActivityError as error:
            cause = error.cause
            assert isinstance(cause, ApplicationError)
            return f"{cause.type}: {cause.message}"
        return "it fitted"


@workflow.defn
class ManyAtOnce:
    @workflow.run
    async def run(self) -> int:
        texts = ["y" * 20_000] * 300
        lengths = await asyncio.gather(
            *(
                workflow.execute_activity(length, text, start_to_close_timeout=STEP)
                for text in texts
            )
        )
        return sum(lengths)


@workflow.defn(name="ManyAtOnce")
class FewerAtOnce:
    @workflow.run
    async def run(self) -> int:
        texts = ["y" * 20_000] * 300
        lengths = await workflow.map(length, texts, concurrency=50, start_to_close_timeout=STEP)
        return sum(lengths.values)


async def test_case_15_a_result_that_is_too_large_fails_by_name_and_at_once(
    env: WorkflowEnvironment,
) -> None:
    async with running(env, workflows=[TooMuch], activities=[five_mib]):
        told = await env.client.execute_workflow(TooMuch.run, id="w", task_queue="q")

    assert "5" in told
    assert "2" in told
    assert told.startswith("PayloadTooLargeError"), told
    events = (await env.client.get_workflow_handle("w").fetch_history()).events
    failed = [one for one in events if one.event_type == "ActivityTaskFailed"]
    assert len(failed) == 1, "within one attempt"


async def test_case_15_commands_beyond_one_message_fail_the_task_by_name(
    env: WorkflowEnvironment,
) -> None:
    """6 MB of activity inputs in one workflow task. The mended code goes on with the same run."""
    handle = await env.client.start_workflow(ManyAtOnce.run, id="w", task_queue="q")
    async with running(env, workflows=[ManyAtOnce], activities=[length]):
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.event_type == "WorkflowTaskFailed":
                break
    assert event.attributes["cause"] == "WORKFLOW_TASK_FAILED_CAUSE_BAD_COMMAND"
    assert "start fewer things at once" in event.attributes["failure"].message

    async with running(env, workflows=[FewerAtOnce], activities=[length]):
        assert await handle.result() == 300 * 20_000


# ---- 27

NOT_AGAIN = RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_attempts=2)


@activity.defn
def counts_then_fails() -> int:
    seen = activity.info().heartbeat_details
    if seen:
        return int(seen[0])
    for number in (1, 2, 3, 4):
        activity.heartbeat(number)
    raise RuntimeError("after 4")


@workflow.defn
class Progressing:
    @workflow.run
    async def run(self) -> int:
        return await workflow.execute_activity(
            counts_then_fails, start_to_close_timeout=STEP, retry_policy=NOT_AGAIN
        )


async def test_case_27_the_next_attempt_sees_the_last_progress(env: WorkflowEnvironment) -> None:
    """Invariant 33."""
    async with running(env, workflows=[Progressing], activities=[counts_then_fails]):
        assert await env.client.execute_workflow(Progressing.run, id="w", task_queue="q") == 4


# ---- 28


@activity.defn
async def attempt() -> int:
    return activity.info().attempt


@workflow.defn
class Attempts:
    @workflow.run
    async def run(self) -> int:
        return max(
            [
                await workflow.execute_activity(attempt, start_to_close_timeout=STEP)
                for _ in range(3)
            ]
        )


async def test_case_28_workers_come_and_go_and_no_task_is_lost_in_between(
    env: WorkflowEnvironment,
) -> None:
    """A rolling restart of 4 workers, 3 times round. What a poll lost would come back as attempt 2."""
    everything = {"workflows": [Attempts], "activities": [attempt]}
    async with AsyncExitStack() as keeps:
        workers = [running(env, **everything) for _ in range(4)]
        for one in workers:
            await keeps.enter_async_context(one)
        stop = asyncio.Event()
        ended: list[int] = []

        async def load(lane: int) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                ended.append(
                    await env.client.execute_workflow(
                        Attempts.run, id=f"w-{lane}-{number}", task_queue="q"
                    )
                )

        lanes = [asyncio.create_task(load(lane)) for lane in range(8)]
        for _ in range(12):
            before = len(ended)
            async with running(env, **everything):
                while len(ended) < before + 5:  # noqa: ASYNC110  # it runs beside the others
                    await asyncio.sleep(0)
        stop.set()
        await asyncio.gather(*lanes)

    assert len(ended) >= 60
    assert set(ended) == {1}


# ---- 30


@activity.defn
async def book(what: str) -> str:
    if what == "car":
        await asyncio.Event().wait()
    return what


UNDONE: list[str] = []


@activity.defn
async def cancel_booking(what: str) -> None:
    UNDONE.append(what)


@workflow.defn
class Trip:
    @workflow.run
    async def run(self) -> None:
        async with workflow.saga() as saga:
            for what in ("flight", "hotel", "car"):
                saga.add(
                    workflow.execute_activity, cancel_booking, what, start_to_close_timeout=STEP
                )
                await workflow.execute_activity(book, what, start_to_close_timeout=10 * STEP)


async def test_case_30_compensations_run_beyond_the_cancellation(env: WorkflowEnvironment) -> None:
    """Invariant 50: the step whose outcome is not known is compensated too."""
    UNDONE.clear()
    async with running(env, workflows=[Trip], activities=[book, cancel_booking]):
        handle = await env.client.start_workflow(Trip.run, id="w", task_queue="q")
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.event_type == "ActivityTaskScheduled" and "car" in str(event):
                break
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert isinstance(failed.value.cause, CancelledError)
    assert UNDONE == ["car", "hotel", "flight"]
    assert (await handle.describe()).status is WorkflowStatus.CANCELED


# ---- 31


@workflow.defn
class Collector:
    @workflow.init
    def __init__(self, carried: list[int]) -> None:
        self._seen = list(carried)

    @workflow.run
    async def run(self, carried: list[int]) -> list[int]:
        await workflow.wait_condition(lambda: len(self._seen) > 0)
        if not carried:
            workflow.continue_as_new(self._seen)
        await workflow.wait_condition(lambda: len(self._seen) >= 11)
        return self._seen

    @workflow.signal
    def add(self, number: int) -> None:
        self._seen.append(number)


async def test_case_31_signals_that_arrive_with_continue_as_new_are_all_there(
    env: WorkflowEnvironment,
) -> None:
    """Invariant 12: each goes to exactly one of the two runs, in order."""
    handle = await env.client.start_workflow(Collector.run, [], id="w", task_queue="q")
    for number in range(11):
        await handle.signal(Collector.add, number)
    async with running(env, workflows=[Collector]):
        assert await handle.result() == list(range(11))


# ---- 39


@workflow.defn
class Echo:
    @workflow.run
    async def run(self, value: Any) -> Any:
        return await workflow.execute_activity(
            "echo", value, start_to_close_timeout=STEP, retry_policy=ONCE
        )


@activity.defn
def echo(value: Any) -> Any:
    return float("nan") if value == "nan" else value


@pytest.mark.parametrize("value", ["a\u0000b", None, [1], "\u202e", {"\u0000": 1}, ""])
async def test_case_39_odd_values_come_back_as_they_were(
    env: WorkflowEnvironment, value: Any
) -> None:
    async with running(env, workflows=[Echo], activities=[echo]):
        assert await env.client.execute_workflow(Echo.run, value, id="w", task_queue="q") == value


async def test_case_39_what_is_no_json_fails_the_activity_by_name(
    env: WorkflowEnvironment,
) -> None:
    async with running(env, workflows=[Echo], activities=[echo]):
        with pytest.raises(WorkflowFailureError) as failed:
            await env.client.execute_workflow(Echo.run, "nan", id="w", task_queue="q")

    error = failed.value.cause
    assert isinstance(error, ActivityError)
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.type == "PayloadEncodeError"


# ---- 42


@activity.defn
async def hangs_the_second_time() -> int:
    number = activity.info().attempt
    if number == 1:
        raise RuntimeError("once")
    if number == 2:
        await asyncio.Event().wait()
    return number


@workflow.defn
class Local:
    @workflow.run
    async def run(self) -> int:
        return await workflow.execute_local_activity(
            hangs_the_second_time,
            start_to_close_timeout=timedelta(milliseconds=200),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=1)),
        )


async def test_case_42_a_local_activity_that_hangs_times_out_and_is_tried_again(
    env: WorkflowEnvironment,
) -> None:
    """Invariant 13: nothing waits for what nobody will produce."""
    async with running(env, workflows=[Local], activities=[hangs_the_second_time]):
        assert await env.client.execute_workflow(Local.run, id="w", task_queue="q") == 3
