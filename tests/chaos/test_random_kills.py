"""Ten minutes of kill -9 at random. PERDURE_CHAOS_SECONDS and PERDURE_CHAOS_SEED change that."""

from __future__ import annotations

import os
import time

import pytest
from tests.chaos.killing import random_plan
from tests.chaos.machines import scene
from tests.chaos.random_kills import TARGETS, random_kills

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("PERDURE_CHAOS_SECONDS", "600"))
SEED = int(os.environ.get("PERDURE_CHAOS_SEED", "0")) or time.time_ns() % 1_000_000


async def test_nothing_acknowledged_is_lost_when_anything_is_killed_at_random() -> None:
    """Invariants 1, 3, 4, 6, 7, 9, 10, 13, 18, 22, 30, 41, 42, 45 under F1, F2, F7, F8 and F12."""
    with scene() as played:
        outcome = await random_kills(
            played, random_plan(SEED, SECONDS, TARGETS), seed=SEED, lanes=64, pause_s=0.1
        )
        outcome.say()

        assert outcome.kills
        assert outcome.verdict.clean
        assert outcome.load.acked.wrong == []
        assert outcome.load.acked.stale == []
