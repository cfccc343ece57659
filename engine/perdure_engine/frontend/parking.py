"""Calls that wait for something to happen: polls, results, new events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Parking:
    """Every long wait of this node. Closing it ends them all at once, as if their time had passed.

    So a node that stops answers its parked calls empty, and their callers ask another one.
    """

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def __len__(self) -> int:
        return len(self._limits)

    async def wait(self, awaited: Awaitable[T], timeout_s: float | None) -> T | None:
        """What is awaited, or None when the time is over or the parking is closed: then it is
        cancelled.

        None as the time-out waits until closing.
        """
        limit = asyncio.timeout(0 if self._closed else timeout_s)
        try:
            async with limit:
                self._limits.add(limit)
                return await awaited
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            self._limits.discard(limit)

    def close(self) -> None:
        self._closed = True
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)
