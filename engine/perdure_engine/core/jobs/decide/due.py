"""A job's time has come: it is ready, unless its key or its expiry say otherwise."""

from __future__ import annotations

from typing import assert_never

from perdure_engine.core.jobs.decide import places
from perdure_engine.core.jobs.decide.cancel import stop
from perdure_engine.core.jobs.decide.ending import end
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import KeyRoom
from perdure_engine.core.jobs.model import ConcurrencyPolicy, JobRun, JobStatus

EXPIRED = "expired before it could start"
GAVE_WAY = "gave way to a newer job of its concurrency key"
NO_PLACE = "its concurrency key had no place left"


def become_due(draft: JobDraft, run: JobRun, *, again: bool = False) -> None:
    """`again`: the same attempt has been ready before, and with it the job had a place of its key."""
    spec = run.spec
    if (
        run.expiry is not None
        and draft.env.now_us >= spec.expire_us
        and run.status is JobStatus.PENDING
    ):
        end(draft, run, JobStatus.SKIPPED, reason=EXPIRED)
    elif spec.concurrency is None:
        draft.make_ready(run)
    else:
        _enter(draft, run, is_newest=run.attempt == 1 and not again)


def _enter(draft: JobDraft, run: JobRun, *, is_newest: bool) -> None:
    """One that has had a place before is not the newest."""
    room = places.room_of(draft, run)
    room.go_by(run)
    full = places.is_full(room)
    match room.policy:
        case ConcurrencyPolicy.QUEUE:
            places.enter(draft, room, run)
        case ConcurrencyPolicy.CANCEL_NEWEST:
            if full and is_newest:
                end(draft, run, JobStatus.CANCELLED, reason=NO_PLACE)
            else:
                places.enter(draft, room, run)
        case ConcurrencyPolicy.CANCEL_RUNNING:
            if full and not is_newest and _is_oldest(room, run):
                end(draft, run, JobStatus.CANCELLED, reason=GAVE_WAY)
                return
            places.enter(draft, room, run)
            if full and not run.pool:
                _make_room(draft, room)
        case _:
            assert_never(room.policy)


def _is_oldest(room: KeyRoom, run: JobRun) -> bool:
    """Whether all that have a place are newer: they came while it backed off."""
    return all(run.scheduled_us <= other.scheduled_us for other in room.places.values())


def _make_room(draft: JobDraft, room: KeyRoom) -> None:
    """The one that has had its place for longest gives way: at once if no worker has it, else when its worker stops."""
    oldest = next((run for run in room.places.values() if not run.cancel_us), None)
    if oldest is not None:
        stop(draft, oldest, GAVE_WAY)
