"""`ActivityEnvironment`: one activity with its context, and no worker."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from perdure import activity
from perdure.errors import CancelledError
from perdure.testing import ActivityEnvironment


@activity.defn
def add(a: int, b: int = 1) -> int:
    activity.heartbeat(a, b)
    return a + b


@activity.defn
async def add_later(a: int) -> int:
    activity.heartbeat(a)
    return a + activity.info().attempt


class Bank:
    @activity.defn
    def pay(self, cents: int) -> str:
        return f"{activity.info().workflow_id} paid {cents}"

    @activity.defn
    async def refund(self, cents: int) -> str:
        return f"{activity.info().workflow_id} got {cents}"


def test_it_returns_raises_and_heartbeats() -> None:
    env = ActivityEnvironment()
    beats: list[tuple[Any, ...]] = []
    env.on_heartbeat = lambda *details: beats.append(details)

    assert env.run(add, 1) == 2
    assert env.run(add, 1, b=5) == 6
    assert beats == [(1, 1), (1, 5)]
    with pytest.raises(TypeError):
        env.run(add, "a", 1)


async def test_async_activities_are_awaited() -> None:
    env = ActivityEnvironment()
    env.info = replace(env.info, attempt=3)

    assert await env.run(add_later, 4) == 7


async def test_methods_too() -> None:
    env = ActivityEnvironment()
    env.info = replace(env.info, workflow_id="order-1")

    assert env.run(Bank().pay, 5) == "order-1 paid 5"
    assert await env.run(Bank().refund, 5) == "order-1 got 5"


def test_outside_nothing_of_it_is_left() -> None:
    ActivityEnvironment().run(add, 1)

    assert not activity.in_activity()


async def test_cancelling_an_async_one() -> None:
    env = ActivityEnvironment()
    entered = asyncio.Event()

    async def waits() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert activity.is_cancelled()
            return "cleaned up"
        return "never"

    running = asyncio.ensure_future(env.run(waits))
    await entered.wait()
    env.cancel()

    assert await running == "cleaned up"
    with pytest.raises(asyncio.CancelledError):  # what it runs from now on is cancelled as well
        await env.run(waits)


async def test_who_waits_is_cancelled_and_so_is_the_activity() -> None:
    env = ActivityEnvironment()
    entered, ended = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(env.run(waits))
    await entered.wait()
    running.cancel()

    await ended.wait()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_cancelling_one_in_a_thread() -> None:
    env = ActivityEnvironment()
    entered = threading.Event()

    def waits() -> None:
        entered.set()
        assert activity.wait_for_cancelled_sync(60)
        activity.raise_if_cancelled()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(env.run, waits)
        entered.wait()
        env.cancel()
        with pytest.raises(CancelledError):
            running.result()


def test_the_shutdown_of_the_worker() -> None:
    env = ActivityEnvironment()

    def asks() -> bool:
        before = activity.is_worker_shutdown()
        env.worker_shutdown()
        return not before and activity.is_worker_shutdown()

    assert env.run(asks)
    assert env.run(activity.is_worker_shutdown)


async def test_checkpoints_are_heard_like_heartbeats() -> None:
    env = ActivityEnvironment()
    beats: list[tuple[Any, ...]] = []
    env.on_heartbeat = lambda *details: beats.append(details)

    async def saves() -> None:
        await activity.checkpoint(1)

    await env.run(saves)
    env.run(lambda: activity.checkpoint_sync(2))
    assert beats == [(1,), (2,)]


@pytest.mark.parametrize("raises", [True, False])
def test_a_cancellation_is_raised_in_the_thread_unless_the_activity_asks(raises: bool) -> None:
    env = ActivityEnvironment()
    entered = threading.Event()

    @activity.defn(no_thread_cancel_exception=not raises)
    def works() -> str:
        with activity.shield_thread_cancel_exception():
            entered.set()
            assert activity.wait_for_cancelled_sync(60)
        return "went on"

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(env.run, works)
        entered.wait()
        env.cancel()
        if raises:
            with pytest.raises(CancelledError):
                running.result()
        else:
            assert running.result() == "went on"
