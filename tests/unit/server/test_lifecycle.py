"""Start in order, stop in reverse, in bounded time, whatever the parts do."""

from __future__ import annotations

import asyncio

import pytest

from perdure_engine.server.lifecycle import Lifecycle

LONG_S = 60.0
SHORT_S = 0.05


class Part:
    """Writes down what is done to it."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self.name = name
        self._diary = diary

    async def start(self) -> None:
        self._diary.append(f"start {self.name}")

    async def stop(self) -> None:
        self._diary.append(f"stop {self.name}")


class Broken(Part):
    async def start(self) -> None:
        await super().start()
        raise ValueError("broken")

    async def stop(self) -> None:
        await super().stop()
        raise ValueError("broken")


class Stuck(Part):
    """Does not stop, and does not heed its cancellation either."""

    def __init__(self, name: str, diary: list[str]) -> None:
        super().__init__(name, diary)
        self.released = asyncio.Event()

    async def stop(self) -> None:
        await super().stop()
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self._diary.append(f"cancel {self.name}")


async def test_parts_stop_in_reverse_and_once() -> None:
    diary: list[str] = []
    lifecycle = Lifecycle()
    async with lifecycle.starting():
        for name in ("store", "lease", "doors"):
            part = Part(name, diary)
            await lifecycle.begin(name, part.start, part.stop)
        lifecycle.at_stop("leave", Part("all", diary).stop)

    await asyncio.gather(lifecycle.stop(), lifecycle.stop())
    await lifecycle.stop()

    assert diary == [
        *("start store", "start lease", "start doors"),
        *("stop all", "stop doors", "stop lease", "stop store"),
    ]


async def test_a_start_that_fails_stops_what_was_begun() -> None:
    diary: list[str] = []
    lifecycle = Lifecycle()
    store, lease = Part("store", diary), Broken("lease", diary)

    async def start() -> None:
        async with lifecycle.starting():
            await lifecycle.begin("store", store.start, store.stop)
            await lifecycle.begin("lease", lease.start, lease.stop)

    with pytest.raises(ValueError, match="broken"):
        await start()

    assert diary == ["start store", "start lease", "stop lease", "stop store"]


async def test_a_start_that_is_cancelled_stops_what_was_begun() -> None:
    diary: list[str] = []
    begun, never = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        lifecycle = Lifecycle()
        store = Part("store", diary)
        async with lifecycle.starting():
            await lifecycle.begin("store", store.start, store.stop)
            begun.set()
            await never.wait()

    task = asyncio.ensure_future(start())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert diary == ["start store", "stop store"]


async def test_a_part_that_fails_to_stop_does_not_keep_the_others_from_it() -> None:
    diary: list[str] = []
    lifecycle = Lifecycle()
    lifecycle.at_stop("store", Part("store", diary).stop)
    lifecycle.at_stop("lease", Broken("lease", diary).stop)

    await lifecycle.stop()

    assert diary == ["stop lease", "stop store"]


async def test_a_part_that_does_not_stop_is_left_behind_after_its_time() -> None:
    diary: list[str] = []
    lifecycle = Lifecycle()
    stuck = Stuck("lease", diary)
    lifecycle.at_stop("store", Part("store", diary).stop)
    lifecycle.at_stop("lease", stuck.stop, limit_s=SHORT_S)

    await lifecycle.stop()
    stuck.released.set()

    assert diary == ["stop lease", "stop store", "cancel lease"] or diary == [
        "stop lease",
        "cancel lease",
        "stop store",
    ]


async def test_the_whole_stop_is_bounded_and_everybody_has_a_turn() -> None:
    diary: list[str] = []
    lifecycle = Lifecycle(stop_s=SHORT_S)
    parts = [Stuck(str(number), diary) for number in range(4)]
    for part in parts:
        lifecycle.at_stop(part.name, part.stop, limit_s=LONG_S)
    began = asyncio.get_running_loop().time()

    await lifecycle.stop()
    took_s = asyncio.get_running_loop().time() - began
    for part in parts:
        part.released.set()

    assert [line for line in diary if line.startswith("stop")] == [
        *("stop 3", "stop 2", "stop 1", "stop 0"),
    ]
    assert took_s < LONG_S


async def test_a_caller_that_is_cancelled_does_not_cut_the_stop_short() -> None:
    diary: list[str] = []
    lifecycle = Lifecycle()
    may_go_on, begun = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await may_go_on.wait()

    lifecycle.at_stop("store", Part("store", diary).stop)
    lifecycle.at_stop("lease", wait)
    caller = asyncio.ensure_future(lifecycle.stop())
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_go_on.set()
    await lifecycle.stop()

    assert diary == ["stop store"]
