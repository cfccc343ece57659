"""Minutes of jobs and schedules while 2 to 5 % of all statements fail."""

from __future__ import annotations

import os

import pytest
from tests.chaos.faulty_jobs import faulty_jobs
from tests.chaos.job_trial import Size

pytestmark = [pytest.mark.chaos, pytest.mark.soak, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("PERDURE_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("PERDURE_CHAOS_SEED", "1"))


@pytest.mark.parametrize("share", [0.02, 0.05])
async def test_nothing_is_lost_or_done_twice_on_a_failing_database(
    database_dsn: str, share: float
) -> None:
    """Invariants 13, 25, 30, 31 and 51 to 57 under F14, F15, F16 and F20."""
    size = Size(SEED, pace=0.3, copies=1)
    outcome, met = await faulty_jobs(database_dsn, SECONDS, size, share=share)
    outcome.say()
    print(dict(met))

    assert met
    assert outcome.findings == []
