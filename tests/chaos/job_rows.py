"""Everything that the database has of jobs and schedules, read at quiescence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.chaos.scrub import PAGE, open_store

from perdure._wire.payloads import payloads_from_bytes
from perdure.converter import PayloadConverter
from perdure.job import JobStatus
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.memory import JobBatch
from perdure_engine.core.jobs.model import OPEN_STATUSES, JobRun
from perdure_engine.history.jobs.rows import batch_of_row, job_of_row
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.rows import ScheduleRow, ScheduleSlotRow
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.sql.store import SqlStore

CONVERTER = PayloadConverter.default
BEFORE_ALL = bytes(16)


class SavedJob(NamedTuple):
    """One row. Instants are seconds by the database's clock; `closed_s` 0: it is open."""

    job_id: str
    run: JobRun
    argument: Any
    """The first one: the number of its story; of a callback what the engine says of the batch."""
    result: Any

    @property
    def status(self) -> JobStatus:
        return JobStatus(int(self.run.status))

    @property
    def closed_s(self) -> float:
        return self.run.closed_us / 1e6

    @property
    def created_s(self) -> float:
        return self.run.created_us / 1e6

    @property
    def scheduled_s(self) -> float:
        return self.run.scheduled_us / 1e6


@dataclass
class SavedRows:
    jobs: dict[str, SavedJob] = field(default_factory=dict)
    batches: dict[str, JobBatch] = field(default_factory=dict)
    slots: dict[str, list[ScheduleSlotRow]] = field(default_factory=dict)
    """By schedule, in order."""
    schedules: list[ScheduleRow] = field(default_factory=list)


async def count_open_jobs(store: SqlStore) -> int:
    [namespace] = await store.list_namespaces()
    where = JobFilter(namespace.namespace_id, statuses=tuple(map(int, OPEN_STATUSES)))
    return sum(count for _, count in await store.count_jobs(where))


async def read_rows(dsn: str, number_of_shards: int) -> SavedRows:
    rows = SavedRows()
    codec = MsgpackCodec()
    async with open_store(dsn) as store:
        async for job in _jobs(store, codec):
            rows.jobs[job.job_id] = job
        for shard_id in range(1, number_of_shards + 1):
            await _of_shard(store, codec, shard_id, rows)
    return rows


async def _jobs(store: SqlStore, codec: MsgpackCodec) -> AsyncIterator[SavedJob]:
    [namespace] = await store.list_namespaces()
    past: tuple[int, bytes] | None = None
    while True:
        page = await store.list_jobs(JobFilter(namespace.namespace_id), past, PAGE)
        by_shard: dict[int, list[bytes]] = {}
        for row in page.rows:
            by_shard.setdefault(row.shard_id, []).append(row.job_id)
        for shard_id, job_ids in by_shard.items():
            for whole in await store.load_jobs(shard_id, job_ids):  # lists leave results out
                yield _saved(job_of_row(whole, codec))
        past = page.end
        if past is None:
            return


def _saved(run: JobRun) -> SavedJob:
    argument = next(iter(_values(run.spec.input)), None)
    result = next(iter(_values(run.result)), None)
    return SavedJob(uuid_text(run.job_id), run, argument, result)


def _values(payloads: bytes) -> list[Any]:
    return [CONVERTER.from_payload(one) for one in payloads_from_bytes(payloads)]


async def _of_shard(store: SqlStore, codec: MsgpackCodec, shard_id: int, rows: SavedRows) -> None:
    after = (BEFORE_ALL, "")
    while batches := await store.load_job_batches(shard_id, after, PAGE):
        for row in batches:
            rows.batches[row.batch_id] = batch_of_row(row, codec)
        after = (batches[-1].namespace_id, batches[-1].batch_id)
    last = (BEFORE_ALL, "", 0, 0)
    while slots := await store.load_slots(shard_id, last, PAGE):
        for slot in slots:
            rows.slots.setdefault(slot.schedule_id, []).append(slot)
        last = (
            slots[-1].namespace_id,
            slots[-1].schedule_id,
            slots[-1].nominal_us,
            slots[-1].origin,
        )
    rows.schedules += [
        row for row in await store.load_schedules(shard_id, None, PAGE) if not row.gone
    ]
