"""Ended jobs, batches of jobs and slots of schedules that are over their time, deleted in the shard's turn, as runs are
(`history.removing`).

A failed job may be redriven while it waits to go. Then it stays: memory says so, or the guard of the removal does, and
what was to go together with it is looked at again in the next pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from perdure_engine.core.jobs.memory import BatchId, KeyId
from perdure_engine.ports.rows import JobBatchRow, ScheduleSlotRow
from perdure_engine.ports.store import JobRemoval

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

ROWS_MAX = 500  # of each kind in one statement

Key = tuple[bytes, int, str, bytes]
SlotId = tuple[bytes, str, int, int]


class LeavingJob(msgspec.Struct, frozen=True):
    """A job that is over its retention."""

    job_id: bytes
    closed_us: int
    row_bytes: int
    key_id: KeyId | None = None  # its unique key
    key_until_us: int = 0  # a key of a period: until then a job may be answered with it


class Taken(msgspec.Struct, eq=False):
    """What one statement deletes: jobs with their unique keys, if they have any."""

    jobs: dict[bytes, Key | None]
    batches: list[BatchId]
    slots: list[SlotId]


class JobRemoving:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._waiting = Taken({}, [], [])
        self._idle = asyncio.Event()
        self._idle.set()
        self._left = False  # something of what was to go has stayed

    @property
    def due(self) -> bool:
        """The writer sends a removal in the shard's next turn."""
        waiting = self._waiting
        return bool(waiting.jobs or waiting.batches or waiting.slots)

    def add(self, job: LeavingJob) -> None:
        """It has ended, and that is saved. Its unique key goes with it."""
        key = None if job.key_id is None else (*job.key_id, job.job_id)
        self._waiting.jobs[job.job_id] = key
        self._begin()

    def add_batch(self, row: JobBatchRow) -> None:
        self._waiting.batches.append((row.namespace_id, row.batch_id))
        self._begin()

    def add_slot(self, row: ScheduleSlotRow) -> None:
        slot = (row.namespace_id, row.schedule_id, row.nominal_us, row.origin)
        self._waiting.slots.append(slot)
        self._begin()

    def _begin(self) -> None:
        if self._jobs.shard.closed:  # a pass has read of it before
            self.stop()
            return
        self._idle.clear()
        self._jobs.shard.chore_waits()

    async def wait_idle(self) -> bool:
        """Returns when nothing waits and nothing is under way. False: something has stayed."""
        await self._idle.wait()
        left, self._left = self._left, False
        return not left

    def take(self, batch_id: bytes) -> tuple[JobRemoval, Taken]:
        """The next statement's rows. To be settled with `removed`, `refused` or `give_back`."""
        waiting = self._waiting
        memory = self._jobs.memory.jobs
        jobs: dict[bytes, Key | None] = {}
        for job_id in list(waiting.jobs)[:ROWS_MAX]:
            key = waiting.jobs.pop(job_id)
            run = memory.get(job_id)
            if run is not None and run.open:
                self._left = True
            else:
                jobs[job_id] = key
        taken = Taken(jobs, waiting.batches[:ROWS_MAX], waiting.slots[:ROWS_MAX])
        waiting.batches, waiting.slots = waiting.batches[ROWS_MAX:], waiting.slots[ROWS_MAX:]
        removal = JobRemoval(
            batch_id,
            self._jobs.shard.fence,
            list(taken.jobs),
            list(_keys(taken)),
            taken.batches,
            taken.slots,
        )
        return removal, taken

    def removed(self, taken: Taken) -> None:
        """They are gone from the database: now from memory."""
        self._jobs.forget_removed(list(taken.jobs), list(_keys(taken)), taken.batches)
        self._jobs.shard.rooms.metrics.jobs_removed.inc(by=len(taken.jobs))
        self._settle()

    def refused(self, taken: Taken, error: Exception) -> None:
        """One of them has begun anew, and left memory since."""
        self._left = True
        self._settle()

    def give_back(self, taken: Taken) -> None:
        """It was not deleted (or may not have been): deleting it once more is harmless."""
        if self._jobs.shard.closed:
            return
        waiting = self._waiting
        waiting.jobs = {**taken.jobs, **waiting.jobs}
        waiting.batches = taken.batches + waiting.batches
        waiting.slots = taken.slots + waiting.slots
        self._jobs.shard.chore_waits()

    def stop(self) -> None:
        """The shard closes, or has closed: whoever waits goes on, and finds it closed."""
        self._waiting = Taken({}, [], [])
        self._left = True
        self._idle.set()

    def _settle(self) -> None:
        if not self.due:
            self._idle.set()


def _keys(taken: Taken) -> Iterator[Key]:
    return (key for key in taken.jobs.values() if key is not None)
