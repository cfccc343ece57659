"""A rolling restart of the engine under 500 activities of one minute."""

from __future__ import annotations

import os

import pytest
from tests.chaos.machines import scene
from tests.chaos.rolling_restart import rolling_restart

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

ACTIVITIES = int(os.environ.get("PERDURE_CHAOS_ACTIVITIES", "500"))
SECONDS = 60.0


async def test_a_rolling_restart_runs_no_activity_again() -> None:
    """Design §6, take-over: invariants 30, 31 and 70 under F3."""
    with scene(number_of_shards=16) as played:
        outcome = await rolling_restart(played, activities=ACTIVITIES, seconds=SECONDS)
        outcome.say()

        assert outcome.exit_codes == [0, 0]
        assert outcome.verdict.repeated_effects == 0
        assert outcome.verdict.clean, outcome.verdict.examples()
        assert outcome.load.acked.wrong == []
