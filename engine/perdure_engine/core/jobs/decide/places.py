"""The places of a concurrency key: who has one, who waits, who is next.

A job holds its place from when it becomes ready to when its attempt ends; while it backs off somebody else may have it.
That a job waits stands in its row: its `task_id` is below 0, and the nearer to 0 the longer it waits.
"""

from __future__ import annotations

from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import KeyRoom
from perdure_engine.core.jobs.model import JobRun

WAITING_KEPT_MAX = 1_000
"""Of one key in memory; the rest are rows until there is room."""

WAITS = "waits for a place of its concurrency key"


def room_of(draft: JobDraft, run: JobRun) -> KeyRoom:
    assert run.spec.concurrency is not None
    return draft.memory.rooms[run.namespace_id, run.spec.concurrency.key]


def has_free_place(room: KeyRoom) -> bool:
    return len(room.places) < room.limit and not room.waiting and not room.more


def take_place(draft: JobDraft, room: KeyRoom, run: JobRun) -> bool:
    """Make it ready, if the key's rate lets one start now."""
    if not room.take_token(draft.env.now_us):
        return False
    room.places[run.job_id] = run
    run.key_place = True
    run.reason = ""
    draft.make_ready(run)
    return True


def wait(draft: JobDraft, room: KeyRoom, run: JobRun) -> None:
    """Behind all that wait."""
    run.task_id = -draft.env.new_number()
    run.reason = WAITS
    if room.more or len(room.waiting) >= WAITING_KEPT_MAX:
        room.more = True
    else:
        room.waiting[run.job_id] = run
    draft.touch(run)


def leave(draft: JobDraft, run: JobRun) -> None:
    """It has ended, backs off, or has another time: its place is the next one's."""
    room = room_of(draft, run)
    draft.rooms[id(room)] = room
    room.waiting.pop(run.job_id, None)
    run.key_place = False
    if room.places.pop(run.job_id, None) is not None:
        admit(draft, room)


def admit(draft: JobDraft, room: KeyRoom) -> None:
    """Give free places to who has waited longest, as the rate allows."""
    draft.rooms[id(room)] = room
    while room.waiting and len(room.places) < room.limit:
        run = next(iter(room.waiting.values()))
        if not take_place(draft, room, run):
            return
        del room.waiting[run.job_id]
