"""An activity's attempts are counted from 1 again, and one that waits is tried at once.

An attempt that runs goes on; if it fails, the next one is the first. Its crashes are forgotten.
"""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.activity_outcome import begin_anew
from perdure_engine.core.decide.crashes import drop_timers
from perdure_engine.core.decide.pending_activities import (
    note_change,
    pending,
    release,
    state_of,
)
from perdure_engine.core.decide.update_activity_options import put_in_force
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import ResetActivity
from perdure_engine.core.tasks import TaskRecord


def decide(draft: Draft, intent: ResetActivity) -> None:
    for record in pending(draft, intent.activity_id, intent.activity_type):
        if record.aside is not None and record.aside.request_id == intent.request_id:
            continue  # asked again
        before = state_of(record)
        if not intent.keep_paused and record.paused:
            release(draft, record)
        if intent.restore_original_options:
            put_in_force(draft, record, None)
            record = draft.state.tasks[record.scheduled_event_id]
        if intent.reset_heartbeat:
            record.progress = b""
        record.set_aside(request_id=intent.request_id)
        reset(draft, record)
        note_change(draft, Action.RESET_ACTIVITY, intent, record, before)


def reset(draft: Draft, record: TaskRecord) -> None:
    drop_timers(draft, record.scheduled_event_id)
    if record.running:
        record.set_aside(reset=True, crashes=None)
        draft.touch(record)
        return
    begin_anew(draft, record)
