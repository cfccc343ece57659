"""Act now, whatever the spec says. Each call is a slot of its own, however close they come (bug report 10)."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.repeats import body_of
from perdure_engine.core.schedules.auditing import note
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import (
    CreateSchedule,
    Slot,
    SlotsActed,
    TriggerSchedule,
)
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    RequestMark,
    SlotOrigin,
    WaitingSlot,
)
from perdure_engine.core.schedules.overlap import arrive
from perdure_engine.core.schedules.saved import require_exists, slot_of_row


def decide(draft: ScheduleDraft, intent: TriggerSchedule) -> SlotsActed:
    require_exists(draft)
    mark = draft.mark_of(intent)
    if mark is None:
        mark = act(draft, intent.overlap, intent)
        note(draft, Action.TRIGGER_SCHEDULE, intent, after=mark.outcome.name)
    return SlotsActed([_slot(mark)])


def act(
    draft: ScheduleDraft,
    overlap: OverlapPolicy | None,
    asked: TriggerSchedule | CreateSchedule,
) -> RequestMark:
    """`overlap` None: the schedule's."""
    state, now_us = draft.state, draft.env.now_us
    nominal_us = state.manual_us = max(now_us, state.manual_us + 1)
    overlap = overlap or draft.schedule.policies.overlap
    outcome = arrive(draft, WaitingSlot(nominal_us, SlotOrigin.MANUAL, overlap, now_us))
    change = draft.slots.get((nominal_us, SlotOrigin.MANUAL))  # none while it waits for an answer
    target, detail = (b"", "") if change is None else (change.target, change.detail)
    mark = RequestMark(asked.request_id, nominal_us, outcome, target, detail, body_of(asked))
    draft.answered(mark)
    return mark


def _slot(mark: RequestMark) -> Slot:
    target = uuid_text(mark.target) if mark.target else ""
    return slot_of_row(
        mark.nominal_us, SlotOrigin.MANUAL, mark.outcome, mark.nominal_us, target, mark.detail
    )
