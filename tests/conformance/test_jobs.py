"""Rows of jobs and schedules: written in the batch statement, whole or not at all, and read back."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.jobs import ended_row, job_row, stored
from tests.conformance.owner import START_US, Owner

from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import Store


async def jobs_of(store: Store, rows: Sequence[JobRunRow]) -> list[JobRunRow]:
    """As stored, in the order of `rows`; without those that are not there."""
    found = {}
    for shard_id in sorted({row.shard_id for row in rows}):
        ids = [row.job_id for row in rows if row.shard_id == shard_id]
        for row in await store.load_jobs(shard_id, ids):
            found[row.shard_id, row.job_id] = row
    return [found[key] for row in rows if (key := (row.shard_id, row.job_id)) in found]


async def test_a_job_is_made_and_ends(store: Store, owner: Owner) -> None:
    """What an update leaves as it is stays, whatever the update says of it."""
    made = [
        job_row(
            shard,
            queue="mail",
            user_id="anna",
            schedule_id="daily",
            concurrency_key="c",
            batch_id="b",
            task_id=9,
        )
        for shard in (1, 2, 3)
    ]
    await owner.commit(owner.batch(job_runs=made))
    assert await jobs_of(store, made) == made
    updates = [ended_row(row, attempt=2, priority=1, scheduled_us=START_US + 7) for row in made]

    await owner.commit(owner.batch(job_runs=updates))

    assert await jobs_of(store, made) == [
        stored(row, update) for row, update in zip(made, updates, strict=True)
    ]
