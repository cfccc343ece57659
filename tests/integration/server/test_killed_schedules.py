"""Schedules on a real database, through owners that are killed at the worst moments."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.server.engine_process import environment

SECOND_US = 1_000_000
RUN_S_MAX = 40.0


def owner(dsn: str, action: str, moment: str, slots: int) -> int:
    """Run one to its end; how it ended."""
    program = Path(__file__).with_name("schedule_owner.py")
    arguments = [sys.executable, "-P", str(program), dsn, action, moment, str(slots)]
    return subprocess.run(arguments, env=environment(), timeout=RUN_S_MAX, check=False).returncode


def rows(dsn: str, query: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("action", ["JOB", "WORKFLOW"])
def test_owners_that_are_killed_at_a_slot(database_dsn: str, action: str) -> None:
    """Invariants 51, 52, 54; bug reports 54, 57: killed before, while and after a claim is saved, each time the slot
    fires once, and none is lost."""
    for moment in ("before", "while", "after", "before"):
        assert owner(database_dsn, action, moment, 0) == -signal.SIGKILL
    assert owner(database_dsn, action, "never", 2) == 0

    slots = rows(
        database_dsn,
        "select extract(epoch from nominal_at)::int8, outcome, target_id from schedule_slots"
        " order by nominal_at",
    )
    seconds = [second for second, _, _ in slots]
    assert seconds == list(range(seconds[0], seconds[0] + len(slots))), "no hole, none twice"
    assert {outcome for _, outcome, _ in slots} == {2}, "fired"
    assert len({target for _, _, target in slots}) == len(slots)
    if action == "JOB":
        found = rows(database_dsn, "select job_id::text, task_id > 0 from job_runs")
        made = {job_id for job_id, ready in found if ready}
        assert len(found) == len(slots) + 1, "and the next one, which waits for its time"
    else:
        found = rows(database_dsn, "select run_id::text from executions")
        made = {run_id for (run_id,) in found}
    assert made == {target for _, _, target in slots}
    timers = rows(database_dsn, "select 1 from timers where kind = 22 and state <> 9")
    assert len(timers) == 1
