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


def become_due(draft: JobDraft, run: JobRun) -> None:
    spec = run.spec
    if spec.expire_us and run.status is JobStatus.PENDING and draft.env.now_us >= spec.expire_us:
        end(draft, run, JobStatus.SKIPPED, reason=EXPIRED)
    elif spec.concurrency is None:
        draft.make_ready(run)
    else:
        _enter(draft, run)


def _enter(draft: JobDraft, run: JobRun) -> None:
    room = places.room_of(draft, run)
    draft.rooms[id(room)] = room
    if places.has_free_place(room):
        if not places.take_place(draft, room, run):
            places.wait(draft, room, run)
        return
    match room.policy:
        case ConcurrencyPolicy.QUEUE:
            places.wait(draft, room, run)
        case ConcurrencyPolicy.CANCEL_NEWEST:
            if len(room.places) < room.limit:
                places.wait(draft, room, run)  # it is the rate that holds the others up
            else:
                end(draft, run, JobStatus.CANCELLED, reason=NO_PLACE)
        case ConcurrencyPolicy.CANCEL_RUNNING:
            places.wait(draft, room, run)
            _make_room(draft, room)
        case _:
            assert_never(room.policy)


def _make_room(draft: JobDraft, room: KeyRoom) -> None:
    """The one that has had its place for longest gives way: at once if no worker has it, else when its worker stops."""
    for oldest in room.places.values():
        if not oldest.cancel_us:
            stop(draft, oldest, GAVE_WAY)
            return
