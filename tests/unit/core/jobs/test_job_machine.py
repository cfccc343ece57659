"""Invariants 4, 5, 13, 30-33, 35, 37-40 and 57 of a shard's jobs, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from tests.unit.core.jobs.job_machine import JobMachine

TestJobs = JobMachine.TestCase
TestJobs.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
