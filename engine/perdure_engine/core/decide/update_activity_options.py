"""An operator gives a pending activity other options. An attempt that a worker has keeps its timeouts.

They are saved in the task's row: what history says it was scheduled with stays as it is.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.attempts import options_of
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.hand_over_activity import watch
from perdure_engine.core.decide.pending_activities import pending
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import ActivityTaskScheduled
from perdure_engine.core.intents import UpdateActivityOptions
from perdure_engine.core.tasks import ActivityOptions, TaskRecord, TaskState, TimerKind

_CHANGEABLE = ActivityOptions.__struct_fields__


def decide(draft: Draft, intent: UpdateActivityOptions) -> None:
    records = pending(draft, intent.activity_id, intent.activity_type)
    changed = [_changed(draft, record, intent) for record in records]
    for record, options in zip(records, changed, strict=True):
        activity = draft.state.folded.activities[record.scheduled_event_id]
        before = _told(options_of(activity, record))
        put_in_force(draft, record, options)
        note(
            draft,
            Action.UPDATE_ACTIVITY_OPTIONS,
            intent,
            subject=activity.scheduled.activity_id,
            before=before,
            after=_told(options or activity.scheduled),
        )


def _told(options: ActivityOptions | ActivityTaskScheduled) -> str:
    """For the audit log."""
    given = {name: msgspec.to_builtins(getattr(options, name)) for name in _CHANGEABLE}
    return msgspec.json.encode(given).decode()


def _changed(
    draft: Draft, record: TaskRecord, intent: UpdateActivityOptions
) -> ActivityOptions | None:
    """Raises FAILED_PRECONDITION when no timeout would be left that ends a running attempt."""
    activity = draft.state.folded.activities[record.scheduled_event_id]
    if intent.restore_original:
        return None
    now = options_of(activity, record)
    options = ActivityOptions(**{name: getattr(now, name) for name in _CHANGEABLE})
    given = {name: getattr(intent, name) for name in _CHANGEABLE}
    options = msgspec.structs.replace(
        options, **{name: value for name, value in given.items() if value is not None}
    )
    if not options.start_to_close_timeout_ms and not options.schedule_to_close_timeout_ms:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "NO_TIMEOUT_LEFT",
            "start_to_close_timeout_ms: this or schedule_to_close_timeout_ms must stay",
            field="start_to_close_timeout_ms",
        )
    return options


def put_in_force(draft: Draft, record: TaskRecord, options: ActivityOptions | None) -> None:
    """None: those that it was scheduled with. The activity may have another record afterwards."""
    key = record.scheduled_event_id
    activity = draft.state.folded.activities[key]
    record.set_aside(options=options)
    if record.state in (TaskState.READY, TaskState.PAUSED) and record.handout is None:
        draft.ready_again(key)
    else:
        draft.touch(record)
    if record.state is TaskState.ASYNC:
        draft.drop_timer(TimerKind.ASYNC_TIMEOUT, key)
        watch(draft, activity, record)
    in_force = options or activity.scheduled
    unstarted = not record.was_started and not record.running
    pause = draft.state.folded.paused
    # while the run is suspended it stands still, and comes back as the options say then
    if pause is None or not pause.suspended:
        _timer(draft, TimerKind.SCHEDULE_TO_CLOSE, key, in_force.schedule_to_close_timeout_ms)
    if unstarted:
        _timer(draft, TimerKind.SCHEDULE_TO_START, key, in_force.schedule_to_start_timeout_ms)


def _timer(draft: Draft, kind: TimerKind, key: int, timeout_ms: int) -> None:
    """Counted from when the activity was scheduled, as ever; one whose time is over fires at once."""
    due_us = draft.state.folded.activities[key].scheduled.time_us + timeout_ms * 1000
    row = draft.state.timer_rows.get((kind, key))
    if row is not None and timeout_ms and row.due_us == due_us:
        return
    draft.drop_timer(kind, key)
    if timeout_ms:
        draft.put_timer(kind, key, due_us)
