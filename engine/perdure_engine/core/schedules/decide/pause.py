"""Pause or unpause: slots of a schedule that is paused come and go, each with its record."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.repeats import body_of
from perdure_engine.core.schedules.auditing import note, standing
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import PauseSchedule, ScheduleSaved
from perdure_engine.core.schedules.model import RequestMark, SlotOutcome
from perdure_engine.core.schedules.overlap import drop_waiting
from perdure_engine.core.schedules.saved import require_exists, saved


def decide(draft: ScheduleDraft, intent: PauseSchedule) -> ScheduleSaved:
    require_exists(draft)
    if draft.mark_of(intent) is None:
        draft.answered(RequestMark(intent.request_id, body=body_of(intent)))
        before = standing(draft)
        turn(draft, paused=intent.paused, note=intent.note)
        action = Action.PAUSE_SCHEDULE if intent.paused else Action.UNPAUSE_SCHEDULE
        note(draft, action, intent, before=before, after=standing(draft), reason=intent.note)
    return saved(draft)


def turn(draft: ScheduleDraft, *, paused: bool, **definition: object) -> None:
    """What waits for its turn is paused too; what was due while the schedule was paused stays so."""
    if draft.schedule.paused and not paused:
        draft.state.unpaused_us = draft.env.now_us
    draft.define(paused=paused, **definition)
    if paused:
        drop_waiting(draft, draft.schedule.note, SlotOutcome.PAUSED, also_called_for=False)
