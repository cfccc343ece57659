"""Leaving memory: the code is closed where it stands, and nothing comes of what it still tries."""

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow
from perdure._replay.messages import TaskFailure

LIMIT = timedelta(seconds=10)


@activity.defn
async def work() -> None: ...


seen: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@asynccontextmanager
async def resource(name: str) -> AsyncIterator[None]:
    try:
        yield
    finally:
        seen.append(f"{name} closing")
        await workflow.execute_activity(work, start_to_close_timeout=LIMIT)
        seen.append(f"{name} closed")


async def background() -> None:
    await asyncio.Event().wait()


async def activity_in_finally() -> None:
    async with resource("it"):
        await workflow.execute_activity(work, start_to_close_timeout=LIMIT)


async def awaits_in_finally() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(3):
            await asyncio.Event().wait()


async def swallows_everything_for_a_while() -> None:
    for _ in range(5):
        try:
            await asyncio.Event().wait()
        except BaseException:
            seen.append("again")


async def raises_in_finally() -> None:
    try:
        await workflow.sleep(60)
    finally:
        raise ValueError("while closing")


async def time_limit() -> None:
    async with asyncio.timeout(60):
        await asyncio.Event().wait()


async def task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(background())
        group.create_task(background())


async def logs_in_finally() -> None:
    try:
        await workflow.sleep(60)
    finally:
        workflow.logger.warning("not to be said")


async def children() -> None:
    """One started, one starting, a signal and a request to cancel on their way."""
    handle = workflow.get_external_workflow_handle("o")
    others = [
        asyncio.create_task(workflow.execute_child_workflow("Child", id="starting")),
        asyncio.create_task(handle.signal("hello")),
        asyncio.create_task(handle.cancel()),
    ]
    started = await workflow.start_child_workflow("Child", id="started")
    try:
        await started
    finally:
        started.cancel()
        await asyncio.wait(others)
        seen.append("it closed")


def holding(how: Callable[[], Awaitable[None]]) -> type:
    @workflow.defn
    class Holding:
        @workflow.run
        async def run(self) -> None:
            self.other = asyncio.create_task(background())
            await how()

    return Holding


@pytest.mark.parametrize(
    "how",
    [
        activity_in_finally,
        awaits_in_finally,
        swallows_everything_for_a_while,
        raises_in_finally,
        time_limit,
        task_group,
        logs_in_finally,
        children,
    ],
)
def test_eviction_is_quiet_and_without_effect(
    how: Callable[[], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    run = PocketEngine(holding(how))
    live = names(run.task())

    run.instance.evict()
    run.instance.evict()  # twice is fine
    gc.collect()

    assert caplog.records == []
    assert capsys.readouterr() == ("", "")
    assert "it closed" not in seen
    assert names(run.replay()) == live  # and the history goes on elsewhere


def test_a_run_whose_child_has_started_is_evicted_quietly(caplog: pytest.LogCaptureFixture) -> None:
    run = PocketEngine(holding(children))
    run.task()
    run.child_started("started")
    assert run.task() == []
    run.instance.evict()
    gc.collect()

    assert caplog.records == []
    assert seen == []
    run.child_completed("started")
    run.begin_task()
    assert "RequestCancelExternalWorkflow started" not in names(run.replay())


def test_an_evicted_object_takes_no_task() -> None:
    run = PocketEngine(holding(time_limit))
    run.task()
    run.instance.evict()
    run.begin_task()

    assert not run.instance.fits(run.message(run.events[run.sent :]))


def test_eviction_leaves_nothing_for_the_garbage_collector() -> None:
    class Marker:
        pass

    @workflow.defn
    class Marked:
        def __init__(self) -> None:
            self.marker = Marker()
            watched.append(weakref.ref(self.marker))

        @workflow.run
        async def run(self, end: bool) -> None:
            handle = workflow.start_activity(work, start_to_close_timeout=LIMIT)
            child = asyncio.create_task(workflow.execute_child_workflow("Child", id="c"))
            await asyncio.sleep(0)  # noqa: TID251 - to let it begin
            if not end:
                await handle
                await child

    watched: list[weakref.ref[Marker]] = []
    gc.collect()
    gc.disable()
    try:
        for end in (False, True):
            run = PocketEngine(Marked, end)
            run.task()
            run.instance.evict()
        assert [ref() for ref in watched] == [None, None]
    finally:
        gc.enable()


def test_an_activity_that_is_over_keeps_no_run_for_the_garbage_collector() -> None:
    """Its handle and its machine know each other: a run each that nobody frees, thousands a minute."""

    @workflow.defn
    class Working:
        @workflow.run
        async def run(self) -> None:
            await workflow.execute_activity(work, start_to_close_timeout=LIMIT)

    gc.collect()
    gc.disable()
    try:
        run = PocketEngine(Working)
        run.task()
        run.complete("1")
        run.task()
        watched = weakref.ref(run.instance._run.loop)
        run.instance.evict()
        del run
        assert watched() is None
    finally:
        gc.enable()


def test_a_run_that_failed_a_task_is_evicted_quietly(caplog: pytest.LogCaptureFixture) -> None:
    @workflow.defn
    class Broken:
        @workflow.signal
        def number(self, value: int) -> None: ...

        @workflow.run
        async def run(self) -> None:
            await workflow.sleep(1)

    run = PocketEngine(Broken)
    run.signal("number", "none")
    assert isinstance(run.run_task(), TaskFailure)
    run.instance.evict()
    gc.collect()

    assert caplog.records == []
