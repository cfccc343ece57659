"""Jobs whose time is near, in memory before it comes: many in one read, so that at their time nothing is read.

Of the jobs whose timers are in memory only a few are there themselves. So the timers lie here a second time, sorted
into slots of half a second; a second before its slot begins a job is read, together with all others of the slot, and
stays until its timer fires. How many may stay is a matter of bytes, of the process: when they are used up, what comes
next is read as soon as others have had their time.

None of this decides anything. A job that is not in memory at its time is read then; what is changed while it waits is
changed in memory, and its timer finds it so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from perdure_engine.core.errors import Rejected
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.needs import Needs
from perdure_engine.core.tasks import TimerKind
from perdure_engine.history.jobs.cache import JOB_BYTES, bytes_of

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

AHEAD_US = 1_000_000  # from a read to the time of the first job it brings
SLOT_BITS = 19  # µs: 0.52 s
JOBS_PER_READ = 500  # others' reads wait for it
# Those that are near when they come are few, or come from a page of timers: a read for some of them together.
GATHER_S = 0.02
NO_ROOM_WAIT_S = 0.1

Entry = tuple[int, int, TimerKind, int, bytes]  # of the shard's timers


class JobsAhead:
    """One shard's."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cache = jobs.shard.rooms.job_cache
        self._slots: dict[int, list[Entry]] = {}
        self._near: deque[Entry] = deque()  # to be looked at
        self._near_to = 0  # slots before it are near
        self._reading = False
        self._mean_bytes = JOB_BYTES  # of those that were read last
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def comes(self, entry: Entry) -> None:
        """A timer of a job is in memory from now on."""
        slot = entry[0] >> SLOT_BITS
        if slot < self._near_to:
            self._near.append(entry)
            self._look_in(GATHER_S)
            return
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = [entry]
            self._look_in(self._wait_s(slot))
        else:
            entries.append(entry)

    def keep(self, waiting: Sequence[JobRun]) -> None:
        """Jobs that wait for their time, and are saved: those that come soon are kept, and others while there is room."""
        jobs, window_end_us = self._jobs, self._jobs.shard.timers.window_end_us
        wait, near_to = self._cache.wait, self._near_to
        may_forget = jobs.may_forget()
        for run in waiting:
            assert run.timer is not None
            wake_us = run.timer.wake_us
            soon = wake_us >> SLOT_BITS < near_to
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

    # ---- the time of slots

    def _wait_s(self, slot: int) -> float:
        """Until a slot is near."""
        low_us = self._jobs.shard.rooms.database_clock.low_us()
        return max(0.0, ((slot << SLOT_BITS) - AHEAD_US - low_us) / 1_000_000)

    def _look_in(self, wait_s: float) -> None:
        """At the latest."""
        loop = asyncio.get_running_loop()
        at = loop.time() + wait_s
        if self._alarm is not None:
            if self._alarm_at <= at:
                return
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = loop.call_at(at, self._look)

    def _look(self) -> None:
        self._alarm = None
        low_us = self._jobs.shard.rooms.database_clock.low_us()
        near_to = (low_us + AHEAD_US >> SLOT_BITS) + 1
        for slot in sorted([slot for slot in self._slots if slot < near_to]):
            self._near += self._slots.pop(slot)
        self._near_to = max(self._near_to, near_to)
        self._read_on()
        if self._slots:
            self._look_in(max(GATHER_S, self._wait_s(min(self._slots))))

    # ---- reading

    def _read_on(self) -> None:
        if self._reading or self._jobs.shard.closed:
            return
        missing = self._next_missing()
        if missing:
            self._reading = True
            needs = Needs(self._jobs.memory, (), jobs=dict.fromkeys([one[4] for one in missing]))
            self._jobs.loading.ask(needs, partial(self._came, missing))
        elif self._near:
            self._look_in(NO_ROOM_WAIT_S)

    def _next_missing(self) -> list[Entry]:
        """As many as there is room for. Those before them that are in memory stay there."""
        near, jobs = self._near, self._jobs.memory.jobs
        timers = self._jobs.shard.timers
        most = min(JOBS_PER_READ, self._cache.waiting_room // self._mean_bytes)
        missing: list[Entry] = []
        while near and len(missing) < most:
            entry = near.popleft()
            run = jobs.get(entry[4])
            if run is not None:
                self._stays(run, entry)
            elif timers.is_coming(entry):
                missing.append(entry)
        return missing

    def _came(self, entries: list[Entry], refusal: Rejected | None, _: set[bytes]) -> None:
        self._reading = False
        if refusal is None:
            jobs = self._jobs.memory.jobs
            found = [(run, entry) for entry in entries if (run := jobs.get(entry[4])) is not None]
            for run, entry in found:
                self._stays(run, entry)
            if found:
                self._mean_bytes = sum([bytes_of(run) for run, _ in found]) // len(found)
        self._read_on()

    def _stays(self, run: JobRun, entry: Entry) -> None:
        """If the timer is still one of the job's: else nothing would end its stay."""
        timer_id = entry[1]
        is_due = run.timer is not None and run.timer.timer_id == timer_id
        expires = run.expiry is not None and run.expiry.timer_id == timer_id
        if run.handout is None and (is_due or expires):
            self._cache.wait(run, soon=True)
