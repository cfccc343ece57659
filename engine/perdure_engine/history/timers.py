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
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import FireTimer
from perdure_engine.core.jobs.intents import FireJobTimers
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

# Fired and not decided yet: a mass wake-up of jobs leaves half of each statement to others.
JOBS_FIRING_MAX = 500
JOBS_TOGETHER = 250  # in one intent
# Of those: what has become due last. Behind 100,000 that were due at once, whatever is due a moment later would wait
# for all of them.
JOBS_NEWEST = 50
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


class _FiringJobs(Item):
    """Timers of jobs that are due, on their way through the inbox together."""

    __slots__ = ("_entries", "_timers")

    def __init__(self, timers: ShardTimers, shard_id: int, entries: list[Entry]) -> None:
        due = [(kind, wake_us, timer_id, job_id) for wake_us, timer_id, kind, _, job_id in entries]
        super().__init__(FireJobTimers(shard_id, due), None)
        self._timers = timers
        self._entries = entries

    def refuse(self, error: Rejected) -> None:
        self._timers.jobs_refused(self._entries, error)


class ShardTimers:
    def __init__(self, shard: Shard, mark_us: int) -> None:
        self._shard = shard
        self._heap: list[Entry] = []
        self._known: set[tuple[int, int]] = set()  # keys of what has not fired yet
        self._firing: set[tuple[int, int]] = set()  # off the heap, their end not committed yet
        self._jobs_firing = 0  # of them
        self._jobs_due: deque[Entry] = deque()  # off the heap, and not fired yet
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

    def publish_jobs(self, timers: Iterable[tuple[bytes, TimerRecord]]) -> None:
        """New timers of jobs, with their ids."""
        end_us = self.window_end_us
        for job_id, timer in timers:
            if not timer.gone and timer.wake_us < end_us:
                self.add((timer.wake_us, timer.timer_id, timer.kind, 0, job_id))

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
        self._measure(wake_us)

    def jobs_fired(self, timers: Sequence[tuple[int, int, int, bytes]]) -> None:
        """As `fired`, for all timers of an intent."""
        for _, wake_us, timer_id, _ in timers:
            self._firing.discard((wake_us, timer_id))
            self._measure(wake_us)
        self._jobs_firing -= len(timers)
        self._fire_jobs()

    def slots_fired(self, keys: Sequence[tuple[int, int]]) -> None:
        """As `fired`, for timers of schedules."""
        for wake_us, timer_id in keys:
            self._firing.discard((wake_us, timer_id))
            self._measure(wake_us)

    def _measure(self, wake_us: int) -> None:
        rooms = self._shard.rooms
        late_us = rooms.database_clock.low_us() - wake_us
        if late_us < 0:
            rooms.metrics.timer_early.inc()
        rooms.metrics.timer_lateness_seconds.observe(late_us / 1_000_000)

    def add(self, entry: Entry) -> None:
        key = entry[:2]
        if key in self._known:
            return
        self._known.add(key)
        heapq.heappush(self._heap, entry)
        if entry[2] in JOB_TIMERS:
            self._shard.jobs.ahead.comes(entry)
        if self._heap[0] is entry:
            self._set_alarm()

    def is_coming(self, entry: Entry) -> bool:
        """Whether a timer that was added has not fired yet."""
        return entry[:2] in self._known

    def next_mark_us(self) -> int:
        """How far the mark may go: not past an unfinished timer, what is not loaded, or the database's recent past."""
        low_us = self._shard.rooms.database_clock.low_us()
        ends = [self.window_end_us, self._loaded_to[0], low_us - MARK_BEHIND_US]
        if self._heap:
            ends.append(self._heap[0][0])
        if self._jobs_due:
            ends.append(self._jobs_due[0][0])
        if self._firing:
            ends.append(min(wake_us for wake_us, _ in self._firing))
        return max(self.mark_us, min(ends))

    # ---- firing

    def lag_us(self) -> int:
        """How long the oldest timer that should have fired is due."""
        due = [wake_us for wake_us, _ in self._firing]
        due += [entry[0] for entry in islice(self._jobs_due, 1)]
        if self._heap:
            due.append(self._heap[0][0])
        return max(0, self._shard.rooms.database_clock.low_us() - min(due)) if due else 0

    @property
    def busy(self) -> bool:
        """Timers are due, or fired and not decided yet."""
        due = bool(self._heap) and self._heap[0][0] <= self._shard.rooms.database_clock.low_us()
        return due or bool(self._firing) or bool(self._jobs_due)

    def time_jumped(self) -> None:
        """The database's time went on without ours: the alarm would ring too late."""
        if self._alarm is not None:
            self._alarm.cancel()
        if not self._shard.closed:
            self._ring()

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
            if kind in JOB_TIMERS:
                self._jobs_due.append(entry)
                allowed -= 1
                self._tokens -= 1
                continue
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
        self._fire_jobs()
        return more

    def _fire_jobs(self) -> None:
        """As many as there is room for; the others have their turn when these have had theirs."""
        shard_id = self._shard.shard_id
        while self._jobs_due and self._jobs_firing < JOBS_FIRING_MAX:
            entries = self._next_jobs()
            self._jobs_firing += len(entries)
            keys = [entry[:2] for entry in entries]
            self._known.difference_update(keys)
            self._firing.update(keys)
            self._shard.put(_FiringJobs(self, shard_id, entries))

    def _next_jobs(self) -> list[Entry]:
        """Those that have been due for longest and, while they are too many, some of the others."""
        due = self._jobs_due
        count = min(JOBS_TOGETHER, len(due))
        newest = JOBS_NEWEST if len(due) > JOBS_TOGETHER else 0
        return [due.popleft() for _ in range(count - newest)] + [due.pop() for _ in range(newest)]

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

    def jobs_refused(self, entries: list[Entry], error: Rejected) -> None:
        """Some of them may have been decided: a list that was cut is refused if a part of it was."""
        self._jobs_firing = max(0, self._jobs_firing - len(entries))
        for entry in entries:
            self.refused(entry, error)

    def _fire_again(self, entry: Entry) -> None:
        self._firing.discard(entry[:2])
        if not self._shard.closed:
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
            if len(self._heap) >= shard.rooms.config.timers_in_memory_max:
                return False
