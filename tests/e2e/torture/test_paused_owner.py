"""The owner is stopped for longer than its lease, and wakes (the long version: tests/chaos)."""

from __future__ import annotations

from tests.chaos.machines import scene
from tests.chaos.paused_owner import paused_owner

from perdure_engine.membership.lease import LEASE_S


async def test_a_paused_owner_that_wakes_answers_nothing_old() -> None:
    """Invariants 25, 28, 29, 30, 41, 45 under F4."""
    with scene(number_of_shards=16) as played:
        outcome = await paused_owner(
            played, seed=1, pauses=1, pause_s=LEASE_S + 2, lanes=16, rest_s=0.5
        )
        outcome.say()

        assert outcome.load.acked.stale == []
        assert outcome.load.acked.wrong == []
        assert outcome.verdict.clean, outcome.verdict.examples()
