"""An activity that was held back goes on; one that is not paused is left as it is."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.crashes import watch
from perdure_engine.core.decide.pending_activities import (
    note_change,
    pending,
    release,
    state_of,
)
from perdure_engine.core.decide.reset_activity import reset
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import UnpauseActivity
from perdure_engine.core.tasks import TaskState


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
            watch(draft, record.scheduled_event_id)
        else:
            draft.touch(record)
        note_change(draft, Action.UNPAUSE_ACTIVITY, intent, record, before)
