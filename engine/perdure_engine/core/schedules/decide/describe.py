"""What a schedule is, and how far it is."""

from __future__ import annotations

from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import DescribeSchedule, ScheduleDescription, Slot
from perdure_engine.core.schedules.model import SlotOrigin, SlotOutcome
from perdure_engine.core.schedules.saved import info_of, require_exists, slot_of_action

OPEN_SHOWN_MAX = 100


def decide(draft: ScheduleDraft, intent: DescribeSchedule) -> ScheduleDescription:
    require_exists(draft)
    state = draft.state
    waiting = [
        Slot(
            slot.nominal_us,
            SlotOutcome.BUFFERED,
            slot.since_us,
            manual=slot.origin is SlotOrigin.MANUAL,
        )
        for slot in state.waiting
    ]
    begun = [slot_of_action(action) for action in state.actions]
    info = info_of(intent.schedule_id, draft.user_id, draft.schedule, state)
    return ScheduleDescription(info, draft.conflict_token, (begun + waiting)[:OPEN_SHOWN_MAX])
