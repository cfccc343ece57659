"""What shards and lists read of jobs."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from perdure_engine.ports.jobs import (
    JOBS_LOOKED_AT,
    ClosedJob,
    ClosedJobPage,
    JobFilter,
    JobPage,
)
from perdure_engine.ports.rows import JobBatchRow, JobKeyRow, JobRunRow, ScheduleSlotRow
from perdure_engine.store.sql import (
    job_batches,
    job_keys,
    job_lists,
    job_runs,
    runs,
    schedule_slots,
)
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.connection import Row, Session
from perdure_engine.store.sql.parameters import (
    Instant,
    Int2,
    Int2s,
    Int4,
    Int4s,
    Int8,
    Texts,
    Uuid,
    Uuids,
)

_STATE: Final = JobRunRow._fields.index("state")


class SqlJobs:
    """`JobStore` on SQL."""

    _access: Access

    async def load_jobs(self, shard_id: int, job_ids: list[bytes]) -> list[JobRunRow]:
        values = (Int4(shard_id), Uuids(job_ids))
        return _jobs(await self._access.read(job_runs.READ_KEYS, values))

    async def load_ready_jobs(
        self, shard_id: int, queue_no: int, after_task_id: int, limit: int
    ) -> list[JobRunRow]:
        values = (Int4(shard_id), Int4(queue_no), Int8(after_task_id), Int8(limit))
        return _jobs(await self._access.read(job_runs.READ_QUEUE, values))

    async def load_ready_jobs_of_shard(
        self, shard_id: int, after: tuple[int, int], limit: int
    ) -> list[JobRunRow]:
        queue_no, task_id = after
        values = (Int4(shard_id), Int4(queue_no), Int8(task_id), Int8(limit))
        return _jobs(await self._access.read(job_runs.READ_READY, values))

    async def count_ready_jobs(
        self, shard_id: int, queue_no: int, after_task_id: int, before_task_id: int
    ) -> int:
        values = (Int4(shard_id), Int4(queue_no), Int8(after_task_id), Int8(before_task_id))
        rows = await self._access.read(job_runs.COUNT_READY, values)
        return int(rows[0][0])

    async def load_started_jobs(
        self, shard_id: int, after_job_id: bytes, limit: int
    ) -> list[JobRunRow]:
        values = (Int4(shard_id), Uuid(after_job_id), Int8(limit))
        return _jobs(await self._access.read(job_runs.READ_STARTED, values))

    async def load_keyed_jobs(
        self, shard_id: int, namespace_id: bytes, concurrency_key: str, limit: int
    ) -> list[JobRunRow]:
        """Both reads see one state: a job that goes from one to the other is found once."""
        values = (Int4(shard_id), Uuid(namespace_id), concurrency_key, Int8(limit))

        async def load(session: Session) -> list[Row]:
            _, holding, waiting, _ = await session.fetch_together(
                [
                    (runs.BEGIN, ()),
                    (job_runs.READ_HOLDING, values),
                    (job_runs.READ_WAITING, values),
                    (runs.COMMIT, ()),
                ]
            )
            return [*holding, *waiting][:limit]

        return _jobs(await self._access.read_with(load))

    async def load_job_keys(self, keys: list[tuple[int, bytes, int, str]]) -> list[JobKeyRow]:
        rows = await self._access.read(
            job_keys.READ_KEYS,
            (
                Int4s([shard_id for shard_id, _, _, _ in keys]),
                Uuids([namespace_id for _, namespace_id, _, _ in keys]),
                Int2s([kind for _, _, kind, _ in keys]),
                Texts([key for _, _, _, key in keys]),
            ),
        )
        return [JobKeyRow._make(row) for row in rows]

    async def load_job_batch(
        self, shard_id: int, namespace_id: bytes, batch_id: str
    ) -> JobBatchRow | None:
        values = (Int4(shard_id), Uuid(namespace_id), batch_id)
        rows = await self._access.read(job_batches.READ, values)
        return JobBatchRow._make(rows[0]) if rows else None

    async def list_jobs(
        self,
        where: JobFilter,
        past: tuple[int, bytes] | None,
        limit: int,
        *,
        oldest_first: bool = False,
        look: int = JOBS_LOOKED_AT,
    ) -> JobPage:
        end = None
        if job_lists.needs_end(where):
            text, values = job_lists.end_statement(where, past, look, oldest_first=oldest_first)
            ends = await self._access.read_list(text, values, prepare=True)
            end = (ends[0][0], ends[0][1]) if ends else None
        text, values = job_lists.list_statement(where, past, end, limit, oldest_first=oldest_first)
        found = await self._access.read_list(text, values, prepare=True)
        rows = _jobs(list(takewhile(_has_state, found)))
        if rows and (len(rows) < len(found) or len(rows) == limit):
            end = (rows[-1].scheduled_us, rows[-1].job_id)
        return JobPage(rows, end)

    async def count_jobs(self, where: JobFilter) -> list[tuple[int, int]]:
        text, values = job_lists.count_statement(where)
        rows = await self._access.read_list(text, values, prepare=True)
        return [(status, jobs) for status, jobs in rows if jobs]


class SqlJobRetention:
    """`JobRetentionStore` on SQL."""

    _access: Access

    async def load_closed_jobs(
        self, shard_id: int, after_job_id: bytes, limit: int
    ) -> ClosedJobPage:
        values = (Int4(shard_id), Uuid(after_job_id), Int8(limit))
        rows = await self._access.read(job_runs.READ_AFTER, values)
        closed = [
            ClosedJob(job_id, namespace_id, closed_us, spec, row_bytes)
            for job_id, namespace_id, closed_us, spec, row_bytes in rows
            if closed_us is not None
        ]
        return ClosedJobPage(closed, rows[-1][0] if len(rows) == limit else None)

    async def load_job_batches(
        self, shard_id: int, after: tuple[bytes, str], limit: int
    ) -> list[JobBatchRow]:
        namespace_id, batch_id = after
        values = (Int4(shard_id), Uuid(namespace_id), batch_id, Int8(limit))
        rows = await self._access.read(job_batches.READ_AFTER, values)
        return [JobBatchRow._make(row) for row in rows]

    async def load_slots(
        self, shard_id: int, after: tuple[bytes, str, int, int], limit: int
    ) -> list[ScheduleSlotRow]:
        namespace_id, schedule_id, nominal_us, origin = after
        values = (
            Int4(shard_id),
            Uuid(namespace_id),
            schedule_id,
            Instant(nominal_us),
            Int2(origin),
            Int8(limit),
        )
        rows = await self._access.read(schedule_slots.READ_AFTER, values)
        return [ScheduleSlotRow._make(row) for row in rows]


def _has_state(row: Row) -> bool:
    """Else it was too much for the page, which ends before it."""
    return row[_STATE] is not None


def _jobs(rows: list[Row]) -> list[JobRunRow]:
    return [JobRunRow._make(row) for row in rows]
