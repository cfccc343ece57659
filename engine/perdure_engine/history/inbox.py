"""A shard's inbox: lanes with quotas and bounds (design §3, step 1).

Completions, timers and the shard's own work first, then what clients ask of runs, then starts. When a lane is full, by
count or by bytes, the newest start or call is refused with a retry time; a completion never is.
"""

from __future__ import annotations

from collections import deque

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.history.work import (
    LANE_BYTES_MAX,
    LANE_COUNTS_MAX,
    LANE_QUOTAS,
    LANES,
    Item,
    lane_of,
)

RETRY_AFTER_MS = 1_000


class Inbox:
    def __init__(self) -> None:
        self._lanes: list[deque[Item]] = [deque() for _ in range(LANES)]
        self._bytes = [0] * LANES
        # taken before, not decided for good: goes first, in its order
        self._again: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._again) + sum(len(lane) for lane in self._lanes)

    def put(self, item: Item) -> bool:
        """False: the lane is full and the item has been refused."""
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
        return True

    def put_again(self, items: list[Item]) -> None:
        """Items that were taken before go ahead of everything, in the order given."""
        self._again.extendleft(reversed(items))

    def take(self, count: int) -> list[Item]:
        taken: list[Item] = []
        while self._again and len(taken) < count:
            taken.append(self._again.popleft())
        for lane_no, quota in enumerate(LANE_QUOTAS):
            self._move(lane_no, min(quota, count - len(taken)), taken)
        for lane_no in range(LANES):  # quotas only count while the others have work
            self._move(lane_no, count - len(taken), taken)
        return taken

    def _move(self, lane_no: int, count: int, taken: list[Item]) -> None:
        lane = self._lanes[lane_no]
        for _ in range(min(count, len(lane))):
            item = lane.popleft()
            self._bytes[lane_no] -= item.size
            taken.append(item)

    def drain(self) -> list[Item]:
        return self.take(len(self))
