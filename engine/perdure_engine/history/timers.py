"""A shard's timers: the database holds them all, a heap in memory holds the next minutes (design §5).

Two phases. The loader reads, once a minute, what falls due in the next window; what is created inside the window goes
straight onto the heap after its commit. So that nothing falls between the two:
  * the window's end is raised in memory *before* the loader's read begins, so that a timer that commits during
    the read and is not seen by it was published against the raised end;
  * publish compares with the end as it is at publish time;
  * a timer that comes both ways is known by its key, and taken once;
  * when a page fills the budget, the end is lowered to the last key read, and the rest is read later.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import FireTimer
from perdure_engine.core.tasks import TimerKind, TimerRecord
from perdure_engine.history.run import Run
from perdure_engine.history.work import Item
from perdure_engine.ports.rows import ROW_GONE, TimerRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

PAGE = 1_000
RETRY_S = 1.0  # after a read that failed
FIRE_TICK_S = 0.05  # while more are due than may fire at once
EARLIEST_WAIT_S = 0.001
MARK_BEHIND_US = 10_000_000  # the mark stays so far behind database time (design §5)

FIRE_AGAIN_S = 30.0  # a timer whose run could not be loaded
JOB_TIMERS = (TimerKind.JOB_DUE, TimerKind.JOB_EXPIRY)

Entry = tuple[int, int, TimerKind, int, bytes]  # wake_us, timer_id, kind, reference, run_id


class _Firing(Item):
    """A timer that is due, on its way through the inbox."""

    __slots__ = ("_entry", "_timers")

    def __init__(self, timers: ShardTimers, entry: Entry) -> None:
        wake_us, timer_id, kind, reference, run_id = entry
        super().__init__(FireTimer(run_id, kind, reference, wake_us, timer_id), None)
        self._timers = timers
        self._entry = entry

    def refuse(self, error: Rejected) -> None:
        self._timers.refused(self._entry, error)


class ShardTimers:
    __slots__ = (
        "_alarm",
        "_alarm_us",
        "_firing",
        "_heap",
        "_known",
        "_loaded_to",
        "_loader",
        "_shard",
        "_tokens",
        "_tokens_at",
        "mark_us",
        "window_end_us",
    )

    def __init__(self, shard: Shard, mark_us: int) -> None:
        self._shard = shard
        self._heap: list[Entry] = []
        self._known: set[tuple[int, int]] = set()  # keys on the heap
        self._firing: set[tuple[int, int]] = set()  # off the heap, their end not committed yet
        self.mark_us = mark_us  # saved: no timer row that is not gone wakes before it
        # wake times below it are on the heap, or will be when a running read ends
        self.window_end_us = mark_us
        self._loaded_to: tuple[int, int] = (mark_us, 0)  # last key read
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_us = 0
        self._loader: asyncio.Task[None] | None = None
        self._tokens = 0.0  # of the bucket that paces a mass wake-up
        self._tokens_at = shard.rooms.clock.monotonic()

    # ---- after a commit

    def publish(self, run: Run, draft: Draft) -> None:
        for timer in draft.timers:
            if not timer.gone and timer.wake_us < self.window_end_us:
                self.add(
                    (timer.wake_us, timer.timer_id, timer.kind, timer.reference, run.state.run_id)
                )

    def publish_schedule(self, uid: bytes, timer: TimerRecord | None) -> None:
        """A schedule's new timer, if it has one."""
        if timer is not None and timer.wake_us < self.window_end_us:
            self.add((timer.wake_us, timer.timer_id, timer.kind, 0, uid))

    def holds(self, wake_us: int, timer_id: int) -> bool:
        """Whether a timer's row will be read, or it is in memory."""
        key = (wake_us, timer_id)
        return key > self._loaded_to or key in self._known or key in self._firing

    def fired(self, wake_us: int, timer_id: int) -> None:
        """What the timer asked for is saved, or it had nothing to ask for any more."""
        self._firing.discard((wake_us, timer_id))
        self.measure([wake_us])

    def slots_fired(self, keys: Sequence[tuple[int, int]]) -> None:
        """As `fired`, for timers of schedules."""
        self._firing.difference_update(keys)
        self.measure([wake_us for wake_us, _ in keys])

    def measure(self, wakes_us: Sequence[int]) -> None:
        """How late it is for timers that have fired."""
        rooms = self._shard.rooms
        low_us = rooms.database_clock.low_us()
        observe = rooms.metrics.timer_lateness_seconds.observe
        for wake_us in wakes_us:
            if low_us < wake_us:
                rooms.metrics.timer_early.inc()
            observe((low_us - wake_us) / 1_000_000)

    def add(self, entry: Entry) -> None:
        key = entry[:2]
        if key in self._known:
            return
        self._known.add(key)
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry:
            self._set_alarm()

    def next_mark_us(self) -> int:
        """How far the mark may go: not past an unfinished timer, what is not loaded, or the database's recent past."""
        low_us = self._shard.rooms.database_clock.low_us()
        ends = [self.window_end_us, self._loaded_to[0], low_us - MARK_BEHIND_US]
        first_us = self._first_us()
        if first_us is not None:
            ends.append(first_us)
        return max(self.mark_us, min(ends))

    def _first_us(self) -> int | None:
        """Not later than any timer that is in memory and has not come to its end."""
        firsts = [self._heap[0][0]] if self._heap else []
        if self._firing:
            firsts.append(min(self._firing)[0])
        first_of_jobs_us = self._shard.jobs.timers.first_us()
        if first_of_jobs_us is not None:
            firsts.append(first_of_jobs_us)
        return min(firsts, default=None)

    # ---- firing

    def lag_us(self) -> int:
        """How long the oldest timer that should have fired is due."""
        first_us = self._first_us()
        return (
            0 if first_us is None else max(0, self._shard.rooms.database_clock.low_us() - first_us)
        )

    @property
    def busy(self) -> bool:
        """Timers are due, or fired and not decided yet."""
        first_us = self._first_us()
        return first_us is not None and first_us <= self._shard.rooms.database_clock.low_us()

    def time_jumped(self) -> None:
        """The database's time went on without ours: the alarm would ring too late."""
        if self._alarm is not None:
            self._alarm.cancel()
        if not self._shard.closed:
            self._ring()
            self._shard.jobs.timers.ring()

    def _set_alarm(self) -> None:
        if not self._heap or self._shard.closed:
            return
        wake_us = self._heap[0][0]
        if self._alarm is not None:
            if self._alarm_us <= wake_us:
                return
            self._alarm.cancel()
        wait_s = (wake_us - self._shard.rooms.database_clock.low_us()) / 1_000_000
        self._alarm_us = wake_us
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(max(wait_s, EARLIEST_WAIT_S), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self.fire_due():
            self._alarm_us = 0
            self._alarm = asyncio.get_running_loop().call_later(FIRE_TICK_S, self._ring)
        else:
            self._set_alarm()

    def fire_due(self) -> bool:
        """Hand what is due by the database's clock to the shard. True: more is due than the bucket allows."""
        low_us = self._shard.rooms.database_clock.low_us()
        allowed = self._take_tokens()
        slots: list[tuple[bytes, int, int]] = []
        more = False
        while self._heap and self._heap[0][0] <= low_us:
            if allowed <= 0:
                more = True
                break
            entry = heapq.heappop(self._heap)
            wake_us, timer_id, kind, reference, run_id = entry
            self._known.discard((wake_us, timer_id))
            if kind is TimerKind.SCHEDULE_SLOT:
                slots.append((run_id, wake_us, timer_id))
            elif self._still_wanted(run_id, kind, reference, timer_id):
                self._firing.add((wake_us, timer_id))
                self._shard.put(_Firing(self, entry))
            else:
                continue
            allowed -= 1
            self._tokens -= 1
        if slots:
            self._firing.update([slot[1:] for slot in slots])
            self._shard.schedules.due.come(slots)
        return more

    def refused(self, entry: Entry, error: Rejected) -> None:
        """Nothing was decided for the timer. It may be of a run that has been deleted: then its row
        stands for nothing, and the mark may pass it. Else it is fired again, when whatever keeps
        its run from being loaded may be over."""
        if self._shard.closed:
            return
        if error.code is Code.NOT_FOUND:
            self._firing.discard(entry[:2])
            return
        asyncio.get_running_loop().call_later(FIRE_AGAIN_S, self._fire_again, entry)

    def _fire_again(self, entry: Entry) -> None:
        if entry[:2] in self._firing and not self._shard.closed:
            self._firing.discard(entry[:2])
            self.add(entry)

    def _still_wanted(self, run_id: bytes, kind: TimerKind, reference: int, timer_id: int) -> bool:
        """False only when memory knows better; a run that is not in memory is loaded and decides."""
        run = self._shard.runs.get(run_id)
        if run is None or run.busy:
            return True  # what a busy run says of it is not saved yet
        record = run.state.timer_rows.get((kind, reference))
        return record is not None and record.timer_id == timer_id

    def _take_tokens(self) -> int:
        per_s = self._shard.rooms.config.fires_per_s_max
        now = self._shard.rooms.clock.monotonic()
        self._tokens = (
            min(per_s, self._tokens + (now - self._tokens_at) * per_s) if self._tokens_at else per_s
        )
        self._tokens_at = now
        return int(self._tokens)

    # ---- loading

    def start(self) -> None:
        self._tokens = float(self._shard.rooms.config.fires_per_s_max)
        self._loader = asyncio.get_running_loop().create_task(self._load_for_ever())

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._loader is not None:
            self._loader.cancel()
            self._loader = None

    async def _load_for_ever(self) -> None:
        config = self._shard.rooms.config
        while True:
            try:
                whole = await self.load_window()
                wait_s = config.window_load_every_s if whole else RETRY_S
            except StoreError:
                wait_s = RETRY_S
            await self._shard.rooms.clock.sleep(wait_s)

    async def load_window(self) -> bool:
        """Read the next window. False: the memory budget cut it short."""
        shard = self._shard
        end_us = shard.rooms.database_clock.low_us() + int(shard.rooms.config.window_s * 1_000_000)
        if end_us <= self.window_end_us:
            return True
        before = self.window_end_us
        self.window_end_us = end_us
        try:
            whole = await self._read_to(end_us)
        except StoreError:
            # what was read is on the heap; the end goes back to what is known for certain
            self.window_end_us = max(before, self._loaded_to[0])
            raise
        if not whole:
            self.window_end_us = self._loaded_to[0]
        return whole

    def _add_row(self, row: TimerRow) -> None:
        try:
            kind = TimerKind(row.kind)
        except ValueError:  # of a newer engine: it will be fired by one
            self._shard.rooms.alarm("unknown_timer_kind", run_id=row.run_id.hex(), kind=row.kind)
            return
        if kind in JOB_TIMERS:
            self._shard.jobs.timers.add((row.wake_us, row.timer_id, row.kind, row.run_id))
        else:
            self.add((row.wake_us, row.timer_id, kind, row.reference, row.run_id))

    async def _read_to(self, end_us: int) -> bool:
        shard = self._shard
        while True:
            rows = await shard.rooms.store.load_timers(
                shard.shard_id, self._loaded_to, end_us, PAGE
            )
            for row in rows:
                if row.state != ROW_GONE:
                    self._add_row(row)
            if rows:
                self._loaded_to = (rows[-1].wake_us, rows[-1].timer_id)
            if len(rows) < PAGE:
                self._loaded_to = max(self._loaded_to, (end_us - 1, 1 << 62))
                return True
            in_memory = len(self._heap) + len(shard.jobs.timers)
            if in_memory >= shard.rooms.config.timers_in_memory_max:
                return False
