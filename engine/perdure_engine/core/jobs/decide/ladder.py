"""The ladder that a job climbs which crashes its workers (`core.poison`): counted, poisoned, suspended; and the ways
down from it.

A poisoned job has two timers: JOB_DUE while it waits for its time, and in the place of its expiry, which it has none of
any more, when it is to be suspended: that comes also when no worker of the surgical pool ever asks for it.
"""

from __future__ import annotations

from perdure_engine.core import poison
from perdure_engine.core.audit import ENGINE, Action, Entry
from perdure_engine.core.failures import Failure
from perdure_engine.core.ids import queue_number, uuid_text
from perdure_engine.core.jobs.decide import places
from perdure_engine.core.jobs.decide.attempts import shown_status, started
from perdure_engine.core.jobs.decide.due import become_due
from perdure_engine.core.jobs.decide.save_starts import save_start
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.transitions import move
from perdure_engine.core.poison import Crashes
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.versions import bucket


def count(draft: JobDraft, run: JobRun, worker_id: bytes, failure: Failure) -> None:
    """The worker that had the attempt has died, or (b"") only the process that the attempt had to itself. The same
    attempt is tried again, and the third time in a row poisons it."""
    crashes = poison.crashed(run.crashes, worker_id, run.start_no, failure, draft.env.now_us)
    draft.crashes += 1
    draft.touch(run)
    if not crashes.is_poisoned:
        run.crashes = crashes
        ready_again(draft, run)
        return
    draft.make_unready(run)
    run.crashes = crashes
    _go_to_pool(run)
    draft.poisoned += crashes.count == poison.POISONED_FROM
    if crashes.is_over_time(draft.env.now_us):
        suspend(draft, run)
    else:
        _wait_poisoned(draft, run, crashes)


def _wait_poisoned(draft: JobDraft, run: JobRun, crashes: Crashes) -> None:
    if run.status is not JobStatus.POISONED:
        move(run, JobStatus.POISONED)
    run.reason = crashes.told
    _stand_aside(draft, run)
    draft.wake_at(run, crashes.next_us(draft.env.now_us))
    draft.expire_at(run, crashes.suspended_us)


def suspend(draft: JobDraft, run: JobRun) -> None:
    """Poisoned for too long: no worker gets it before an operator has said what becomes of it."""
    crashes = run.crashes
    assert crashes is not None
    before = shown_status(run)
    move(run, JobStatus.SUSPENDED)
    run.reason = crashes.told
    draft.make_unready(run)
    _stand_aside(draft, run)
    draft.touch(run)
    draft.suspended += 1
    draft.audit.append(
        Entry(
            time_us=draft.env.now_us,
            action=Action.SUSPEND_JOB,
            namespace_id=run.namespace_id,
            identity=ENGINE,
            reason=run.reason,
            subject=uuid_text(run.job_id),
            before=before.name,
            after=run.status.name,
        )
    )


def ready_again(draft: JobDraft, run: JobRun) -> None:
    """Nobody has its attempt any more: the same one is ready again, in the pool that it was in."""
    if run.crashes is not None and run.crashes.is_over_time(draft.env.now_us):
        suspend(draft, run)
        return
    draft.release(run)
    if run.status is JobStatus.IN_PROGRESS:
        _move_to_waiting(run)
        draft.make_ready(run)
    else:
        # its row says that it is ready, and where it stands in its queue: that is so again
        draft.ready.append(run)
    if run.pool and run.spec.concurrency is not None:
        places.admit(draft, places.room_of(draft, run))  # it may have to make way again


def forgive(draft: JobDraft, run: JobRun) -> None:
    """Its code has ended as code does, and the attempt with it: what follows is the caller's."""
    if run.pool:
        draft.make_unready(run)
        run.crashes = poison.forgiven(run.crashes)
        _go_to_pool(run)
        if not run.cancel_us:
            run.reason = ""
    else:
        run.crashes = poison.forgiven(run.crashes)


def ease(draft: JobDraft, run: JobRun, crashes: Crashes | None) -> None:
    """Crashes are taken back. If it is not poisoned any more, it goes on in the normal pool."""
    draft.touch(run)
    if not run.pool or (crashes is not None and crashes.is_poisoned):
        run.crashes = crashes
        return
    runs = started(run)
    if runs:
        draft.drop_expiry(run)
        if run.handout is not None:
            save_start(draft, run)
    else:
        draft.make_unready(run)
        _stand_aside(draft, run)
    run.crashes = crashes
    _go_to_pool(run)
    if not run.cancel_us:
        run.reason = ""
    if not runs:
        _move_to_waiting(run)
        run.due_us = draft.env.now_us
        become_due(draft, run, again=True)


def resume(draft: JobDraft, run: JobRun) -> None:
    """An operator lets a poisoned or suspended job go on: at once, in the surgical pool."""
    assert run.crashes is not None
    now_us = draft.env.now_us
    crashes = run.crashes = poison.resumed(run.crashes, now_us)
    run.reason = crashes.told
    draft.touch(run)
    draft.drop_expiry(run)
    draft.expire_at(run, crashes.suspended_us)
    if run.status is not JobStatus.POISONED:
        move(run, JobStatus.POISONED)
    if not run.task_id:  # else it is ready, or waits for its key: it keeps its turn
        draft.drop_wake(run)
        run.due_us = now_us
        become_due(draft, run, again=True)


def forget(draft: JobDraft, run: JobRun) -> None:
    """Of a job that begins anew: as if nothing had ever crashed."""
    draft.make_unready(run)
    _stand_aside(draft, run)
    run.crashes = None
    _go_to_pool(run)


def _stand_aside(draft: JobDraft, run: JobRun) -> None:
    """Nobody has it, no timer is its own, and its place of a key is somebody else's."""
    draft.release(run)
    draft.drop_wake(run)
    draft.drop_expiry(run)
    if run.spec.concurrency is not None:
        places.leave(draft, run)


def _move_to_waiting(run: JobRun) -> None:
    status = JobStatus.PENDING if run.attempt == 1 else JobStatus.RETRY
    if run.pool:
        status = JobStatus.POISONED
    if run.status is not status:
        move(run, status)


def _go_to_pool(run: JobRun) -> None:
    """Where its ready rows are paged."""
    queue = bucket(run.queue, "", run.pool)
    run.queue_no = queue_number(run.namespace_id, TaskKind.JOB, queue)
