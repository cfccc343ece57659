"""Some seconds of jobs and schedules while the database fails at random (the long version: tests/chaos)."""

from __future__ import annotations

import pytest
from tests.chaos.faulty_jobs import faulty_jobs
from tests.chaos.job_trial import Size

# What hangs is named by the verdict, which is made when it has been waited for.
pytestmark = pytest.mark.timeout(300)


async def test_nothing_is_lost_or_done_twice_on_a_failing_database(database_dsn: str) -> None:
    """Invariants 13, 25, 30, 31 and 51 to 57 under F14, F15, F16 and F20."""
    outcome, met = await faulty_jobs(
        database_dsn, 8.0, Size(seed=1, pace=0.2, copies=1), share=0.08
    )
    outcome.say()
    print(dict(met))

    assert sum(met.values()) > 20
    assert outcome.load.acked.jobs
    assert outcome.slots.slots
    assert outcome.findings == []
