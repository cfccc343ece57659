"""How many jobs of a queue are ready, as a new owner counts those that it does not hold in memory."""

from __future__ import annotations

import pytest
from tests.conformance.jobs import COMPLETED, job_row
from tests.conformance.owner import QUEUE, Owner

from perdure_engine.ports.store import Store


@pytest.mark.parametrize(
    ("after", "before", "ready"),
    [(0, 1 << 62, 4), (3, 1 << 62, 3), (0, 1 << 40, 3), (3, 1 << 40, 2), (8, 9, 0), (9, 3, 0)],
    ids=["all", "past one", "before one", "between", "nothing between", "backwards"],
)
async def test_ready_jobs_are_counted_between_two(
    store: Store, owner: Owner, after: int, before: int, ready: int
) -> None:
    rows = [job_row(1, task_id=task_id) for task_id in (3, 8, 9, 1 << 40)]
    others = [
        job_row(1, task_id=0),
        job_row(1, task_id=-5),
        job_row(1, status=COMPLETED),
        job_row(1, queue_no=QUEUE + 1, task_id=5),
        job_row(2, task_id=5),
    ]
    await owner.commit(owner.batch(job_runs=[*rows, *others]))

    assert await store.count_ready_jobs(1, QUEUE, after, before) == ready


async def test_what_waits_for_its_key_is_not_ready(store: Store, owner: Owner) -> None:
    """Its task id is below 0."""
    await owner.commit(owner.batch(job_runs=[job_row(1, task_id=-5), job_row(1, task_id=5)]))

    assert await store.count_ready_jobs(1, QUEUE, -9, 1 << 62) == 1
