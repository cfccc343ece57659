"""Jobs and schedules while each process is killed once and an owner stands still (the long version: tests/chaos)."""

from __future__ import annotations

import pytest
from tests.chaos.job_kills import job_kills
from tests.chaos.job_trial import Size
from tests.chaos.killing import DATABASE, Blow
from tests.chaos.machines import scene

# What hangs is named by the verdict, which is made when it has been waited for.
pytestmark = pytest.mark.timeout(300)

PLAN = [
    Blow(1.5, ("worker-a",)),
    Blow(6.0, (DATABASE,)),
    Blow(1.0, ("second",)),
    # Last: whatever waits for an answer of the one that stands still is not mended by the next kill.
    Blow(3.0, ("worker-b",), stopped="first"),
]


async def test_no_job_is_lost_and_each_slot_has_one_outcome() -> None:
    """Invariants 13, 14, 25, 28, 30, 31 and 51 to 57 under F1, F2, F4, F7, F8 and F12."""
    with scene(number_of_shards=16) as played:
        outcome = await job_kills(played, PLAN, Size(seed=1, pace=0.3, copies=1), tail_s=0.5)
        outcome.say()

        assert len(outcome.kills) == len(PLAN) + 1  # the last one is two
        assert outcome.load.acked.jobs
        assert outcome.slots.slots
        assert outcome.findings == []
