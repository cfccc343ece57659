"""The owner stands still for 20 s and goes on, again and again, under W1."""

from __future__ import annotations

import os

import pytest
from tests.chaos.machines import scene
from tests.chaos.paused_owner import paused_owner

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

PAUSES = int(os.environ.get("PERDURE_CHAOS_PAUSES", "8"))
PAUSE_S = 20.0


async def test_a_paused_owner_that_wakes_answers_nothing_old() -> None:
    """Invariants 25, 28, 29, 30, 41, 45 under F4."""
    with scene(number_of_shards=16) as played:
        outcome = await paused_owner(
            played, seed=2, pauses=PAUSES, pause_s=PAUSE_S, lanes=64, rest_s=5.0
        )
        outcome.say()

        assert outcome.load.acked.stale == []
        assert outcome.load.acked.wrong == []
        assert outcome.verdict.clean, outcome.verdict.examples()
        assert outcome.alarms == []
