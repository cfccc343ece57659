"""How many more tasks of a kind this worker takes."""

from __future__ import annotations

import asyncio


class Slots:
    """A number of places. A poll reserves places, a task keeps one until it is settled."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._released = asyncio.Event()

    @property
    def used(self) -> int:
        return self.total - self._free

    async def reserve(self) -> int:
        """All that are free; waits until there is one."""
        while not self._free:
            self._released.clear()
            await self._released.wait()
        count, self._free = self._free, 0
        return count

    def release(self, count: int = 1) -> None:
        if count:
            self._free += count
            assert self._free <= self.total, "a place was given back twice"
            self._released.set()
