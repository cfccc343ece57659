"""What its crashes mean for a task (`core.poison`): whose polls get it, when, and whether its run is suspended.

A poisoned task waits as one does whose code has failed: BACKOFF, with the timer of that. Once it is ready a timer of
its own stands for its suspension, which comes also when no worker of the surgical pool ever asks for it.
"""

from __future__ import annotations

from perdure_engine.core.decide.save_start import save
from perdure_engine.core.decide.suspend_workflow import suspend
from perdure_engine.core.draft import Draft
from perdure_engine.core.poison import DELAYS_US, POISONED_FROM, Crashes, Rung, forgiven, handed_on
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskRecord, TaskState, TimerKind
from perdure_engine.core.tokens import TaskToken


def is_counted(record: TaskRecord, token: TaskToken) -> bool:
    """Whether the token's worker was thought dead when the lease ended, and its crash counted; nobody has the task."""
    crashes = record.crashes
    return not record.running and crashes is not None and crashes.is_counted(token.start_no)


def backoff_timer(key: int) -> tuple[TimerKind, int]:
    if key == WORKFLOW_TASK_KEY:
        return TimerKind.WORKFLOW_TASK_BACKOFF, 0
    return TimerKind.ACTIVITY_RETRY, key


def drop_timers(draft: Draft, key: int) -> None:
    """Those of its back-off and its suspension."""
    draft.drop_timer(*backoff_timer(key))
    draft.drop_timer(TimerKind.SUSPENSION, key)


def count(draft: Draft, key: int, crashes: Crashes) -> None:
    """The task has crashed (again): it is ready at once, or later if it is poisoned, or its run is suspended."""
    draft.state.tasks[key].set_aside(crashes=crashes)
    drop_timers(draft, key)
    draft.ready_again(key)
    note_crash(draft, key, crashes)
    if not crashes.is_poisoned:
        return
    if _ends_in_suspension(draft, draft.state.tasks[key]):
        suspend(draft, key)
        return
    record = draft.state.tasks[key]
    record.state = TaskState.BACKOFF
    record.next_attempt_us = crashes.next_us(draft.env.now_us)
    draft.put_timer(*backoff_timer(key), record.next_attempt_us)


def note_crash(draft: Draft, key: int, crashes: Crashes) -> None:
    kind = draft.state.tasks[key].kind
    draft.climb(Rung.CRASHED, kind)
    if crashes.count == POISONED_FROM:
        draft.climb(Rung.POISONED, kind)


def waited(draft: Draft, key: int) -> None:
    """The back-off of the task is over: of one whose code failed, or of a poisoned one."""
    draft.ready_again(key)
    suspend_in_time(draft, key)


def suspend_in_time(draft: Draft, key: int) -> None:
    """Of a task that is ready: if it is poisoned its run is suspended, now or when its time comes."""
    if _ends_in_suspension(draft, draft.state.tasks[key]):
        suspend(draft, key)
    else:
        watch(draft, key)


def watch(draft: Draft, key: int) -> None:
    """The timer for the suspension of a poisoned task, if it is ready.

    What an operator has held back until that time was over is given the longest delay: the surgical pool can have it.
    """
    record = draft.state.tasks[key]
    crashes = record.crashes
    if crashes is None or not crashes.is_poisoned or record.state is not TaskState.READY:
        return
    due_us = crashes.suspended_us
    if due_us <= draft.env.now_us:
        due_us = draft.env.now_us + DELAYS_US[-1]
    row = draft.state.timer_rows.get((TimerKind.SUSPENSION, key))
    if row is None or row.due_us != due_us:
        draft.drop_timer(TimerKind.SUSPENSION, key)
        draft.put_timer(TimerKind.SUSPENSION, key, due_us)


def out_of_time(draft: Draft, key: int) -> None:
    """The timer for its suspension has fired. While somebody has the task, its crash decides; that somebody has it is
    saved then, or the next owner of its shard would know of neither start nor timer."""
    record = draft.state.tasks[key]
    if record.handout is not None:
        save(draft, record, record.handout)
    elif record.state is TaskState.READY:
        suspend_in_time(draft, key)


def _ends_in_suspension(draft: Draft, record: TaskRecord) -> bool:
    """Not what an operator holds back: nobody gets it as it is."""
    crashes = record.crashes
    return (
        crashes is not None
        and crashes.is_over_time(draft.env.now_us)
        and not record.paused
        and draft.state.folded.paused is None
    )


def forgive(draft: Draft, key: int) -> None:
    """An attempt has ended as code does. Whoever calls it says what the task does next."""
    record = draft.state.tasks[key]
    if record.crashes is None:
        return
    record.set_aside(crashes=forgiven(record.crashes))
    # its worker was thought dead, and is heard of all the same; or it was poisoned
    drop_timers(draft, key)


def hand_on(draft: Draft, crashes: Crashes) -> None:
    """An activity that has crashed has ended, and the workflow task that it leads to is new."""
    handed = handed_on(crashes, draft.state.sticky_worker_id)
    if handed is not None:
        draft.state.tasks[WORKFLOW_TASK_KEY].set_aside(crashes=handed)


def take_back(draft: Draft, key: int, crashes: Crashes | None) -> None:
    """Some of the task's crashes do not count any more: if it is poisoned no longer, it is ready for all workers."""
    record = draft.state.tasks[key]
    if record.pool and (crashes is None or not crashes.is_poisoned):
        _wait_no_longer(draft, key, crashes)
    else:
        record.set_aside(crashes=crashes)
        draft.touch(record)


def let_go(draft: Draft, key: int, crashes: Crashes) -> None:
    """A poisoned task is ready at once, for the surgical pool."""
    _wait_no_longer(draft, key, crashes)
    watch(draft, key)


def _wait_no_longer(draft: Draft, key: int, crashes: Crashes | None) -> None:
    """Neither for its time nor for its suspension. An attempt that runs goes on."""
    record = draft.state.tasks[key]
    record.set_aside(crashes=crashes)
    drop_timers(draft, key)
    if record.running:
        draft.touch(record)
    else:
        draft.ready_again(key)


def poisoned_keys(draft: Draft) -> list[int]:
    return [
        key
        for key, record in draft.state.tasks.items()
        if record.crashes is not None and record.crashes.is_poisoned
    ]
