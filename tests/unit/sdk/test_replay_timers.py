"""Timers: sleep, asyncio's own delays, and the race between firing and cancelling."""

# ruff: noqa: TID251 - asyncio.sleep(0) on the loop under test

import asyncio
from datetime import timedelta

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import workflow


@workflow.defn
class Sleeper:
    @workflow.run
    async def run(self, seconds: float) -> float:
        before = workflow.time()
        await workflow.sleep(seconds)
        return workflow.time() - before


@pytest.mark.parametrize(
    ("seconds", "ms"), [(5, 5000), (0.0012, 2), (1e-9, 1), (0.1, 100), (86_400.0, 86_400_000)]
)
def test_sleep_is_a_timer_of_whole_milliseconds_and_never_shorter(seconds: float, ms: int) -> None:
    run = PocketEngine(Sleeper, seconds)

    assert names(run.task()) == [f"StartTimer 1 {ms}"]
    run.fire("1")
    assert names(run.task()) == ["CompleteWorkflow 1.0"]
    assert names(run.replay()) == ["CompleteWorkflow 1.0"]


@pytest.mark.parametrize("seconds", [0, -1])
def test_sleeping_nothing_needs_no_timer(seconds: float) -> None:
    assert names(PocketEngine(Sleeper, seconds).task()) == ["CompleteWorkflow 0.0"]


def test_time_limits_of_asyncio_are_timers_and_are_cancelled_when_not_needed() -> None:
    @workflow.defn
    class Limited:
        def __init__(self) -> None:
            self.go = asyncio.Event()

        @workflow.signal
        def proceed(self) -> None:
            self.go.set()

        @workflow.run
        async def run(self) -> str:
            try:
                async with asyncio.timeout(60):
                    await self.go.wait()
            except TimeoutError:
                return "late"
            return "in time"

    for_signal = PocketEngine(Limited)
    assert names(for_signal.task()) == ["StartTimer 1 60000"]
    for_signal.signal("proceed")
    assert names(for_signal.task()) == ["CancelTimer 1", "CompleteWorkflow in time"]
    assert names(for_signal.replay()) == ["CancelTimer 1", "CompleteWorkflow in time"]

    too_late = PocketEngine(Limited)
    too_late.task()
    too_late.fire("1")
    assert names(too_late.task()) == ["CompleteWorkflow late"]
    assert names(too_late.replay()) == ["CompleteWorkflow late"]


def test_a_timer_cancelled_before_it_was_sent_leaves_no_command() -> None:
    @workflow.defn
    class Undecided:
        @workflow.run
        async def run(self) -> str:
            sleeping = asyncio.ensure_future(workflow.sleep(5))
            await asyncio.sleep(0)
            sleeping.cancel()
            await workflow.sleep(timedelta(seconds=6))
            return "slept"

    run = PocketEngine(Undecided)
    assert names(run.task()) == ["StartTimer 2 6000"]
    run.fire("2")
    assert names(run.task()) == ["CompleteWorkflow slept"]
    assert names(run.replay()) == ["CompleteWorkflow slept"]


def test_a_timer_that_fired_in_the_task_that_would_cancel_it_is_not_cancelled() -> None:
    @workflow.defn
    class Racing:
        def __init__(self) -> None:
            self.stop = False

        @workflow.signal
        def halt(self) -> None:
            self.stop = True

        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.wait_condition(lambda: self.stop, timeout=5)
            except TimeoutError:
                return "late"
            return "stopped"

    run = PocketEngine(Racing)
    run.task()
    run.signal("halt")
    run.fire("1")

    live = names(run.task())
    assert live in (["CompleteWorkflow stopped"], ["CompleteWorkflow late"])
    assert names(run.replay()) == live
