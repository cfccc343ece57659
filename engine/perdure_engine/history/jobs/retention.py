"""One pass over a shard's jobs and what belongs to them: what is over its time goes (`history.retention`)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure_engine.core.jobs.memory import unique_key_id
from perdure_engine.core.jobs.model import UniqueScope
from perdure_engine.core.schedules.model import SlotOutcome
from perdure_engine.history.archiving import BEFORE_ALL, Archiving, Over, first_of
from perdure_engine.history.jobs.closed_jobs import ClosedJobs
from perdure_engine.history.jobs.removing import LeavingJob
from perdure_engine.history.shard import Shard
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.jobs import ClosedJob, JobRetentionStore
from perdure_engine.ports.store import NamespaceRow

ROWS_PER_PAGE = 1_000
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
        return await self._archiving.clear(self._shard, ClosedJobs(self._shard), self._read)

    async def _read(self, after: bytes) -> tuple[Over[LeavingJob], bytes | None]:
        page = await self._store.load_closed_jobs(self._shard.shard_id, after, ROWS_PER_PAGE)
        old = [
            (job, namespace)
            for job in page.jobs
            if (namespace := self._is_over(job.namespace_id, job.closed_us)) is not None
        ]
        leaving = await self._leaving([job for job, _ in old])
        low_us = self._shard.rooms.database_clock.low_us()
        over = [
            (leaving[job.job_id], namespace)
            for job, namespace in old
            # the key's row goes with the job's
            if job.job_id in leaving and leaving[job.job_id].key_until_us <= low_us
        ]
        return over, page.last_job_id

    async def _leaving(self, jobs: list[ClosedJob]) -> dict[bytes, LeavingJob]:
        """By id. Of those whose specification is too large for a page a few are read at a time; what has begun anew
        meanwhile is missing."""
        shard = self._shard
        found = {job.job_id: self._with_key(job, job.spec) for job in jobs if job.spec}
        left = [job for job in jobs if not job.spec]
        while left and not self._stops:
            group = first_of(left, lambda job: job.row_bytes)
            left = left[len(group) :]
            by_id = {job.job_id: job for job in group}
            for row in await shard.rooms.store.load_jobs(shard.shard_id, list(by_id)):
                job = by_id[row.job_id]
                if row.closed_us == job.closed_us:
                    found[job.job_id] = self._with_key(job, row.spec)
        return found

    def _with_key(self, job: ClosedJob, spec: bytes) -> LeavingJob:
        leaving = LeavingJob(job.job_id, job.closed_us, job.row_bytes)
        try:
            decoded = self._shard.rooms.codec.decode_job_spec(spec)
        except CorruptRow:
            return leaving
        unique = decoded.unique
        if unique is None:
            return leaving
        until_us = 0
        if unique.scope is UniqueScope.PERIOD:
            until_us = job.closed_us + unique.period_ms * 1_000
        return msgspec.structs.replace(
            leaving, key_id=unique_key_id(job.namespace_id, decoded), key_until_us=until_us
        )

    async def _batches(self) -> None:
        """Those that are over: an open one waits for its jobs, and nobody knows how long."""
        shard = self._shard
        after = (BEFORE_ALL, "")
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
        after = (BEFORE_ALL, "", 0, 0)
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
