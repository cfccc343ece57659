"""An activity that was held back goes on; one that is not paused is left as it is."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.pending_activities import note_change, pending, state_of
from perdure_engine.core.decide.reset_activity import reset
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import UnpauseActivity
from perdure_engine.core.tasks import TaskRecord, TaskState, TimerKind


def decide(draft: Draft, intent: UnpauseActivity) -> None:
    for record in pending(draft, intent.activity_id, intent.activity_type):
        if not record.paused:
            continue
        before = state_of(record)
        release(draft, record)
        if intent.reset_heartbeat:
            record.progress = b""
        if intent.reset_attempts:
            reset(draft, record)
        elif record.state is TaskState.PAUSED:
            draft.ready_again(record.scheduled_event_id)
        else:
            draft.touch(record)
        note_change(draft, Action.UNPAUSE_ACTIVITY, intent, record, before)


def release(draft: Draft, record: TaskRecord) -> None:
    """Take the pause back. Schedule-to-start did not run while nobody could start it."""
    record.set_aside(pause=None)
    wait_anew(draft, record)


def wait_anew(draft: Draft, record: TaskRecord) -> None:
    """Schedule-to-start, of an activity that was held back before its first attempt."""
    key = record.scheduled_event_id
    if record.state is not TaskState.PAUSED or record.attempt > 1:
        return
    if (TimerKind.SCHEDULE_TO_START, key) in draft.state.timer_rows:
        return
    scheduled = draft.state.folded.activities[key].scheduled
    timeout_ms = scheduled.schedule_to_start_timeout_ms
    if timeout_ms:
        draft.put_timer(TimerKind.SCHEDULE_TO_START, key, draft.env.now_us + timeout_ms * 1000)
