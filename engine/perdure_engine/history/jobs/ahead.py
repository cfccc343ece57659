"""Jobs whose time is near, in memory before it comes: many in one read, so that at their time nothing is read.

Of the jobs whose timers are in memory only a few are there themselves: as many as there is room for. When a timer is
near its job is read, together with all others of that half second, and stays until the timer fires. How many may stay
is a matter of bytes, of the process: when they are used up, what comes next is read as soon as others have had their
time.

None of this decides anything. A job that is not in memory at its time is read then; what is changed while it waits is
changed in memory, and its timer finds it so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from perdure_engine.core.errors import Rejected
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.needs import Needs
from perdure_engine.history.jobs.cache import JOB_BYTES, bytes_of
from perdure_engine.history.jobs.timers import JobTimer

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

JOBS_PER_READ = 500  # others' reads wait for it
# When there is no room for so many, until there is, or for a part of what there is in all.
JOBS_PER_READ_MIN = 100
PART = 4
NO_ROOM_WAIT_S = 0.1


class JobsAhead:
    """One shard's."""

    __slots__ = ("_alarm", "_cache", "_jobs", "_mean_bytes", "_near", "_reading")

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cache = jobs.shard.rooms.job_cache
        self._near: deque[JobTimer] = deque()  # not looked at yet
        self._reading = False
        self._mean_bytes = JOB_BYTES  # of those that were read last
        self._alarm: asyncio.TimerHandle | None = None

    def come(self, timers: Iterable[JobTimer]) -> None:
        """Timers that are near from now on, in their order."""
        self._near.extend(timers)
        if self._near and self._alarm is None and not self._reading:
            self._alarm = asyncio.get_running_loop().call_later(0, self._read_on)

    def keep(self, waiting: Sequence[JobRun]) -> None:
        """Jobs that wait for their time, and are saved: near ones are kept, and others while there is room."""
        jobs = self._jobs
        window_end_us, is_near = jobs.shard.timers.window_end_us, jobs.timers.is_near
        wait, may_forget = self._cache.wait, jobs.may_forget()
        for run in waiting:
            assert run.timer is not None
            wake_us = run.timer.wake_us
            soon = is_near(wake_us)
            if wake_us < window_end_us and wait(run, soon=soon):
                continue
            if soon or not may_forget:
                jobs.unused(run)
            else:
                jobs.drop(run)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _read_on(self) -> None:
        self.stop()
        if self._jobs.shard.closed:
            return
        missing = self._next_missing()
        if missing:
            self._reading = True
            needs = Needs(self._jobs.memory, (), jobs=dict.fromkeys([one[3] for one in missing]))
            self._jobs.loading.ask(needs, partial(self._came, missing))
        elif self._near:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(NO_ROOM_WAIT_S, self._read_on)

    def _next_missing(self) -> list[JobTimer]:
        """As many as there is room for. Those before them that are in memory stay there; those whose time has come are
        of no use, however little room there is."""
        near, jobs, is_coming = self._near, self._jobs.memory.jobs, self._jobs.timers.is_coming
        most = self._most()
        missing: list[JobTimer] = []
        while near and (len(missing) < most or not is_coming(near[0])):
            timer = near.popleft()
            run = jobs.get(timer[3])
            if run is not None:
                self._stays(run, timer)
            elif is_coming(timer):
                missing.append(timer)
        return missing

    def _most(self) -> int:
        """How many may be read at once. None, when they would be few for lack of room."""
        cache, mean_bytes = self._cache, self._mean_bytes
        room = cache.waiting_room // mean_bytes
        enough = min(JOBS_PER_READ_MIN, cache.waiting_bytes_max // PART // mean_bytes)
        return min(JOBS_PER_READ, room) if room >= min(enough, len(self._near)) else 0

    def _came(self, timers: list[JobTimer], refusal: Rejected | None, _: set[bytes]) -> None:
        self._reading = False
        if refusal is None:
            jobs = self._jobs.memory.jobs
            found = [(run, timer) for timer in timers if (run := jobs.get(timer[3])) is not None]
            for run, timer in found:
                self._stays(run, timer)
            if found:
                self._mean_bytes = sum([bytes_of(run) for run, _ in found]) // len(found)
        self._read_on()

    def _stays(self, run: JobRun, timer: JobTimer) -> None:
        """If the timer is still one of the job's: else nothing would end its stay."""
        timer_id = timer[1]
        is_due = run.timer is not None and run.timer.timer_id == timer_id
        expires = run.expiry is not None and run.expiry.timer_id == timer_id
        if run.handout is None and (is_due or expires) and self._jobs.timers.is_coming(timer):
            self._cache.wait(run, soon=True)
