"""Start once, in order; stop in reverse, in bounded time.

A part that does not stop in its time is cancelled and left behind, and the next one has its turn:
whatever a node holds ends by itself when nobody renews it, so a stop that is cut short costs the
others some seconds of waiting, and a stop that hangs would cost its operator a kill -9.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import structlog

log = structlog.get_logger(__name__)

STOP_S = 10.0  # what service managers and container runtimes wait before they kill, at least
PART_S = 5.0
TURN_S_MIN = 0.25  # is kept for each part that comes later, however long the earlier ones took


class Part(NamedTuple):
    name: str
    stop: Callable[[], Awaitable[None]]
    limit_s: float


class Lifecycle:
    """The parts of a node that run, in the order in which they were begun."""

    def __init__(self, stop_s: float | None = None) -> None:
        self._stop_s = STOP_S if stop_s is None else stop_s
        self._begun: list[Part] = []
        self._stopping: asyncio.Task[None] | None = None

    @property
    def stopping(self) -> bool:
        return self._stopping is not None

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Whatever ends the block early, cancellation included, stops what was begun in it."""
        try:
            yield
        except BaseException:
            await self.stop()
            raise

    async def begin(
        self,
        name: str,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        limit_s: float = PART_S,
    ) -> None:
        """Start a part. `stop` must also be right for one whose start was cut short."""
        assert self._stopping is None, "a node is started once"
        self._begun.append(Part(name, stop, limit_s))
        await start()

    def at_stop(
        self, name: str, stop: Callable[[], Awaitable[None]], limit_s: float = PART_S
    ) -> None:
        """Something to do when the node stops, before the parts begun so far are stopped."""
        self._begun.append(Part(name, stop, limit_s))

    async def stop(self) -> None:
        """Return when all parts have stopped or had their time. Stopping twice is fine.

        The caller's cancellation does not reach it: half a stop is none.
        """
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(), name="stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._stop_s
        while self._begun:
            part = self._begun.pop()
            left_s = ends_at - loop.time() - TURN_S_MIN * len(self._begun)
            await _stop_part(part, min(part.limit_s, max(left_s, TURN_S_MIN)))


async def _stop_part(part: Part, limit_s: float) -> None:
    # Not wait_for: it would wait for the end of a part that does not heed its cancellation.
    task = asyncio.ensure_future(part.stop())
    await asyncio.wait({task}, timeout=limit_s)
    if not task.done():
        task.cancel()
        log.warning("part_did_not_stop", part=part.name, limit_s=round(limit_s, 3))
    elif not task.cancelled() and (error := task.exception()) is not None:
        log.error("part_failed_to_stop", part=part.name, exc_info=error)
