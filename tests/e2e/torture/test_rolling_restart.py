"""Both engine nodes are replaced under running activities (the long version: tests/chaos)."""

from __future__ import annotations

from tests.chaos.machines import scene
from tests.chaos.rolling_restart import rolling_restart


async def test_a_rolling_restart_runs_no_activity_again() -> None:
    """Design §6, take-over: invariants 30, 31 and 70 under F3."""
    with scene(number_of_shards=16) as played:
        outcome = await rolling_restart(played, activities=50, seconds=8.0)
        outcome.say()

        assert outcome.exit_codes == [0, 0]
        assert outcome.verdict.repeated_effects == 0
        assert outcome.verdict.clean, outcome.verdict.examples()
        assert outcome.load.acked.wrong == []
