"""asyncio in workflow code: what works, in which order, and on whose event loop."""

# ruff: noqa: TID251 - asyncio.sleep(0) on the loop under test

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow

LIMIT = timedelta(seconds=10)


@activity.defn
async def work(name: str) -> str:
    return name


def result_of(cls: type, *args: Any) -> str:
    """Of a workflow that needs one task; the same on replay."""
    run = PocketEngine(cls, *args)
    live = names(run.task())
    assert names(run.replay()) == live
    assert len(live) == 1
    return live[0].removeprefix("CompleteWorkflow ")


def test_tasks_run_in_the_order_in_which_they_became_ready() -> None:
    @workflow.defn
    class Ordered:
        @workflow.run
        async def run(self) -> list[str]:
            out: list[str] = []

            async def step(name: str) -> None:
                out.append(name + "1")
                await asyncio.sleep(0)
                out.append(name + "2")

            await asyncio.gather(step("a"), step("b"), step("c"))
            return out

    assert result_of(Ordered) == "['a1', 'b1', 'c1', 'a2', 'b2', 'c2']"


def test_locks_queues_events_and_semaphores_work() -> None:
    @workflow.defn
    class Synchronised:
        @workflow.run
        async def run(self) -> list[int]:
            queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
            lock, semaphore, done = asyncio.Lock(), asyncio.Semaphore(1), asyncio.Event()
            out: list[int] = []

            async def producer() -> None:
                for number in range(3):
                    await queue.put(number)
                done.set()

            async def consumer() -> None:
                while len(out) < 3:
                    number = await queue.get()
                    async with lock, semaphore:
                        out.append(number)

            async with asyncio.TaskGroup() as group:
                group.create_task(consumer())
                group.create_task(producer())
            await done.wait()
            return out

    assert result_of(Synchronised) == "[0, 1, 2]"


def test_wait_for_ends_as_timeout_error() -> None:
    @workflow.defn
    class Impatient:
        @workflow.run
        async def run(self) -> str:
            try:
                await asyncio.wait_for(asyncio.Event().wait(), 5)
            except TimeoutError:
                return "late"
            return "in time"

    run = PocketEngine(Impatient)
    assert names(run.task()) == ["StartTimer 1 5000"]
    run.fire("1")
    assert names(run.task()) == ["CompleteWorkflow late"]
    assert names(run.replay()) == ["CompleteWorkflow late"]


@workflow.defn
class Racing:
    @workflow.run
    async def run(self, how: str) -> list[str]:
        handles = [
            workflow.start_activity(work, name, start_to_close_timeout=LIMIT) for name in "abcdef"
        ]
        if how == "wait":
            done, pending = await workflow.wait(handles, return_when=asyncio.FIRST_COMPLETED)
            return [*[await one for one in done], f"{len(pending)} pending"]
        if how == "asyncio wait":
            finished, _ = await asyncio.wait(handles, return_when=asyncio.FIRST_COMPLETED)
            return [await one for one in finished]
        iterator = workflow.as_completed(handles) if how == "as_completed" else None
        iterator = iterator or asyncio.as_completed(handles)
        return [await one for one in iterator]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("wait", "['B', 'E', '4 pending']"),
        ("asyncio wait", "['B', 'E']"),
        ("as_completed", "['E', 'B', 'F', 'A', 'C', 'D']"),
        ("asyncio as_completed", "['E', 'B', 'F', 'A', 'C', 'D']"),
    ],
)
def test_racing_is_the_same_on_each_replay(how: str, expected: str) -> None:
    run = PocketEngine(Racing, how)
    run.task()
    run.complete("5", "E")
    run.complete("2", "B")
    live = names(run.task())
    if not live:
        for activity_id, value in (("6", "F"), ("1", "A"), ("3", "C"), ("4", "D")):
            run.complete(activity_id, value)
        live = names(run.task())

    assert live == [f"CompleteWorkflow {expected}"]
    assert names(run.replay()) == live


def test_as_completed_has_a_time_limit() -> None:
    @workflow.defn
    class Limited:
        @workflow.run
        async def run(self) -> list[str]:
            handles = [
                workflow.start_activity(work, name, start_to_close_timeout=LIMIT) for name in "ab"
            ]
            out: list[str] = []
            try:
                for one in workflow.as_completed(handles, timeout=timedelta(seconds=5)):
                    out.append(await one)
            except TimeoutError:
                out.append("late")
            return out

    run = PocketEngine(Limited)
    assert names(run.task())[-1] == "StartTimer 1 5000"
    run.complete("2", "B")
    assert names(run.task()) == ["CancelTimer 1", "StartTimer 2 4000"]
    run.fire("2")
    assert names(run.task()) == ["CompleteWorkflow ['B', 'late']"]
    assert names(run.replay()) == ["CompleteWorkflow ['B', 'late']"]


def test_waiting_for_nothing_is_refused() -> None:
    @workflow.defn
    class Empty:
        @workflow.run
        async def run(self) -> None:
            await workflow.wait([])

    assert names(PocketEngine(Empty).task()) == ["FailWorkflow nothing to wait for"]


def test_an_async_generator_that_is_left_early_is_closed_on_this_loop() -> None:
    @workflow.defn
    class Leaving:
        @workflow.run
        async def run(self) -> list[str]:
            out: list[str] = []

            async def numbers() -> AsyncIterator[int]:
                try:
                    yield 1
                    yield 2
                finally:
                    await asyncio.sleep(0)
                    out.append("closed")

            async for number in numbers():
                out.append(str(number))
                break
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return out

    assert result_of(Leaving) == "['1', 'closed']"


def test_what_the_worker_has_in_its_context_does_not_reach_the_code() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="default")

    @workflow.defn
    class Looking:
        def __init__(self) -> None:
            self.seen = [variable.get()]

        @workflow.run
        async def run(self) -> list[str]:
            self.seen.append(variable.get())
            variable.set("mine")
            await asyncio.create_task(self.child())
            return self.seen

        async def child(self) -> None:
            self.seen.append(variable.get())

    variable.set("the worker's")
    assert result_of(Looking) == "['default', 'default', 'mine']"
    assert variable.get() == "the worker's"


async def test_it_runs_inside_another_event_loop() -> None:
    @workflow.defn
    class Inner:
        @workflow.run
        async def run(self) -> str:
            task = asyncio.current_task()
            assert task is not None
            await asyncio.create_task(asyncio.sleep(0))
            return task.get_name()

    outer, task = asyncio.get_running_loop(), asyncio.current_task()
    assert result_of(Inner) == "main"
    assert asyncio.get_running_loop() is outer
    assert asyncio.current_task() is task
    await asyncio.sleep(0)


def test_it_runs_in_any_thread_and_moves_between_them() -> None:
    run = PocketEngine(Racing, "wait")
    thread = threading.Thread(target=run.task)
    thread.start()
    thread.join()
    run.complete("1", "A")

    assert names(run.task()) == ["CompleteWorkflow ['A', '5 pending']"]


def test_many_rounds_do_not_pile_up() -> None:
    @workflow.defn
    class Busy:
        @workflow.run
        async def run(self, rounds: int) -> int:
            for _ in range(rounds):
                await asyncio.create_task(asyncio.sleep(0))
            return len(asyncio.all_tasks())

    assert result_of(Busy, 1_000) == "1"


def test_an_unhandled_error_of_a_background_task_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @workflow.defn
    class Background:
        @workflow.run
        async def run(self) -> None:
            async def fail() -> None:
                raise ValueError("nobody looks")

            task = asyncio.create_task(fail())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            del task
            await workflow.sleep(1)

    run = PocketEngine(Background)
    run.task()
    run.fire("1")
    run.task()
    live = [record for record in caplog.records if "exception" in record.message]
    caplog.clear()
    run.replay()

    assert len(live) == 1
    assert caplog.records == []
