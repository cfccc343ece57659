"""The pending activities of a run that an operator means: by id, or all of a type."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.attempts import options_of
from perdure_engine.core.decide.auditing import Operation, note
from perdure_engine.core.decide.report_activity import named
from perdure_engine.core.decide.requests import require_open
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import not_found
from perdure_engine.core.tasks import TaskRecord, TaskState, TimerKind


def pending(draft: Draft, activity_id: str, activity_type: str) -> list[TaskRecord]:
    """At least one. Raises NOT_FOUND."""
    require_open(draft.state)
    if activity_id:
        return [named(draft, activity_id)]
    found = [
        record
        for key, activity in draft.state.folded.activities.items()
        if activity.scheduled.activity_type == activity_type
        and (record := draft.state.tasks.get(key)) is not None
    ]
    if not found:
        raise not_found("ACTIVITY", f"no activity of type {activity_type!r} is pending")
    return found


def state_of(record: TaskRecord) -> str:
    """For the audit log."""
    state = f"{TaskState(record.state).name} attempt {record.attempt}"
    return f"{state} PAUSED" if record.paused and record.state is not TaskState.PAUSED else state


def note_change(
    draft: Draft, action: Action, intent: Operation, record: TaskRecord, before: str
) -> None:
    """`record` as it was named: what it has become is the activity's task of now."""
    key = record.scheduled_event_id
    scheduled = draft.state.folded.activities[key].scheduled
    after = state_of(draft.state.tasks[key])
    note(draft, action, intent, subject=scheduled.activity_id, before=before, after=after)


def release(draft: Draft, record: TaskRecord) -> None:
    """Take the pause back. Schedule-to-start did not run while nobody could start it."""
    record.set_aside(pause=None)
    wait_anew(draft, record)


def wait_anew(draft: Draft, record: TaskRecord) -> None:
    """Schedule-to-start, of an activity that was held back before its first attempt."""
    key = record.scheduled_event_id
    if record.state is not TaskState.PAUSED or record.was_started:
        return
    if (TimerKind.SCHEDULE_TO_START, key) in draft.state.timer_rows:
        return
    activity = draft.state.folded.activities[key]
    timeout_ms = options_of(activity, record).schedule_to_start_timeout_ms
    if timeout_ms:
        draft.put_timer(TimerKind.SCHEDULE_TO_START, key, draft.env.now_us + timeout_ms * 1000)
