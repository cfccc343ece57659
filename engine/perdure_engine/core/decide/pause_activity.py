"""An operator holds an activity back: no attempt of it begins before it is unpaused.

An attempt that runs is told in its next heartbeat, and its outcome counts.
"""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.pending_activities import note_change, pending, state_of
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import PauseActivity
from perdure_engine.core.tasks import Pause, TaskState, TimerKind


def decide(draft: Draft, intent: PauseActivity) -> None:
    for record in pending(draft, intent.activity_id, intent.activity_type):
        if record.paused:
            continue
        before = state_of(record)
        pause = Pause(draft.env.now_us, intent.identity, intent.reason)
        record.set_aside(pause=pause)
        if record.handout is not None:  # saved as started, so that the next owner knows it too
            record.state = TaskState.STARTED
            record.handout.saved = True
        elif record.state is TaskState.READY:
            record.state = TaskState.PAUSED
        draft.drop_timer(TimerKind.SUSPENSION, record.scheduled_event_id)
        draft.touch(record)
        note_change(draft, Action.PAUSE_ACTIVITY, intent, record, before)
