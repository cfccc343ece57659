"""A concurrency key in memory, made from the rows of its jobs."""

from __future__ import annotations

from perdure_engine.core.jobs.memory import KeyRoom, RoomId
from perdure_engine.core.jobs.model import JobRun, JobStatus


def room_of_rows(room_id: RoomId, runs: list[JobRun], *, more: bool) -> KeyRoom:
    """`more`: there are further rows. Jobs that have changed since they were read are as they are by now."""
    room = KeyRoom(*room_id, more=more)
    for run in runs:
        room.go_by(run)
        if run.task_id > 0 or run.status is JobStatus.IN_PROGRESS:
            room.places[run.job_id] = run
            if run.pool:
                room.poisoned[run.job_id] = run
    for run in sorted(runs, key=lambda run: -run.task_id):
        if run.task_id < 0:
            (room.behind if run.pool else room.waiting)[run.job_id] = run
    return room
