"""Invariants 1, 2, 3, 4, 6, 7, 13, 18, 22, 30, 31, 32, 41, 42 and 47 of one run, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from tests.unit.core.run_machine import RunMachine

TestRun = RunMachine.TestCase
TestRun.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
