"""Jobs in memory."""

from __future__ import annotations

from collections import Counter

from perdure_engine.ports.jobs import (
    JOBS_LOOKED_AT,
    LISTED_SPEC_BYTES_MAX,
    LISTED_STATES_BYTES_MAX,
    ClosedJob,
    ClosedJobPage,
    JobFilter,
    JobPage,
)
from perdure_engine.ports.rows import JobBatchRow, JobKeyRow, JobRunRow, ScheduleSlotRow
from perdure_engine.store.memory.faults import Faults, Moment
from perdure_engine.store.memory.tables import Tables

IN_PROGRESS = 2


class MemoryJobs:
    """`JobStore` in memory."""

    tables: Tables
    faults: Faults

    async def load_jobs(self, shard_id: int, job_ids: list[bytes]) -> list[JobRunRow]:
        await self.faults.meet("load_jobs", Moment.BEFORE)
        found = [self.tables.job_runs.get(shard_id, job_id) for job_id in job_ids]
        return [row for row in found if row is not None]

    async def load_ready_jobs(
        self, shard_id: int, queue_no: int, after_task_id: int, limit: int
    ) -> list[JobRunRow]:
        await self.faults.meet("load_ready_jobs", Moment.BEFORE)
        rows = [row for row in self._ready(shard_id) if row.queue_no == queue_no]
        return [row for row in rows if row.task_id > after_task_id][:limit]

    async def load_ready_jobs_of_shard(
        self, shard_id: int, after: tuple[int, int], limit: int
    ) -> list[JobRunRow]:
        await self.faults.meet("load_ready_jobs_of_shard", Moment.BEFORE)
        rows = self._ready(shard_id)
        return [row for row in rows if (row.queue_no, row.task_id) > after][:limit]

    async def count_ready_jobs(
        self, shard_id: int, queue_no: int, after_task_id: int, before_task_id: int
    ) -> int:
        await self.faults.meet("count_ready_jobs", Moment.BEFORE)
        least = max(after_task_id, 0)
        return sum(
            row.queue_no == queue_no and least < row.task_id < before_task_id
            for row in self.tables.job_runs.in_order(shard_id)
        )

    async def load_started_jobs(
        self, shard_id: int, after_job_id: bytes, limit: int
    ) -> list[JobRunRow]:
        await self.faults.meet("load_started_jobs", Moment.BEFORE)
        rows = self.tables.job_runs.in_order(shard_id)
        return [row for row in rows if row.status == IN_PROGRESS and row.job_id > after_job_id][
            :limit
        ]

    async def load_keyed_jobs(
        self, shard_id: int, namespace_id: bytes, concurrency_key: str, limit: int
    ) -> list[JobRunRow]:
        await self.faults.meet("load_keyed_jobs", Moment.BEFORE)
        rows = [
            row
            for row in self.tables.job_runs.in_order(shard_id)
            if (row.namespace_id, row.concurrency_key) == (namespace_id, concurrency_key)
            and row.concurrency_key
        ]
        holding = [row for row in rows if row.status == IN_PROGRESS or row.task_id > 0]
        waiting = [row for row in rows if row.task_id < 0]
        holding.sort(key=lambda row: (row.created_us, row.job_id))
        waiting.sort(key=lambda row: -row.task_id)
        return [*holding, *waiting][:limit]

    async def load_job_keys(self, keys: list[tuple[int, bytes, int, str]]) -> list[JobKeyRow]:
        await self.faults.meet("load_job_keys", Moment.BEFORE)
        found = [self.tables.job_keys.get(shard_id, tuple(key)) for shard_id, *key in keys]
        return [row for row in found if row is not None]

    async def load_job_batch(
        self, shard_id: int, namespace_id: bytes, batch_id: str
    ) -> JobBatchRow | None:
        await self.faults.meet("load_job_batch", Moment.BEFORE)
        return self.tables.job_batches.get(shard_id, (namespace_id, batch_id))

    async def list_jobs(
        self,
        where: JobFilter,
        past: tuple[int, bytes] | None,
        limit: int,
        *,
        oldest_first: bool = False,
        look: int = JOBS_LOOKED_AT,
    ) -> JobPage:
        """One scan, of the namespace's jobs in their time, for every filter."""
        await self.faults.meet("list_jobs", Moment.BEFORE)
        look = max(look, limit)
        of_time = JobFilter(where.namespace_id, from_us=where.from_us, to_us=where.to_us)
        rows = sorted(self._jobs_matching(of_time), key=_time, reverse=not oldest_first)
        if past is not None:
            rows = [
                row for row in rows if (_time(row) > past if oldest_first else _time(row) < past)
            ]
        found = [_in_list(row) for row in rows[:look] if _matches(where, row)]
        shown = _light(found[:limit])
        if len(shown) < len(found):
            return JobPage(shown, _time(shown[-1]))
        return JobPage(shown, _time(rows[look - 1]) if len(rows) > look else None)

    async def count_jobs(self, where: JobFilter) -> list[tuple[int, int]]:
        await self.faults.meet("count_jobs", Moment.BEFORE)
        return sorted(Counter(row.status for row in self._jobs_matching(where)).items())

    def _ready(self, shard_id: int) -> list[JobRunRow]:
        rows = [row for row in self.tables.job_runs.in_order(shard_id) if row.task_id > 0]
        return sorted(rows, key=lambda row: (row.queue_no, row.task_id))

    def _jobs_matching(self, where: JobFilter) -> list[JobRunRow]:
        return [row for row in self.tables.job_runs.all() if _matches(where, row)]


class MemoryJobRetention:
    """`JobRetentionStore` in memory."""

    tables: Tables
    faults: Faults

    async def load_closed_jobs(
        self, shard_id: int, after_job_id: bytes, limit: int
    ) -> ClosedJobPage:
        await self.faults.meet("load_closed_jobs", Moment.BEFORE)
        rows = [row for row in self.tables.job_runs.in_order(shard_id) if row.job_id > after_job_id]
        page = rows[:limit]
        closed = [
            ClosedJob(
                row.job_id,
                row.namespace_id,
                row.closed_us,
                _listed_spec(row),
                len(row.spec) + len(row.state) + len(row.result),
            )
            for row in page
            if row.closed_us is not None
        ]
        return ClosedJobPage(closed, page[-1].job_id if len(page) == limit else None)

    async def load_job_batches(
        self, shard_id: int, after: tuple[bytes, str], limit: int
    ) -> list[JobBatchRow]:
        await self.faults.meet("load_job_batches", Moment.BEFORE)
        rows = self.tables.job_batches.in_order(shard_id)
        return [row for row in rows if (row.namespace_id, row.batch_id) > after][:limit]

    async def load_slots(
        self, shard_id: int, after: tuple[bytes, str, int, int], limit: int
    ) -> list[ScheduleSlotRow]:
        await self.faults.meet("load_slots", Moment.BEFORE)
        table = self.tables.schedule_slots
        return [row for row in table.in_order(shard_id) if table.key_of(row) > after][:limit]


def _time(row: JobRunRow) -> tuple[int, bytes]:
    return row.scheduled_us, row.job_id


def _light(rows: list[JobRunRow]) -> list[JobRunRow]:
    """As many as are not too heavy for a page, and at least one."""
    room = LISTED_STATES_BYTES_MAX
    for number, row in enumerate(rows):
        if room <= 0:
            return rows[:number]
        room -= len(row.state)
    return rows


def _in_list(row: JobRunRow) -> JobRunRow:
    return row._replace(spec=_listed_spec(row), result=b"")


def _listed_spec(row: JobRunRow) -> bytes:
    return row.spec if len(row.spec) <= LISTED_SPEC_BYTES_MAX else b""


def _matches(where: JobFilter, row: JobRunRow) -> bool:
    return (
        row.namespace_id == where.namespace_id
        and where.user_id in ("", row.user_id)
        and (not where.statuses or row.status in where.statuses)
        and where.task_name in ("", row.task_name)
        and where.queue in ("", row.queue)
        and where.schedule_id in ("", row.schedule_id)
        and where.batch_id in ("", row.batch_id)
        and row.scheduled_us >= where.from_us
        and (not where.to_us or row.scheduled_us < where.to_us)
    )
