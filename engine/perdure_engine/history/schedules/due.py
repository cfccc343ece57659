"""Slots whose time has come: in lists, one list of a shard under way at a time, so that a minute in which all schedules
fire leaves room in the statements for everything else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure_engine.core.errors import Rejected
from perdure_engine.core.schedules.intents import FireSlots
from perdure_engine.history.work import Item

if TYPE_CHECKING:
    from perdure_engine.history.schedules.schedules import Schedules

TOGETHER = 100  # in one intent: about as many rows as a statement has of other work
FIRE_AGAIN_S = 30.0  # what could not be decided

Entry = tuple[bytes, int, int]  # uid, wake_us, timer_id


class _Firing(Item):
    __slots__ = ("_due",)

    def __init__(self, due: DueSlots, shard_id: int, entries: list[Entry]) -> None:
        super().__init__(FireSlots(shard_id, entries), None)
        self._due = due

    def refuse(self, error: Rejected) -> None:
        assert isinstance(self.intent, FireSlots)
        self._due.refused(self.intent.timers)


class DueSlots:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._waiting: deque[Entry] = deque()
        self._out: set[Entry] = set()  # in the intent that is under way

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._out)

    def come(self, entries: Sequence[Entry]) -> None:
        """Their timers have fired."""
        self._waiting.extend(entries)
        self.fire()

    def fire(self) -> None:
        """Have the next ones decided, if none are being decided and all schedules are known."""
        shard = self._schedules.shard
        if self._out or not self._waiting or shard.closed or not self._schedules.loading.complete:
            return
        entries = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
        self._out.update(entries)
        shard.put(_Firing(self, shard.shard_id, entries))

    def acted(self, done: Sequence[Entry], left: Sequence[Entry]) -> None:
        """What was decided of the first is saved; the others had no room in the step."""
        self._out.difference_update(done, left)
        self._waiting.extend(left)
        self._schedules.shard.timers.slots_fired([entry[1:] for entry in done])
        self.fire()

    def refused(self, entries: Sequence[Entry]) -> None:
        """A bug, or a row that cannot be written: the others go on, and these come again."""
        if self._schedules.shard.closed:
            return
        refused = [entry for entry in entries if entry in self._out]
        self._out.difference_update(refused)
        if refused:
            asyncio.get_running_loop().call_later(FIRE_AGAIN_S, self._again, refused)
        self.fire()

    def _again(self, entries: list[Entry]) -> None:
        if not self._schedules.shard.closed:
            self.come(entries)

    def stop(self) -> None:
        self._waiting.clear()
        self._out.clear()
