"""The timers of a shard's jobs that are in memory: by the hundred thousand, so those that are not near take as little
room as their numbers do.

They lie in slots of half a second, unsorted. A second before a slot begins its timers are near: they are sorted, and
their jobs are read (`history.jobs.ahead`). What comes when its slot is near already goes onto a heap beside them. From
both they fire when they are due, many in one intent, and only so many at a time.

`history.timers` loads what falls due, and says what may be in memory; the mark is its business too.
"""

from __future__ import annotations

import asyncio
import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from perdure_engine.core.errors import Rejected
from perdure_engine.core.jobs.intents import FireJobTimers
from perdure_engine.core.tasks import TimerRecord
from perdure_engine.history.work import Item

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

SLOT_BITS = 19  # µs: 0.52 s
AHEAD_US = 1_000_000  # from when a slot is near to its beginning
# Between two firings, so that many timers are few intents. One that has no other before it does not wait.
FIRE_PAUSE_S = 0.004
FIRE_AGAIN_S = 30.0  # a timer whose job could not be loaded

# Fired and not decided yet: a mass wake-up leaves half of each statement to others.
FIRING_MAX = 500
TOGETHER = 250  # in one intent
# Of those: what has become due last. Behind 100,000 that were due at once, whatever is due a moment later would wait
# for all of them.
NEWEST = 50

ID_BYTES = 16
JobTimer = tuple[int, int, int, bytes]  # wake_us, timer_id, kind, job id


class _Firing(Item):
    """Timers that are due, on their way through the inbox together."""

    __slots__ = ("_due", "_timers")

    def __init__(self, timers: JobTimers, shard_id: int, due: list[JobTimer]) -> None:
        super().__init__(FireJobTimers(shard_id, due), None)
        self._timers = timers
        self._due = due

    def refuse(self, error: Rejected) -> None:
        self._timers.refused(self._due)


class _Slot:
    """Timers of half a second, 33 bytes each."""

    __slots__ = ("gone", "job_ids", "kinds", "timer_ids", "wakes")

    def __init__(self) -> None:
        self.wakes = array("q")
        self.timer_ids = array("q")
        self.kinds = array("b")
        self.job_ids = bytearray()
        self.gone: set[int] = set()  # of timers that stand for nothing any more

    def add(self, wake_us: int, timer_id: int, kind: int, job_id: bytes) -> None:
        self.wakes.append(wake_us)
        self.timer_ids.append(timer_id)
        self.kinds.append(kind)
        self.job_ids += job_id

    def in_order(self) -> list[JobTimer]:
        job_ids, gone = bytes(self.job_ids), self.gone
        ends = range(ID_BYTES, len(job_ids) + 1, ID_BYTES)
        timers = [
            (wake_us, timer_id, kind, job_ids[end - ID_BYTES : end])
            for wake_us, timer_id, kind, end in zip(
                self.wakes, self.timer_ids, self.kinds, ends, strict=True
            )
            if timer_id not in gone
        ]
        timers.sort()
        return timers


class JobTimers:
    __slots__ = (
        *("_alarm", "_alarm_at", "_coming", "_due", "_far", "_far_count", "_firing", "_jobs"),
        *("_late", "_near", "_near_to", "_shard", "_undecided"),
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._shard = jobs.shard
        self._far: dict[int, _Slot] = {}
        self._far_count = 0
        self._near_to = 0  # slots before it are near
        self._near: deque[JobTimer] = deque()  # in order
        self._late: list[JobTimer] = []  # a heap: their slots were near when they came
        # In their order, but for those that came when later ones were due already, read late or fired again.
        self._due: deque[JobTimer] = deque()
        # By their ids, which are nobody else's in the shard:
        self._coming: set[int] = set()  # near or due, and wanted still
        # Their wake times. What they ask for is not committed yet.
        self._firing: dict[int, int] = {}
        self._undecided: set[int] = set()  # of them, without those that wait to be fired again
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def __len__(self) -> int:
        return self._far_count + len(self._coming)

    # ---- what comes and goes

    def publish(
        self, new: Iterable[tuple[bytes, TimerRecord]], gone: Iterable[tuple[bytes, TimerRecord]]
    ) -> None:
        """Timers that are saved, with the ids of their jobs: what wakes in the window of the shard's timers is kept."""
        end_us = self._shard.timers.window_end_us
        for job_id, timer in new:
            if not timer.gone and timer.wake_us < end_us:
                self.add((timer.wake_us, timer.timer_id, timer.kind, job_id))
        for _, timer in gone:
            slot = self._far.get(timer.wake_us >> SLOT_BITS)
            if slot is None:
                self._coming.discard(timer.timer_id)
            else:
                slot.gone.add(timer.timer_id)

    def add(self, timer: JobTimer) -> None:
        """One that comes twice is taken once."""
        number = timer[0] >> SLOT_BITS
        if number >= self._near_to:
            slot = self._far.get(number)
            if slot is None:
                slot = self._far[number] = _Slot()
                self._ring_in(self._wait_s((number << SLOT_BITS) - AHEAD_US))
            slot.add(*timer)
            self._far_count += 1
            return
        timer_id = timer[1]
        if timer_id in self._coming or timer_id in self._firing:
            return
        self._coming.add(timer_id)
        heapq.heappush(self._late, timer)
        self._jobs.ahead.come((timer,))
        if self._late[0] is timer:
            self._ring_in(self._wait_s(timer[0]))

    def is_near(self, wake_us: int) -> bool:
        return wake_us >> SLOT_BITS < self._near_to

    def is_coming(self, timer: JobTimer) -> bool:
        """Whether it is near or due, and wanted."""
        return timer[1] in self._coming

    def first_us(self) -> int | None:
        """Not later than any that is in memory and has not come to its end."""
        firsts = [one[0][0] for one in (self._near, self._late) if one]
        if self._due:
            firsts.append(min(self._due)[0])
        if self._far:
            firsts.append(min(self._far) << SLOT_BITS)
        if self._firing:
            firsts.append(min(self._firing.values()))
        return min(firsts, default=None)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # ---- their time

    def _low_us(self) -> int:
        return self._shard.rooms.database_clock.low_us()

    def _wait_s(self, at_us: int) -> float:
        return (at_us - self._low_us()) / 1_000_000

    def _ring_in(self, wait_s: float) -> None:
        """At the latest."""
        if self._shard.closed:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(wait_s, FIRE_PAUSE_S)
        if self._alarm is not None:
            if self._alarm_at <= at:
                return
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = loop.call_at(at, self.ring)

    def ring(self) -> None:
        """Fire what is due, and take near what is near."""
        self.stop()
        low_us = self._low_us()
        if self._far:
            self._take_near((low_us + AHEAD_US >> SLOT_BITS) + 1)
        near, late, due = self._near, self._late, self._due
        while near and near[0][0] <= low_us:
            due.append(near.popleft())
        while late and late[0][0] <= low_us:
            due.append(heapq.heappop(late))
        self._fire()
        waits = [one[0][0] for one in (near, late) if one]
        if self._far:
            waits.append((min(self._far) << SLOT_BITS) - AHEAD_US)
        if waits:
            self._ring_in(self._wait_s(min(waits)))

    def _take_near(self, near_to: int) -> None:
        for number in sorted([number for number in self._far if number < near_to]):
            slot = self._far.pop(number)
            self._far_count -= len(slot.wakes)
            timers: list[JobTimer] = []
            for timer in slot.in_order():
                if timer[1] not in self._coming:  # else the loader has read what was published too
                    self._coming.add(timer[1])
                    timers.append(timer)
            self._near += timers
            self._jobs.ahead.come(timers)
        self._near_to = max(self._near_to, near_to)

    def _fire(self) -> None:
        """As many as there is room for; the others have their turn when these have had theirs."""
        while self._due and len(self._undecided) < FIRING_MAX:
            due = [timer for timer in self._next() if timer[1] in self._coming]
            if due:
                firing = {timer_id: wake_us for wake_us, timer_id, _, _ in due}
                self._coming.difference_update(firing)
                self._firing |= firing
                self._undecided.update(firing)
                self._shard.put(_Firing(self, self._shard.shard_id, due))

    def _next(self) -> list[JobTimer]:
        """Those that have been due for longest and, while they are too many, some of the others."""
        due = self._due
        count = min(TOGETHER, len(due))
        newest = NEWEST if len(due) > TOGETHER else 0
        return [due.popleft() for _ in range(count - newest)] + [due.pop() for _ in range(newest)]

    # ---- what became of them

    def fired(self, timers: Sequence[JobTimer]) -> None:
        """What timers of one intent asked for is saved, or they had nothing to ask for any more."""
        self._end(timers)
        self._shard.timers.measure([timer[0] for timer in timers])
        self._fire()

    def refused(self, timers: Sequence[JobTimer]) -> None:
        """Some of them may have been decided, or be about to be told so: a list that was cut is refused if a part of it
        was. What was not is fired again, when whatever keeps the jobs from being loaded may be over."""
        if self._shard.closed:
            return
        self._undecided.difference_update([timer[1] for timer in timers])
        asyncio.get_running_loop().call_later(FIRE_AGAIN_S, self._fire_again, timers)
        if self._due:
            self._ring_in(FIRE_PAUSE_S)

    def _fire_again(self, timers: Sequence[JobTimer]) -> None:
        again = [timer for timer in timers if timer[1] in self._firing]
        self._end(again)
        if not self._shard.closed:
            for timer in again:
                self.add(timer)

    def _end(self, timers: Sequence[JobTimer]) -> None:
        for _, timer_id, _, _ in timers:
            self._firing.pop(timer_id, None)
            self._undecided.discard(timer_id)
