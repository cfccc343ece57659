"""Ten thousand runs while 2 to 5 % of all statements fail."""

from __future__ import annotations

import json
import os

import pytest
from tests.chaos.faulty_store import faulty_runs

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

RUNS = int(os.environ.get("PERDURE_CHAOS_RUNS", "10000"))
SHARES = (0.02, 0.035, 0.05)


@pytest.mark.parametrize("share", SHARES)
async def test_nothing_is_lost_or_done_twice_on_a_failing_database(
    database_dsn: str, share: float
) -> None:
    """Invariants 1, 3, 4, 5, 6, 7, 9, 10, 13, 18, 21, 22, 30, 41, 45 under F14, F15, F16 and F20."""
    runs = RUNS // len(SHARES) + 1
    outcome = await faulty_runs(database_dsn, runs, seed=int(share * 1000), share=share, lanes=32)
    print("\n" + json.dumps(outcome.summary()))

    assert outcome.load.acked.wrong == []
    assert outcome.load.acked.stale == []
    assert outcome.verdict.clean, outcome.verdict.examples()
    assert len(outcome.load.acked.results) == runs
