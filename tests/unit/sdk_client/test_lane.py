"""The lane: what does not wait shares a task, what waits has one of its own, and nobody can tell."""

from __future__ import annotations

import asyncio
import gc
import types
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any

import pytest

from perdure._worker.lane import Lane

WHO: ContextVar[int] = ContextVar("who", default=0)


class Works:
    """Puts work onto a lane, and knows which task carried each."""

    def __init__(self) -> None:
        self.lane = Lane()
        self.tasks: list[asyncio.Task[None]] = []
        self.ended: list[Any] = []
        self.all_ended = asyncio.Event()
        self._open = 0

    def add(self, work: Coroutine[Any, Any, Any]) -> None:
        self._open += 1
        self.lane.add(self._run(work), self.tasks.append)

    async def _run(self, work: Awaitable[Any]) -> None:
        try:
            self.ended.append(await work)
        except BaseException as error:
            self.ended.append(error)
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
        finally:
            self._open -= 1
            if not self._open:
                self.all_ended.set()

    async def wait(self) -> list[Any]:
        await asyncio.wait_for(self.all_ended.wait(), 10)
        return self.ended


async def at_once(value: Any) -> Any:
    return value


async def after(event: asyncio.Event, number: int) -> int:
    await event.wait()
    return number


async def test_what_does_not_wait_shares_one_task_and_runs_in_order() -> None:
    works = Works()
    for number in range(100):
        works.add(at_once(number))
    assert works.ended == []  # in the next turn, as tasks do

    assert await works.wait() == list(range(100))
    assert len(set(works.tasks)) == 1


async def test_what_waits_holds_up_nobody() -> None:
    works, event = Works(), asyncio.Event()
    works.add(at_once(1))
    works.add(after(event, 2))
    works.add(after(event, 3))
    works.add(at_once(4))
    works.add(at_once(5))
    for _ in range(5):
        await turn()
    assert works.ended == [1, 4, 5]

    event.set()
    assert sorted(await works.wait()) == [1, 2, 3, 4, 5]
    first, second, third, *rest = works.tasks
    assert first is second  # the first that waits keeps the task
    assert len({second, third, *rest}) == 3


async def turn() -> None:
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


async def test_what_comes_while_others_wait_begins_at_once() -> None:
    works, event = Works(), asyncio.Event()
    works.add(after(event, 1))
    await turn()
    works.add(at_once(2))
    await turn()
    await turn()

    assert works.ended == [2]
    event.set()
    await works.wait()


async def test_each_knows_the_task_that_carries_it_also_after_it_has_waited() -> None:
    works = Works()

    async def same_task() -> bool:
        task = asyncio.current_task()
        await turn()
        return task is asyncio.current_task()

    works.add(at_once(1))
    works.add(same_task())
    works.add(same_task())
    assert (await works.wait())[1:] == [True, True]


async def test_contextvars_are_each_ones_own() -> None:
    works = Works()

    async def set_and_read(number: int, waits: bool) -> tuple[int, int, int]:
        before = WHO.get()
        WHO.set(number)
        if waits:
            await turn()
        inner = await asyncio.create_task(read()) if waits else WHO.get()
        return before, WHO.get(), inner

    async def read() -> int:
        return WHO.get()

    for number, waits in ((1, False), (2, True), (3, False), (4, True)):
        works.add(set_and_read(number, waits))

    assert sorted(await works.wait()) == [(0, n, n) for n in (1, 2, 3, 4)]
    assert WHO.get() == 0


async def test_cancelling_the_task_of_one_that_waits_cancels_that_one_only() -> None:
    works, event = Works(), asyncio.Event()
    works.add(after(event, 1))
    works.add(after(event, 2))
    for _ in range(3):
        await turn()

    works.tasks[0].cancel()
    await turn()
    event.set()
    ended = await works.wait()

    assert isinstance(ended[0], asyncio.CancelledError)
    assert ended[1:] == [2]


async def test_what_is_cancelled_may_clean_up_and_wait_again() -> None:
    works, event, cleaned = Works(), asyncio.Event(), asyncio.Event()

    async def cleans_up() -> str:
        try:
            await event.wait()
        except asyncio.CancelledError:
            await turn()
            cleaned.set()
            return "cleaned"
        return "not cancelled"

    works.add(cleans_up())
    await turn()
    works.tasks[0].cancel()
    assert await works.wait() == ["cleaned"]


async def test_time_limits_and_task_groups_work_inside() -> None:
    works = Works()

    async def limited() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "in time"

    async def unlimited() -> str:
        async with asyncio.timeout(60):
            return await at_once("in time")

    async def grouped() -> int:
        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(at_once(1)), group.create_task(at_once(2))
        return one.result() + two.result()

    async def group_that_fails() -> str:
        async def fails() -> None:
            raise ValueError

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                await asyncio.Event().wait()
        except BaseExceptionGroup:
            return "failed"
        return "not failed"

    for work in (unlimited, limited, grouped, group_that_fails):
        works.add(work())
    found = await works.wait()
    assert found[0] == "in time"
    assert set(found[1:]) == {"late", 3, "failed"}


async def test_one_that_cancels_itself_and_ends_does_not_hit_the_next() -> None:
    works = Works()

    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "ended"

    async def waits() -> str:
        await turn()
        return "waited"

    works.add(cancels_itself())
    works.add(waits())
    assert await works.wait() == ["ended", "waited"]


async def test_a_defect_does_not_cost_the_others(caplog: pytest.LogCaptureFixture) -> None:
    works = Works()

    async def broken() -> None:
        raise RuntimeError("a defect")

    works.lane.add(broken(), works.tasks.append)
    works.add(at_once(1))

    assert await works.wait() == [1]
    assert "a defect" in caplog.text


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_process_ends_it(kind: type[BaseException]) -> None:
    """And leaves nothing behind that Python would complain of."""

    async def main() -> None:
        lane = Lane()

        async def ends() -> None:
            raise kind(7)

        lane.add(ends(), [].append)
        lane.add(at_once(None), [].append)
        await asyncio.Event().wait()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(kind):
            asyncio.run(main())
        gc.collect()


def test_a_loop_that_ends_before_the_work_began() -> None:
    async def main() -> None:
        Lane().add(at_once(None), [].append)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()


@types.coroutine
def _bare_yield() -> Generator[None, None, None]:
    """What sleeping for no time does."""
    yield


@pytest.mark.parametrize("make", [_bare_yield, turn])
async def test_bare_yields_and_futures(make: Callable[[], Awaitable[None]]) -> None:
    works = Works()

    async def steps() -> int:
        for _ in range(3):
            await make()
        return 1

    works.add(steps())
    works.add(steps())
    assert await works.wait() == [1, 1]
