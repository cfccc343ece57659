"""Rows of jobs and schedules, for tests of the store: each differs from the default in what the test is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.owner import NAMESPACE, QUEUE, START_US, new_id

from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.rows import (
    JobBatchRow,
    JobKeyRow,
    JobRunRow,
    ScheduleRow,
    ScheduleSlotRow,
)
from perdure_engine.ports.store import Store

PENDING, IN_PROGRESS, RETRY, COMPLETED, FAILED, CANCELLED, SKIPPED, SUSPENDED, POISONED = range(
    1, 10
)
OPEN = (PENDING, IN_PROGRESS, RETRY, SUSPENDED, POISONED)
NO_JOB = bytes(16)  # the job of a key that nobody holds


def job_row(shard_id: int = 1, **columns: Any) -> JobRunRow:
    """A new job that waits for its time. One that has ended has ended a second after its scheduled time."""
    status = columns.get("status", PENDING)
    scheduled_us = columns.get("scheduled_us", START_US)
    row = JobRunRow(
        shard_id=shard_id,
        job_id=new_id(),
        namespace_id=NAMESPACE,
        bucket=shard_id % 16,
        task_name="send_email",
        queue="default",
        queue_no=QUEUE,
        user_id="",
        schedule_id="",
        concurrency_key="",
        batch_id="",
        status=PENDING,
        attempt=1,
        priority=3,
        created_us=START_US,
        scheduled_us=scheduled_us,
        closed_us=None if status in OPEN else scheduled_us + 1_000_000,
        task_id=0,
        start_no=0,
        spec=b"spec",
        state=b"state",
        result=b"",
        version=1,
    )
    return row._replace(**columns)


def ended_row(row: JobRunRow, status: int = COMPLETED, **columns: Any) -> JobRunRow:
    """The update with which a stored job ends, as its owner sends it: with nothing for what never changes."""
    update = row._replace(
        namespace_id=bytes(16),
        bucket=0,
        task_name="",
        queue="",
        user_id="",
        schedule_id="",
        concurrency_key="",
        batch_id="",
        created_us=0,
        spec=b"",
        status=status,
        closed_us=START_US + 1_000_000,
        task_id=0,
        start_no=7,
        state=b"ended",
        result=b"result",
        version=-row.version,
    )
    return update._replace(**columns)


def stored(row: JobRunRow, update: JobRunRow) -> JobRunRow:
    """What the update makes of the stored row."""
    return row._replace(
        queue_no=update.queue_no,
        status=update.status,
        attempt=update.attempt,
        priority=update.priority,
        scheduled_us=update.scheduled_us,
        closed_us=update.closed_us,
        task_id=update.task_id,
        start_no=update.start_no,
        state=update.state,
        result=update.result,
        version=row.version + 1,
    )


def key_row(key: str, job_id: bytes, version: int = 1, shard_id: int = 1) -> JobKeyRow:
    return JobKeyRow(shard_id, NAMESPACE, 1, key, job_id, None, version)


def batch_row(batch_id: str, shard_id: int = 1, **columns: Any) -> JobBatchRow:
    row = JobBatchRow(shard_id, NAMESPACE, batch_id, 5, 3, False, b"counts", 1)
    return row._replace(**columns)


def schedule_row(schedule_id: str, shard_id: int = 1, **columns: Any) -> ScheduleRow:
    row = ScheduleRow(
        *(shard_id, NAMESPACE, schedule_id, "", False, START_US + 5),
        *(START_US, b"spec", b"state", 1, 1),
    )
    return row._replace(**columns)


def slot_row(
    schedule_id: str, nominal_us: int, shard_id: int = 1, **columns: Any
) -> ScheduleSlotRow:
    row = ScheduleSlotRow(
        *(shard_id, NAMESPACE, schedule_id, nominal_us, 1, 2, nominal_us + 3, "job", "", 1)
    )
    return row._replace(**columns)


async def jobs_of(store: Store, rows: Sequence[JobRunRow]) -> list[JobRunRow]:
    """As stored, in the order of `rows`; without those that are not there."""
    found = {}
    for shard_id in sorted({row.shard_id for row in rows}):
        ids = [row.job_id for row in rows if row.shard_id == shard_id]
        for row in await store.load_jobs(shard_id, ids):
            found[row.shard_id, row.job_id] = row
    return [found[key] for row in rows if (key := (row.shard_id, row.job_id)) in found]


async def job_contents(store: Store) -> list[object]:
    """Everything that is there of jobs and schedules, and the fences."""
    found: list[object] = [await store.read_fences([1, 2, 3, 4])]
    found.append((await store.list_jobs(JobFilter(NAMESPACE), None, 10_000)).rows)
    for shard_id in (1, 2, 3, 4):
        found.append(await _ready_jobs(store, shard_id))
        found.append(await store.load_job_batches(shard_id, (bytes(16), ""), 10_000))
        found.append(await store.load_schedules(shard_id, None, 10_000))
        found.append(await store.load_slots(shard_id, (bytes(16), "", 0, 0), 10_000))
        found.append(await store.load_timers(shard_id, (0, 0), 2 * START_US, 10_000))
        found.append(await store.load_job_keys([(shard_id, NAMESPACE, 1, "report")]))
    return found


async def _ready_jobs(store: Store, shard_id: int) -> list[JobRunRow]:
    """A shard's, by place; of two at one place (random rows have such) the lower id first."""
    rows = await store.load_ready_jobs_of_shard(shard_id, (-1, 0), 10_000)
    assert rows == sorted(rows, key=lambda row: (row.queue_no, row.task_id))
    return sorted(rows, key=lambda row: (row.queue_no, row.task_id, row.job_id))
