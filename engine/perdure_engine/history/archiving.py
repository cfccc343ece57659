"""What is over its retention, on its way into the archive: put there first, removed from the tables then.

A parcel holds what one shard has closed on one day. It costs a few requests, so where passes come often what is over
its time waits for company: until there are many, or the first of them has waited for an eighth of its retention (a day
at most).

Nothing here is on anybody's way. A pass takes its portions one after the other and lets as much time go by between two
as the last one took; an object store that is slow, or away, holds up this pass alone, and what could not be put stays
in the tables. What a crash leaves is in both places: whoever begins to fill a shelf after a take-over looks first which
of its runs lie there.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.archive import DAY_US, Archive, ArchiveError, Kind, Parcel, Shelf
from perdure_engine.ports.store import NamespaceRow

log = logging.getLogger(__name__)

T = TypeVar("T")

PORTION_MAX = 2_000  # of one shelf: the ids that a pass collects before it moves them
READ_AT_ONCE_MAX = 100  # runs whose rows are read together
READ_BYTES_MAX = 2 * 1024 * 1024  # of them; what is larger is read alone
BEFORE_ALL = bytes(16)  # ids are above it


def lateness_us(retention_us: int) -> int:
    """How much longer than asked for what has ended may stay. To look more often costs: each look goes through all."""
    return min(retention_us // 8, DAY_US)


class Goods(Protocol[T]):
    """What is moved: runs, or jobs."""

    kind: Kind

    def key(self, item: T) -> tuple[bytes, int]:
        """Id and close (µs)."""
        ...

    def size(self, item: T) -> int:
        """As many bytes will be read."""
        ...

    async def fill(self, parcel: Parcel, items: list[T]) -> list[T]:
        """Read them and put them into the parcel. Returns those that are in it. Raises StoreError, ArchiveError."""
        ...

    async def remove(self, items: list[T]) -> bool:
        """From the tables. Returns when that is done, or somebody else's to do. False: some have stayed."""
        ...


class Pot(msgspec.Struct, Generic[T], eq=False):
    """What waits for its parcel. Times: when the oldest was over its retention, and when it has waited long enough."""

    items: list[T]
    due_us: int
    ready_us: int


Over = Sequence[tuple[T, NamespaceRow]]
"""What is over the retention of its namespace, among some rows."""


def first_of(items: list[T], size: Callable[[T], int]) -> list[T]:
    """The first of them: as many as are read at once."""
    together = 0
    for number, item in enumerate(items[:READ_AT_ONCE_MAX]):
        together += size(item)
        if together > READ_BYTES_MAX and number:
            return items[:number]
    return items[:READ_AT_ONCE_MAX]


class Archiving:
    """Of one process."""

    def __init__(self, rooms: Rooms, archive: Archive | None) -> None:
        self.rooms = rooms
        self.archive = archive
        self.pass_every_us = 0
        self.failed = False  # during the pass that is under way: nothing more is put in it
        self.begun: WeakKeyDictionary[Shard, set[Shelf]] = WeakKeyDictionary()
        self._due_us: WeakKeyDictionary[Shard, dict[Kind, int]] = WeakKeyDictionary()

    def takes(self, namespace: NamespaceRow) -> bool:
        return self.archive is not None and namespace.archive

    async def clear(
        self,
        shard: Shard,
        goods: Goods[T],
        read: Callable[[bytes], Awaitable[tuple[Over[T], bytes | None]]],
    ) -> int:
        """A pass over a shard: what is over its time is deleted, or put into the archive first. How many have left the
        tables. `read` looks at the rows past an id, in pages; None: there are no further. Raises StoreError.
        """
        moving = None if self.archive is None else Moving(self, shard, goods)
        deleted = 0
        after: bytes | None = BEFORE_ALL
        while after is not None and not shard.closed and not shard.leaving:
            over, after = await read(after)
            doomed: list[T] = []
            for item, namespace in over:
                if moving is not None and self.takes(namespace):
                    await moving.add(item, namespace)
                else:
                    doomed.append(item)
            if doomed:
                await goods.remove(doomed)  # one page at a time: memory and the shard stay free
            deleted += len(doomed)
        if moving is None:
            return deleted
        await moving.end(self.rooms.database_clock.low_us())
        return deleted + moving.moved

    def left(self, shard: Shard, kind: Kind, due_us: int) -> None:
        """Since when the oldest is over its retention that a pass over the shard has left in the tables; 0: none."""
        self._due_us.setdefault(shard, {})[kind] = due_us

    def lag_us(self) -> int:
        """By how much the oldest in our shards that waits for the archive is over its retention."""
        waiting = [
            due_us
            for shard, dues in self._due_us.items()
            for due_us in dues.values()
            if due_us and not shard.closed
        ]
        return max(0, self.rooms.database_clock.low_us() - min(waiting)) if waiting else 0


class Moving(Generic[T]):
    """One pass over one shard."""

    def __init__(self, archiving: Archiving, shard: Shard, goods: Goods[T]) -> None:
        assert archiving.archive is not None, "there is one"
        self._archiving = archiving
        self._archive = archiving.archive
        self._shard = shard
        self._goods = goods
        self._pots: dict[Shelf, Pot[T]] = {}
        self._left_us: list[int] = []
        self.moved = 0

    async def add(self, item: T, namespace: NamespaceRow) -> None:
        """It is over its retention. Raises StoreError."""
        _, close_us = self._goods.key(item)
        retention_us = namespace.retention_ms * 1_000
        due_us = close_us + retention_us
        shelf = Shelf(
            namespace.namespace_id, self._goods.kind, close_us // DAY_US, self._shard.shard_id
        )
        ready_us = due_us + lateness_us(retention_us) - self._archiving.pass_every_us
        pot = self._pots.setdefault(shelf, Pot([], due_us, ready_us))
        pot.items.append(item)
        pot.due_us, pot.ready_us = min(pot.due_us, due_us), min(pot.ready_us, ready_us)
        if len(pot.items) == PORTION_MAX:
            del self._pots[shelf]
            await self._move(shelf, pot)

    async def end(self, now_us: int) -> None:
        """All have been added. Raises StoreError."""
        for shelf, pot in self._pots.items():
            if pot.ready_us <= now_us:
                await self._move(shelf, pot)
            else:
                self._left_us.append(pot.due_us)
        self._archiving.left(self._shard, self._goods.kind, min(self._left_us, default=0))

    async def _move(self, shelf: Shelf, pot: Pot[T]) -> None:
        archiving, shard = self._archiving, self._shard
        if archiving.failed or shard.closed or shard.leaving:
            self._left_us.append(pot.due_us)
            return
        begun = archiving.begun.setdefault(shard, set())
        try:
            items = pot.items
            if shelf not in begun:
                begun.add(shelf)
                items = await self._not_there(shelf, items)
            moved = await self._put(shelf, items)
        except ArchiveError as error:
            archiving.failed = True
            begun.discard(shelf)  # some of it may lie there now
            self._left_us.append(pot.due_us)
            archiving.rooms.metrics.archive_failures.inc()
            log.warning("the archive takes nothing now, and is tried again later: %s", error)
        else:
            if moved < len(items):
                self._left_us.append(pot.due_us)

    async def _not_there(self, shelf: Shelf, items: list[T]) -> list[T]:
        """What a crash, or a call that failed, has left in both places is only removed."""
        there = await self._archive.written(shelf)
        done = [item for item in items if self._goods.key(item) in there]
        if done:
            await self._remove(shelf, done)
            self.moved += len(done)
        return [item for item in items if self._goods.key(item) not in there]

    async def _put(self, shelf: Shelf, items: list[T]) -> int:
        """How many of them have been moved."""
        metrics, clock = self._archiving.rooms.metrics, self._archiving.rooms.clock
        moved, left = 0, items
        while left and not self._shard.closed:
            began_s = clock.monotonic()
            parcel, inside = self._archive.parcel(shelf), list[T]()
            while left and not parcel.full:
                group = first_of(left, self._goods.size)
                left = left[len(group) :]
                inside += await self._goods.fill(parcel, group)
            if not inside:
                break
            metrics.archived_bytes.inc(self._goods.kind.value, by=await parcel.put())
            metrics.archived.inc(self._goods.kind.value, by=len(inside))
            await self._remove(shelf, inside)
            moved += len(inside)
            await clock.sleep(clock.monotonic() - began_s)
        self.moved += moved
        return moved

    async def _remove(self, shelf: Shelf, items: list[T]) -> None:
        """What stays is in both places, and must not be put a second time."""
        if not await self._goods.remove(items):
            self._archiving.begun[self._shard].discard(shelf)
