"""A shard's inbox: lanes with quotas and bounds (design §3, step 1).

Completions, timers and the shard's own work first, then what clients ask of runs, then starts. When a lane is full, by
count or by bytes, the newest start or call is refused with a retry time; a completion never is.
"""

from __future__ import annotations

from collections import deque

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.history.work import (
    BATCH_BYTES_MAX,
    LANE_BYTES_MAX,
    LANE_COUNTS_MAX,
    LANE_SHARES,
    LANES,
    Item,
    lane_of,
)

RETRY_AFTER_MS = 1_000


class Room:
    """What is left of a batch. `exact`: an item that does not fit is left out, unless it is the first; else the last
    one may be larger than what is left."""

    __slots__ = ("bytes", "exact", "weight")

    def __init__(self, weight: int, bytes_max: int, *, exact: bool) -> None:
        self.weight = weight
        self.bytes = bytes_max
        self.exact = exact

    def takes(self, item: Item, taken: list[Item]) -> bool:
        if not taken:
            return True
        return self.bytes > 0 and self.weight >= (item.weight if self.exact else 1)

    def take(self, item: Item, taken: list[Item]) -> None:
        self.weight -= item.weight
        self.bytes -= item.size
        taken.append(item)


class Inbox:
    __slots__ = ("_again", "_bytes", "_lanes", "_only", "_only_again", "_weight", "count")

    def __init__(self) -> None:
        # all there is, as long as it is a single one: a shard with little to do touches no lane
        self._only: Item | None = None
        self._only_again = False  # it was taken before
        self._lanes: list[deque[Item]] = [deque() for _ in range(LANES)]
        self._bytes = [0] * LANES
        # taken before, not decided for good: goes first, in its order
        self._again: deque[Item] = deque()
        self.count = 0
        """Of all items. For others to read: in each step of each shard, where a `len()` is a call."""
        self._weight = 0  # of all but a single one

    def __len__(self) -> int:
        return self.count

    def put(self, item: Item) -> bool:
        """False: the lane is full and the item has been refused."""
        if not self.count:
            self._only, self._only_again = item, False
            self.count = 1
            return True
        self._use_lanes()
        lane_no = lane_of(item.intent)
        lane = self._lanes[lane_no]
        size = self._bytes[lane_no] + item.size
        if len(lane) >= LANE_COUNTS_MAX[lane_no] or size > LANE_BYTES_MAX[lane_no]:
            item.refuse(
                Rejected(
                    Code.RESOURCE_EXHAUSTED,
                    "SHARD_BUSY",
                    "the shard has too much to do",
                    retry_after_ms=RETRY_AFTER_MS,
                )
            )
            return False
        lane.append(item)
        self._bytes[lane_no] = size
        self.count += 1
        self._weight += item.weight
        return True

    def put_again(self, items: list[Item]) -> None:
        """Items that were taken before go ahead of everything, in the order given."""
        if not self.count and len(items) == 1:
            self._only, self._only_again = items[0], True
            self.count = 1
            return
        self._use_lanes()
        self._again.extendleft(reversed(items))
        self.count += len(items)
        self._weight += sum([item.weight for item in items])

    def take_only(self) -> list[Item]:
        """What there is, if that is a single item and none waits in a lane; else nothing."""
        only = self._only
        if only is None:
            return []
        self._only = None
        self.count = 0
        return [only]

    def take(
        self, weight: int, bytes_max: int = BATCH_BYTES_MAX, *, exact: bool = False
    ) -> list[Item]:
        """Items of together about so much weight and so many bytes; the first goes whatever it has of them."""
        taken = self.take_only()
        if taken:
            return taken
        if self._weight <= weight and not self._again and sum(self._bytes) < bytes_max:
            return self._take_all()  # nobody competes: the common case of a shard with little to do
        taken = []
        room = Room(weight, bytes_max, exact=exact)
        while self._again and room.takes(self._again[0], taken):
            room.take(self._again.popleft(), taken)
        whole = sum(LANE_SHARES)
        for lane_no, share in enumerate(LANE_SHARES):
            self._move(lane_no, max(1, weight * share // whole), room, taken)
        for lane_no in range(LANES):  # shares only count while the others have work
            self._move(lane_no, room.weight, room, taken)
        self.count -= len(taken)
        self._weight -= sum([item.weight for item in taken])
        return taken

    def _use_lanes(self) -> None:
        only, self._only = self._only, None
        if only is None:
            return
        self._weight = only.weight
        if self._only_again:
            self._again.append(only)
        else:
            lane_no = lane_of(only.intent)
            self._lanes[lane_no].append(only)
            self._bytes[lane_no] += only.size

    def _take_all(self) -> list[Item]:
        taken: list[Item] = []
        for lane_no, lane in enumerate(self._lanes):
            if lane:
                taken += lane
                lane.clear()
                self._bytes[lane_no] = 0
        self.count = self._weight = 0
        return taken

    def _move(self, lane_no: int, quota: int, room: Room, taken: list[Item]) -> None:
        """Take from a lane, at most about `quota` of weight."""
        lane = self._lanes[lane_no]
        while lane and quota > 0 and room.takes(lane[0], taken):
            item = lane.popleft()
            self._bytes[lane_no] -= item.size
            quota -= item.weight
            room.take(item, taken)

    def drain(self) -> list[Item]:
        return self.take(self._weight, 1 << 62)
