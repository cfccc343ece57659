"""Why a run does not move: what it waits for, since when, and what will wake it. Read only."""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.failures import Failure
from perdure_engine.core.state import WORKFLOW_TASK_KEY, Activity, RunState
from perdure_engine.core.tasks import NO_ASIDE, TaskKind, TaskRecord, TaskState, TimerKind
from perdure_engine.core.transitions import ChildPhase, UpdatePhase


class WaitKind(enum.IntEnum):
    CLOSED = 1  # for nothing any more
    START_DELAY = 2
    WORKER_FOR_WORKFLOW_TASK = 3  # somebody who polls the queue
    WORKFLOW_TASK = 4  # a worker that runs its code now
    WORKFLOW_TASK_BACKOFF = 5  # its code failed, and is tried again
    WORKER_FOR_ACTIVITY = 6
    ACTIVITY = 7
    ACTIVITY_BACKOFF = 8
    TIMER = 9
    EVENT = 10  # a signal, a cancel: nothing of its own is under way
    ACTIVITY_PAUSED = 11  # an operator holds it back
    CHILD_WORKFLOW_START = 20  # its start is on its way
    CHILD_WORKFLOW = 21
    EXTERNAL_WORKFLOW = 22  # a signal or a request to cancel is on its way to another run
    PAUSED = 13  # an operator holds the whole run back: `worker_identity`, and why in `subject`
    RETRY_BACKOFF = 14  # the run before has failed, and this one is its next attempt
    CRON = 15  # the next time of its schedule, which is the `subject`
    UPDATE_ADMITTED = 16  # its code has not said yet whether it takes the update
    UPDATE_RUNNING = 17  # the update's handler has not returned
    SAGA = 18  # a compensation has failed: an operator is to say `retry` or `skip`
    POISONED = 19  # it has crashed its workers: the surgical pool gets it, or nobody before the run is resumed


class WaitReason(msgspec.Struct, frozen=True, kw_only=True):
    """Times in µs, 0: not known. `until_us`: when it goes on by itself, at the latest.

    `version` of workers, where one is waited for: the only one that may run it, "" as long as routing decides.
    """

    kind: WaitKind
    since_us: int
    until_us: int = 0
    # the activity's, the timer's or the update's id, another run's workflow id, a compensation's name
    subject: str = ""
    activity_type: str = ""
    task_queue: str = ""
    attempt: int = 0
    worker_identity: str = ""
    last_failure: Failure | None = None
    version: str = ""


class Explanation(msgspec.Struct, frozen=True):
    run_id: bytes
    reasons: list[WaitReason]


def explain(state: RunState) -> Explanation:
    """At least one reason."""
    closed = state.folded.closed
    if closed is not None:
        reasons = [WaitReason(kind=WaitKind.CLOSED, since_us=closed.time_us)]
    else:
        reasons = (
            _of_pause(state) + _of_workflow_task(state) + _of_activities(state) + _of_timers(state)
        ) + (_of_updates(state) + _of_other_runs(state))
    if not reasons:
        reasons = [
            WaitReason(
                kind=WaitKind.EVENT,
                since_us=state.folded.last_time_us,
                until_us=_first(_due(state, TimerKind.RUN_TIMEOUT), _end(state)),
            )
        ]
    return Explanation(state.run_id, reasons)


def _of_pause(state: RunState) -> list[WaitReason]:
    pause = state.folded.paused
    if pause is None:
        return []
    return [
        WaitReason(
            kind=WaitKind.PAUSED,
            since_us=pause.time_us,
            until_us=_first(_due(state, TimerKind.RUN_TIMEOUT), _end(state)),
            subject=pause.reason,
            worker_identity=pause.identity,
        )
    ]


def _of_workflow_task(state: RunState) -> list[WaitReason]:
    record = state.tasks.get(WORKFLOW_TASK_KEY)
    if record is None:
        return _of_delay(state)
    if record.pool and not _is_out(record):
        return [_of_poison(record, "", "")]
    if record.state is TaskState.PAUSED:
        return []  # the run is: said once
    timeout_us = state.folded.started.task_timeout_ms * 1_000
    if _is_out(record):
        kind, since_us = WaitKind.WORKFLOW_TASK, _started_us(record)
        until_us = since_us + timeout_us
    elif record.state is TaskState.BACKOFF:
        kind, since_us = WaitKind.WORKFLOW_TASK_BACKOFF, record.ready_us
        until_us = record.next_attempt_us
    else:
        kind, since_us, until_us = WaitKind.WORKER_FOR_WORKFLOW_TASK, record.ready_us, 0
    return [
        WaitReason(
            kind=kind,
            since_us=since_us,
            until_us=until_us,
            task_queue=record.queue,
            attempt=record.attempt,
            worker_identity=_identity(record),
            last_failure=record.last_failure,
            version=record.pinned,
        )
    ]


def _of_delay(state: RunState) -> list[WaitReason]:
    """Of the first workflow task."""
    started = state.folded.started
    due_us, subject, attempt = _due(state, TimerKind.START_DELAY), "", 0
    if due_us:
        kind = WaitKind.START_DELAY
    elif due_us := _due(state, TimerKind.CRON_OR_RETRY_BACKOFF):
        if started.attempt > 1:
            kind, attempt = WaitKind.RETRY_BACKOFF, started.attempt
        else:
            kind, subject = WaitKind.CRON, started.cron_schedule
    else:
        return []
    return [
        WaitReason(
            kind=kind,
            since_us=started.time_us,
            until_us=due_us,
            subject=subject,
            attempt=attempt,
            last_failure=started.last_failure,
        )
    ]


def _of_activities(state: RunState) -> list[WaitReason]:
    reasons = []
    for key, activity in state.folded.activities.items():
        record = state.tasks.get(key)
        if record is None:
            continue
        if record.pool and not _is_out(record) and not record.paused:
            scheduled = activity.scheduled
            reasons.append(_of_poison(record, scheduled.activity_id, scheduled.activity_type))
        elif record.state is not TaskState.PAUSED or record.paused:
            reasons.append(_of_activity(activity, record))
    return reasons


def _of_poison(record: TaskRecord, subject: str, activity_type: str) -> WaitReason:
    """`until_us`: when the surgical pool may have it; 0: now, or the run is held back."""
    crashes = record.crashes
    assert crashes is not None
    return WaitReason(
        kind=WaitKind.POISONED,
        since_us=crashes.first_us,
        until_us=record.next_attempt_us if record.state is TaskState.BACKOFF else 0,
        subject=subject,
        activity_type=activity_type,
        task_queue=record.queue,
        attempt=record.attempt,
        last_failure=crashes.last,
        version=record.pinned,
    )


def _of_activity(activity: Activity, record: TaskRecord) -> WaitReason:
    scheduled = activity.scheduled
    aside = record.aside or NO_ASIDE
    options = aside.options or scheduled
    end_us = _after(scheduled.time_us, options.schedule_to_close_timeout_ms)
    if _is_out(record):
        kind, since_us = WaitKind.ACTIVITY, _started_us(record)
        until_us = _first(_after(since_us, options.start_to_close_timeout_ms), end_us)
    elif aside.pause is not None:
        kind, since_us, until_us = WaitKind.ACTIVITY_PAUSED, aside.pause.time_us, end_us
    elif record.state is TaskState.BACKOFF:
        kind, since_us, until_us = WaitKind.ACTIVITY_BACKOFF, 0, record.next_attempt_us
    else:
        kind, since_us = WaitKind.WORKER_FOR_ACTIVITY, record.ready_us
        until_us = _first(_after(scheduled.time_us, options.schedule_to_start_timeout_ms), end_us)
    return WaitReason(
        kind=kind,
        since_us=since_us,
        until_us=until_us,
        subject=scheduled.activity_id,
        activity_type=scheduled.activity_type,
        task_queue=record.queue,
        attempt=record.attempt,
        worker_identity=_identity(record),
        last_failure=record.last_failure,
        version=record.pinned,
    )


def _of_timers(state: RunState) -> list[WaitReason]:
    return [
        WaitReason(kind=WaitKind.TIMER, since_us=0, until_us=timer.fire_us, subject=timer.timer_id)
        for timer in state.folded.timers.values()
    ]


def _of_updates(state: RunState) -> list[WaitReason]:
    admitted = [
        WaitReason(kind=WaitKind.UPDATE_ADMITTED, since_us=update.event.time_us, subject=update_id)
        for update_id, update in (state.admitted or {}).items()
    ]
    if not state.folded.updates_running:
        return admitted
    return admitted + [
        WaitReason(kind=WaitKind.UPDATE_RUNNING, since_us=0, subject=update_id)
        for update_id, update in (state.folded.updates or {}).items()
        if update.phase is UpdatePhase.ACCEPTED
    ]


def _of_other_runs(state: RunState) -> list[WaitReason]:
    reasons = []
    for child in (state.folded.children or {}).values():
        started = child.phase is ChildPhase.STARTED
        kind = WaitKind.CHILD_WORKFLOW if started else WaitKind.CHILD_WORKFLOW_START
        since_us, subject = child.initiated.time_us, child.initiated.workflow_id
        reasons.append(WaitReason(kind=kind, since_us=since_us, subject=subject))
    for external in (state.folded.externals or {}).values():
        kind, since_us = WaitKind.EXTERNAL_WORKFLOW, external.time_us
        reasons.append(WaitReason(kind=kind, since_us=since_us, subject=external.workflow_id))
    return reasons


def waits_for_a_worker(reason: WaitReason) -> TaskKind | None:
    """Whose polls would end the wait."""
    match reason.kind:
        case WaitKind.WORKER_FOR_WORKFLOW_TASK:
            return TaskKind.WORKFLOW
        case WaitKind.WORKER_FOR_ACTIVITY:
            return TaskKind.ACTIVITY
        case _:
            return None


def _is_out(record: TaskRecord) -> bool:
    return record.running


def _started_us(record: TaskRecord) -> int:
    return record.handout.started_us if record.handout is not None else record.started_us


def _identity(record: TaskRecord) -> str:
    return record.handout.identity if record.handout is not None else record.identity


def _due(state: RunState, kind: TimerKind) -> int:
    timer = state.timer_rows.get((kind, 0))
    return timer.due_us if timer is not None else 0


def _end(state: RunState) -> int:
    return _due(state, TimerKind.EXECUTION_TIMEOUT)


def _after(since_us: int, timeout_ms: int) -> int:
    return since_us + timeout_ms * 1_000 if timeout_ms else 0


def _first(*instants_us: int) -> int:
    """The earliest of those that are set."""
    return min((instant for instant in instants_us if instant), default=0)
