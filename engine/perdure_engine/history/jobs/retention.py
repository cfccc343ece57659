"""One pass over a shard's jobs and what belongs to them: what is over its time goes (`history.retention`)."""

from __future__ import annotations

from collections.abc import Callable

from perdure_engine.core.jobs.model import UniqueScope
from perdure_engine.core.schedules.model import SlotOutcome
from perdure_engine.history.archiving import Archiving, Moving
from perdure_engine.history.jobs.closed_jobs import ClosedJobs
from perdure_engine.history.shard import Shard
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.jobs import ClosedJob, JobRetentionStore
from perdure_engine.ports.store import NamespaceRow

ROWS_PER_PAGE = 1_000
_BEFORE_ALL = bytes(16)
_STILL_TO_ACT = (SlotOutcome.FIRING, SlotOutcome.BUFFERED)

IsOver = Callable[[bytes, int], NamespaceRow | None]
"""The namespace, if what ended in it at that time (µs) is over its retention."""


class JobsPass:
    def __init__(
        self, shard: Shard, store: JobRetentionStore, archiving: Archiving, is_over: IsOver
    ) -> None:
        self._shard = shard
        self._store = store
        self._archiving = archiving
        self._is_over = is_over

    async def run(self) -> int:
        """How many jobs left the tables. Raises StoreError."""
        left = await self._jobs()
        await self._batches()
        await self._slots()
        return left

    @property
    def _stops(self) -> bool:
        return self._shard.closed or self._shard.leaving

    async def _jobs(self) -> int:
        shard, archiving = self._shard, self._archiving
        removing = shard.jobs.removing
        moving = None
        if archiving.archive is not None:
            moving = Moving(archiving, shard, ClosedJobs(shard))
        deleted = 0
        after: bytes | None = _BEFORE_ALL
        while after is not None and not self._stops:
            page = await self._store.load_closed_jobs(shard.shard_id, after, ROWS_PER_PAGE)
            for job in page.jobs:
                namespace = self._is_over(job.namespace_id, job.closed_us)
                if namespace is None or self._holds_its_key(job):
                    continue
                if moving is not None and archiving.takes(namespace):
                    await moving.add(job, namespace)
                else:
                    deleted += 1
                    removing.add(job)
            await removing.wait_idle()  # one page at a time: memory and the shard stay free
            after = page.last_job_id
        if moving is None:
            return deleted
        await moving.end(shard.rooms.database_clock.low_us())
        return deleted + moving.moved

    def _holds_its_key(self, job: ClosedJob) -> bool:
        """Whether a unique key of a period may still be answered with it: the key's row goes with the job's."""
        rooms = self._shard.rooms
        try:
            unique = rooms.codec.decode_job_spec(job.spec).unique
        except CorruptRow:
            return False
        if unique is None or unique.scope is not UniqueScope.PERIOD:
            return False
        return job.closed_us + unique.period_ms * 1_000 > rooms.database_clock.low_us()

    async def _batches(self) -> None:
        """Those that are over: an open one waits for its jobs, and nobody knows how long."""
        shard = self._shard
        after = (_BEFORE_ALL, "")
        more = True
        while more and not self._stops:
            rows = await self._store.load_job_batches(shard.shard_id, after, ROWS_PER_PAGE)
            for row in rows:
                ended_us = self._ended_us(row.state)
                if ended_us and self._is_over(row.namespace_id, ended_us) is not None:
                    shard.jobs.removing.add_batch(row)
            await shard.jobs.removing.wait_idle()
            more = len(rows) == ROWS_PER_PAGE
            if rows:
                after = (rows[-1].namespace_id, rows[-1].batch_id)

    def _ended_us(self, state: bytes) -> int:
        try:
            return self._shard.rooms.codec.decode_job_batch(state).ended_us
        except CorruptRow:
            return 0

    async def _slots(self) -> None:
        shard = self._shard
        after = (_BEFORE_ALL, "", 0, 0)
        more = True
        while more and not self._stops:
            rows = await self._store.load_slots(shard.shard_id, after, ROWS_PER_PAGE)
            for row in rows:
                over = self._is_over(row.namespace_id, row.acted_us) is not None
                if over and row.outcome not in _STILL_TO_ACT:
                    shard.jobs.removing.add_slot(row)
            await shard.jobs.removing.wait_idle()
            more = len(rows) == ROWS_PER_PAGE
            if rows:
                last = rows[-1]
                after = (last.namespace_id, last.schedule_id, last.nominal_us, last.origin)
