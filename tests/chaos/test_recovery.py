"""How long it takes after a kill -9: W9 of the bench. The figures are its own; the bounds are wide."""

from __future__ import annotations

import json

import pytest

from perdure.bench.bed import Target
from perdure.bench.running import Order, run_workload

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

RECOVERY_S_MAX = 20.0  # what is promised is 10 s; a loaded machine may take longer


def test_a_killed_worker_and_a_killed_engine_cost_seconds() -> None:
    order = Order(workload="W9", n=2_000, in_flight=256, window_s=1.0, target=Target())
    report = run_workload(order, None, lambda line: None)
    print("\n" + json.dumps(report))

    assert report["lost"] == 0
    assert report["duplicates"] == report["duplicates_in_flight"]
    for figure in ("worker_recovery_s", "engine_recovery_s"):
        took_s = report[figure]
        assert isinstance(took_s, float)
        assert took_s < RECOVERY_S_MAX
