"""Concurrency keys in memory: made from the rows of their jobs, looked after when places or the rate let somebody go
on, and forgotten when they have nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure_engine.core.jobs.intents import AdmitKeyedJobs
from perdure_engine.core.jobs.memory import KeyRoom, RoomId
from perdure_engine.core.jobs.model import JobRun, JobStatus

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

RATE_WAIT_S_MIN = 0.005


def room_of_rows(room_id: RoomId, runs: list[JobRun], *, more: bool) -> KeyRoom:
    """The key as its open jobs say."""
    room = KeyRoom(*room_id, more=more)
    runs = [run for run in runs if run.open]
    newest = max(runs, key=lambda run: (run.created_us, run.job_id), default=None)
    if newest is not None and newest.spec.concurrency is not None:
        room.go_by(newest.spec.concurrency)
    for run in runs:
        if run.task_id > 0 or run.status is JobStatus.IN_PROGRESS:
            room.places[run.job_id] = run
    for run in sorted(runs, key=lambda run: -run.task_id):
        if run.task_id < 0:
            room.waiting[run.job_id] = run
    return room
