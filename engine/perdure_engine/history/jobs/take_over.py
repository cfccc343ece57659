"""What a new owner reads of its shard's jobs, once, in pages: those that may be running, and those that are ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from perdure_engine.core.ids import SEQUENCE_BITS
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

PAGE = 1_000
RETRY_S = 0.5
FIRST_JOB_ID = bytes(16)


async def find_jobs(jobs: Jobs, orphans_until: float) -> None:
    """`orphans_until`: so long the workers of started ones have time to claim them."""
    await _find_started(jobs, orphans_until)
    await _find_ready(jobs)
    if not jobs.shard.closed:
        jobs.queues.offer_all()


async def _find_started(jobs: Jobs, orphans_until: float) -> None:
    shard = jobs.shard
    store, first_number = shard.rooms.store, shard.fence.range_id << SEQUENCE_BITS
    after = FIRST_JOB_ID
    while True:
        rows = await _read(jobs, partial(store.load_started_jobs, shard.shard_id, after, PAGE))
        for row in rows:
            if row.start_no < first_number:  # else it is our own
                jobs.leases.add_orphan(row.job_id, row.start_no, orphans_until)
        if len(rows) < PAGE:
            return
        after = rows[-1].job_id


async def _find_ready(jobs: Jobs) -> None:
    """Of each queue as many as are offered at first; where the others are, its cursor says."""
    shard = jobs.shard
    store, first_number = shard.rooms.store, shard.fence.range_id << SEQUENCE_BITS
    after = (-1, 0)
    while True:
        with jobs.loading.read() as read:
            rows = await _read(
                jobs, partial(store.load_ready_jobs_of_shard, shard.shard_id, after, PAGE)
            )
            for row in rows:
                if row.task_id < first_number and jobs.loading.take(read, row) is not None:
                    jobs.queues.found(row)
        if len(rows) < PAGE:
            return
        queue_no = rows[-1].queue_no
        full = jobs.queues.is_full(queue_no)
        if full:
            jobs.queues.count_beyond(queue_no, rows[-1].task_id, first_number)
        after = (queue_no, 1 << 62) if full else (queue_no, rows[-1].task_id)


async def _read(jobs: Jobs, read: Callable[[], Awaitable[list[JobRunRow]]]) -> list[JobRunRow]:
    """Tried until the database answers. Nothing once the shard has closed."""
    while not jobs.shard.closed:
        try:
            rows = await read()
        except StoreError:
            await jobs.shard.rooms.clock.sleep(RETRY_S)
        else:
            return [] if jobs.shard.closed else rows
    return []
