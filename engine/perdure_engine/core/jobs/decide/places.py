"""The places of a concurrency key: who has one, who waits, who is next.

A job holds its place from when it becomes ready to when its attempt ends; while it backs off somebody else may have it.
That a job waits stands in its row: its `task_id` is below 0, and the nearer to 0 the sooner it is its turn.

While somebody waits, either all places are taken, and the end of one of their attempts lets the next one go on; or the
key's rate holds them up, and one of them has a timer. Both are saved: nobody waits for ever, whatever dies.

Poisoned jobs stand behind all others, and one that no worker has yet makes way for them: a surgical pool that is busy,
or not there, holds nobody of the key up.
"""

from __future__ import annotations

from perdure_engine.core.jobs.decide.attempts import started
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import WAITING_KEPT_MAX, KeyRoom
from perdure_engine.core.jobs.model import JobRun

BEHIND = 1 << 61
"""What keeps the `task_id` of a poisoned job behind those of all others, also where only their rows are known."""

WAITS = "waits for a place of its concurrency key"


def room_of(draft: JobDraft, run: JobRun) -> KeyRoom:
    assert run.spec.concurrency is not None
    room = draft.memory.rooms[run.namespace_id, run.spec.concurrency.key]
    draft.rooms[id(room)] = room
    return room


def enter(draft: JobDraft, room: KeyRoom, run: JobRun) -> None:
    """Its time has come: it stands behind all that wait, and goes on at once if there are a place and nobody else."""
    _stand_behind(draft, room, run)
    admit(draft, room)


def _stand_behind(draft: JobDraft, room: KeyRoom, run: JobRun) -> None:
    run.task_id = -draft.env.new_number()
    run.reason = WAITS
    draft.touch(run)
    if run.pool:
        run.task_id -= BEHIND
    if room.more or len(room.waiting) + len(room.behind) >= WAITING_KEPT_MAX:
        room.more = True
        if run.pool or not room.behind:
            return
        # all others that wait are in memory: it goes before the poisoned ones, the last of which makes room
        draft.touch(room.behind.popitem()[1])
    (room.behind if run.pool else room.waiting)[run.job_id] = run


def leave(draft: JobDraft, run: JobRun) -> None:
    """It has ended, backs off, or has another time: its place is the next one's."""
    room = room_of(draft, run)
    run.key_place = False
    room.waiting.pop(run.job_id, None)
    room.behind.pop(run.job_id, None)
    room.places.pop(run.job_id, None)
    room.poisoned.pop(run.job_id, None)
    admit(draft, room)


def is_full(room: KeyRoom) -> bool:
    """For a job that is not poisoned."""
    held = len(room.places)
    if room.poisoned:
        held -= sum(map(_makes_way, room.poisoned.values()))
    return held >= room.limit


def admit(draft: JobDraft, room: KeyRoom) -> None:
    """Give free places to who has waited longest, as the rate allows."""
    if room.poisoned and room.waiting:
        _make_way(draft, room)
    while (queue := room.waiting or room.behind) and len(room.places) < room.limit:
        run = next(iter(queue.values()))
        if not room.take_token(draft.env.now_us):
            if run.timer is None:
                draft.wake_at(run, room.next_token_us)
                draft.touch(run)
            return
        del queue[run.job_id]
        room.places[run.job_id] = run
        run.reason = ""
        if run.crashes is not None and run.pool:
            room.poisoned[run.job_id] = run
            run.reason = run.crashes.told
        draft.drop_wake(run)
        run.key_place = True
        draft.make_ready(run)


def _make_way(draft: JobDraft, room: KeyRoom) -> None:
    """As many poisoned jobs as others wait for their places."""
    wanted = len(room.waiting) - (room.limit - len(room.places))
    for run in list(room.poisoned.values()):
        if wanted <= 0:
            return
        if _makes_way(run):
            wanted -= 1
            del room.places[run.job_id], room.poisoned[run.job_id]
            run.key_place = False
            draft.make_unready(run)
            _stand_behind(draft, room, run)


def _makes_way(run: JobRun) -> bool:
    return bool(run.pool) and not started(run)
