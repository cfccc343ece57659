"""How many more tasks of a kind this worker takes."""

from __future__ import annotations

import asyncio


class Slots:
    """A number of places. A poll reserves places, a task keeps one until it is settled."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._for_answers = 0  # reserved for what answers to completions bring
        self._released = asyncio.Event()

    @property
    def used(self) -> int:
        return self.total - self._free

    async def reserve(self) -> int:
        """What a poll asks for: what is free, but at most half of all. Waits until there is one."""
        while not self._free:
            self._released.clear()
            await self._released.wait()
        count = min(self._free, -(-self.total // 2))
        self._free -= count
        return count

    def reserve_for_answer(self, wanted: int) -> int:
        """Up to so many of those that are free, and never more than half of all for all answers: one that is long in
        coming must leave the polls their half. To be settled with `answer_came`."""
        count = min(wanted, self._free, self.total // 2 - self._for_answers)
        self._free -= count
        self._for_answers += count
        return count

    def answer_came(self, reserved: int, taken: int) -> None:
        """`taken` of the reserved places are tasks' now."""
        self._for_answers -= reserved
        self.release(reserved - taken)

    def release(self, count: int = 1) -> None:
        if count:
            self._free += count
            assert self._free <= self.total, "a place was given back twice"
            self._released.set()
