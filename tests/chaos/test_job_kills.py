"""Jobs and schedules while everything is killed at random. PERDURE_CHAOS_SECONDS and PERDURE_CHAOS_SEED change that."""

from __future__ import annotations

import os
import time

import pytest
from tests.chaos.job_kills import ENGINES, WORKERS, job_kills
from tests.chaos.job_trial import Size
from tests.chaos.killing import DATABASE, random_plan
from tests.chaos.machines import scene

pytestmark = [pytest.mark.chaos, pytest.mark.soak, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("PERDURE_CHAOS_SECONDS", "300"))
SEED = int(os.environ.get("PERDURE_CHAOS_SEED", "0")) or time.time_ns() % 1_000_000


@pytest.mark.parametrize("engines", [ENGINES, ENGINES[:1]], ids=["two nodes", "one node"])
async def test_no_job_is_lost_and_each_slot_has_one_outcome(engines: tuple[str, ...]) -> None:
    """Invariants 13, 14, 25, 28, 30, 31 and 51 to 57 under F1, F2, F4, F7, F8 and F12."""
    with scene(number_of_shards=16) as played:
        plan = random_plan(
            SEED, SECONDS, (*engines, *WORKERS, DATABASE), (*engines, *engines, *WORKERS)
        )
        outcome = await job_kills(played, plan, Size(SEED, pace=0.7, copies=2), engines=engines)
        outcome.say()

        assert outcome.kills
        assert outcome.findings == []
