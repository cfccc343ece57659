"""Invariants 1-4, 6, 7, 13, 18, 22, 24, 30-32, 41, 42 and 47 of one run, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from tests.unit.core.run_machine import RunMachine

TestRun = RunMachine.TestCase
TestRun.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
