"""What the workloads of jobs wait for, and what they read of the jobs afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from perdure.bench.bed import Bed
from perdure.bench.job_log import JobLogReader
from perdure.bench.processes import ProcessFailed
from perdure.client import JobInfo

# After the last of them is due.
PATIENCE_S = 120.0
# A look into memory that the worker shares; it takes nothing from what is measured.
LOOK_PAUSE_S = 0.002


async def wait_until_run(
    log: JobLogReader,
    count: int,
    due: datetime | None = None,
    look_pause_s: float = LOOK_PAUSE_S,
) -> None:
    """Returns when so many have run since the worker started; the last of them is due at `due`, or now.

    Raises ProcessFailed.
    """
    left_s = 0.0 if due is None else max(0.0, (due - datetime.now(UTC)).total_seconds())
    ran = 0
    try:
        async with asyncio.timeout(left_s + PATIENCE_S):
            while ran < count:
                await asyncio.sleep(look_pause_s)
                ran = log.count()
    except TimeoutError:
        raise ProcessFailed(f"{ran:,} of {count:,} jobs ran") from None


async def jobs_since(
    bed: Bed, began: datetime, task_name: str = "count", queue: str | None = None
) -> list[JobInfo]:
    found = bed.client.jobs.list(
        queue=queue or bed.task_queue, task_name=task_name, scheduled_time_min=began, limit=10**9
    )
    return [one async for one in found]


def lateness_s(jobs: Sequence[JobInfo]) -> list[float]:
    """Ascending; below 0: early."""
    return sorted(
        (one.start_time - one.scheduled_time).total_seconds()
        for one in jobs
        if one.start_time is not None and one.scheduled_time is not None
    )
