"""The database's time of an engine in a test: it passes like ours, and now and then it jumps.

The engine's own clock (leases of tasks, long polls, everything monotonic) stays real, because workers
live in real time. Timers and timeouts are judged by the database's time, and that is what jumps: to
the next timer, when somebody waits for time to pass and nothing else can happen (history/stillness).

    somebody waits and still            → to the next timer, or to where `pass_time` wants to go
    somebody waits and unattended       → the same, once UNATTENDED_S have passed: a worker that is
                                          just starting must not find its work timed out
    a workflow task that failed waits   → no jump past it: it is retried in real time, or a workflow
      for its next attempt                with a bug would use up years of time in a second
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perdure_engine.core.tasks import TimerKind
from perdure_engine.history.database_clock import DatabaseClock
from perdure_engine.history.shard import Shard
from perdure_engine.history.stillness import Stillness, stillness
from perdure_engine.ports.clock import Clock
from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.store.memory.tables import Tables

# Until a worker that was just made has sent its first poll.
UNATTENDED_S = 2.0
# A look while something is on its way: it takes about as long as a call over loopback.
MOVING_PAUSE_S = 0.001
# A look while a worker works, besides those after each commit: a hand-out can also just be dropped.
WORKING_PAUSE_S = 0.05
# `pass_time` has arrived: how long it waits for workers to be done with what fell due meanwhile.
SETTLE_S_MAX = 1.0


class VirtualTime:
    """The database's clock: monotonic time since `start_us`, and what was skipped."""

    def __init__(self, clock: Clock, start_us: int) -> None:
        self._clock = clock
        self._offset_us = start_us - int(clock.monotonic() * 1_000_000)

    def now_us(self) -> int:
        return self._offset_us + int(self._clock.monotonic() * 1_000_000)

    def jump_to(self, instant_us: int) -> None:
        """Never back."""
        self._offset_us += max(0, instant_us - self.now_us())


class Skipper:
    """Start once on a running loop, stop once.

    `shards` are all that there are, `tables` the rows that they save.
    """

    def __init__(
        self,
        time: VirtualTime,
        clock: Clock,
        database_clock: DatabaseClock,
        tables: Tables,
        shards: Callable[[], list[Shard]],
    ) -> None:
        self._time = time
        self._clock = clock
        self._database_clock = database_clock
        self._tables = tables
        self._shards = shards
        self._waits = 0  # for results
        self._holds = 0
        self._goals: list[int] = []  # of pass_time
        self._changed = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._unattended_since: float | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="skip time")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- what others tell

    def changed(self) -> None:
        """Something was saved: it may have been the last that time waited for."""
        self._changed.set()

    def wait_begins(self) -> None:
        self._waits += 1
        self.changed()

    def wait_ends(self) -> None:
        self._waits -= 1

    @contextmanager
    def held(self) -> Iterator[None]:
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.changed()

    async def pass_time(self, seconds: float) -> None:
        goal_us = self._time.now_us() + round(seconds * 1_000_000)
        self._goals.append(goal_us)
        self.changed()
        try:
            async with self._arrived:
                await self._arrived.wait_for(lambda: self._time.now_us() >= goal_us)
        finally:
            self._goals.remove(goal_us)
        await self._settle()

    async def _settle(self) -> None:
        """Let workers be done with what fell due. An activity may run for long: it is not waited for."""
        ends_at = self._clock.monotonic() + SETTLE_S_MAX
        while self._clock.monotonic() < ends_at:
            if stillness(self._shards()) in (Stillness.STILL, Stillness.UNATTENDED):
                return
            await self._clock.sleep(MOVING_PAUSE_S)

    # ---- the work

    async def _run(self) -> None:
        while True:
            pause_s = self.step()
            async with self._arrived:
                self._arrived.notify_all()
            await self._pause(pause_s)

    async def _pause(self, seconds: float | None) -> None:
        """Until something changes, or so long. A moving engine is given its time in any case: its
        next commit says nothing new."""
        if seconds == MOVING_PAUSE_S:
            await self._clock.sleep(seconds)
        else:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass
        self._changed.clear()

    def step(self) -> float | None:
        """Jump if that is right now. Returns when to look again: None, when something has changed."""
        if not self._is_wanted():
            self._unattended_since = None
            return None
        found = stillness(self._shards())
        if found is not Stillness.UNATTENDED:
            self._unattended_since = None
        match found:
            case Stillness.MOVING:
                return MOVING_PAUSE_S
            case Stillness.WORKING:
                return self._real_wait(WORKING_PAUSE_S)
            case Stillness.UNATTENDED:
                left_s = self._unattended_left_s()
                if left_s > 0:
                    return self._real_wait(left_s)
        return self._jump()

    def _is_wanted(self) -> bool:
        return bool(self._goals) or (self._waits > 0 and not self._holds)

    def _unattended_left_s(self) -> float:
        now = self._clock.monotonic()
        if self._unattended_since is None:
            self._unattended_since = now
        return self._unattended_since + UNATTENDED_S - now

    def _real_wait(self, limit_s: float) -> float:
        """Time passes by itself meanwhile, and may reach where somebody wants to go."""
        if not self._goals:
            return limit_s
        left_s = (min(self._goals) - self._time.now_us()) / 1_000_000
        return max(MOVING_PAUSE_S, min(limit_s, left_s))

    def _jump(self) -> float | None:
        wake_us, kind = self._next_timer()
        goal_us = min(self._goals, default=0)
        held_up = kind is TimerKind.WORKFLOW_TASK_BACKOFF
        if goal_us and (not wake_us or goal_us < wake_us):
            to_us = goal_us
        elif not wake_us:
            return None  # only somebody outside can change anything
        elif held_up:
            return self._real_wait(max(MOVING_PAUSE_S, (wake_us - self._time.now_us()) / 1_000_000))
        else:
            to_us = wake_us
        self._time.jump_to(to_us)
        self._database_clock.sample(self._time.now_us())
        for shard in self._shards():
            shard.timers.time_jumped()
        return MOVING_PAUSE_S

    def _next_timer(self) -> tuple[int, TimerKind | None]:
        """From the saved rows: the heaps also hold timers that were cancelled since."""
        rows = (row for row in self._tables.timers.all() if row.state != ROW_GONE)
        first = min(rows, key=lambda row: row.wake_us, default=None)
        return (0, None) if first is None else (first.wake_us, TimerKind(first.kind))
