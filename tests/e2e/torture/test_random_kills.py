"""Worker, database and engine are killed once each (the long version: tests/chaos)."""

from __future__ import annotations

from tests.chaos.killing import Blow
from tests.chaos.machines import scene
from tests.chaos.random_kills import random_kills

PLAN = [Blow(1.5, ("worker",)), Blow(1.0, ("database",)), Blow(2.0, ("engine",))]


async def test_nothing_acknowledged_is_lost_when_each_process_is_killed() -> None:
    """Invariants 1, 3, 4, 6, 7, 9, 10, 13, 18, 22, 30, 41, 42, 45 under F1, F2, F7, F8 and F12."""
    with scene(number_of_shards=4) as played:
        outcome = await random_kills(played, PLAN, seed=1, lanes=48, pause_s=0.02, tail_s=0.5)
        outcome.say()

        assert len(outcome.kills) == len(PLAN)
        assert outcome.verdict.clean, outcome.verdict.examples()
        assert outcome.load.acked.wrong == []
        assert outcome.load.acked.stale == []
