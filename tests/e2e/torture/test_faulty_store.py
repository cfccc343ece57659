"""Some hundred runs while the database fails at random (the long version: tests/chaos)."""

from __future__ import annotations

import json

from tests.chaos.faulty_store import faulty_runs


async def test_nothing_is_lost_or_done_twice_on_a_failing_database(database_dsn: str) -> None:
    """Invariants 1, 3, 4, 5, 6, 7, 9, 10, 13, 18, 21, 22, 30, 41, 45 under F14, F15, F16 and F20."""
    outcome = await faulty_runs(database_dsn, 300, seed=1, share=0.08, lanes=32)
    print("\n" + json.dumps(outcome.summary()))

    assert sum(outcome.met.values()) > 20
    assert outcome.load.acked.wrong == []
    assert outcome.load.acked.stale == []
    assert outcome.verdict.clean, outcome.verdict.examples()
    assert len(outcome.load.acked.results) == 300
