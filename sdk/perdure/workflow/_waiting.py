"""Waiting: for time, for a condition, for several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import TypeVar

from perdure._replay.run import current_run

_T = TypeVar("_T")


async def sleep(duration: float | timedelta, *, summary: str | None = None) -> None:
    """A durable timer. Nothing or less only lets others run, without a timer.

    `summary` is shown beside it to people.
    """
    seconds = _seconds(duration)
    if summary is not None:
        _name_next_timer(summary, seconds)
    await asyncio.sleep(seconds)  # noqa: TID251 - on the workflow's loop


async def wait_condition(
    fn: Callable[[], bool],
    *,
    timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as users know it
    timeout_summary: str | None = None,
) -> None:
    """Returns when `fn` is true; it is asked whenever all tasks of the workflow wait.

    Raises the built-in TimeoutError when that takes longer than `timeout`. `fn` must not change
    anything. `timeout_summary` is shown beside the timer to people.
    """
    run = current_run()
    if timeout is None or run.ask(fn):
        await run.conditions.wait(fn)
        return
    seconds = _seconds(timeout)
    if timeout_summary is not None:
        _name_next_timer(timeout_summary, seconds)
    async with asyncio.timeout(seconds):
        await run.conditions.wait(fn)


async def wait(
    fs: Iterable[asyncio.Future[_T]],
    *,
    timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as users know it
    return_when: str = asyncio.ALL_COMPLETED,
) -> tuple[list[asyncio.Future[_T]], list[asyncio.Future[_T]]]:
    """asyncio.wait with lists in the order given instead of sets: (done, pending)."""
    futures = list(dict.fromkeys(fs))
    if not futures:
        raise ValueError("nothing to wait for")
    seconds = None if timeout is None else _seconds(timeout)
    done, _ = await asyncio.wait(futures, timeout=seconds, return_when=return_when)
    return [one for one in futures if one in done], [one for one in futures if one not in done]


def as_completed(
    fs: Iterable[Awaitable[_T]], *, timeout: float | timedelta | None = None
) -> Iterator[Awaitable[_T]]:
    """asyncio.as_completed in an order that is the same on each replay."""
    futures: list[asyncio.Future[_T]] = [asyncio.ensure_future(one) for one in fs]
    seconds = None if timeout is None else _seconds(timeout)
    finished: asyncio.Queue[asyncio.Future[_T]] = asyncio.Queue()
    for future in futures:
        future.add_done_callback(finished.put_nowait)
    end = None if seconds is None else asyncio.get_running_loop().time() + seconds

    async def following() -> _T:
        async with asyncio.timeout_at(end):
            future = await finished.get()
        return await future

    for _ in futures:
        yield following()


def _name_next_timer(summary: str, seconds: float) -> None:
    """The caller starts it before anything else can run; no timer is started for nothing or less."""
    run = current_run()
    if seconds > 0:
        run.timer_summary = run.converter.to_payload(summary)


def _seconds(duration: float | timedelta) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
