"""A schedule is made whole again: its timer was nowhere, or its times were made by other rules of its zone."""

from __future__ import annotations

from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.planning import drop_next_job, plan_slot

OTHER_RULES = "the rules of the time zone have changed"


def decide(draft: ScheduleDraft) -> None:
    """Whose timer has no row any more is known by its state: it has no `wake`."""
    state = draft.state
    if not (draft.exists and state.next_us):
        return
    next_us = _next_us(draft)
    if next_us != state.next_us:
        drop_next_job(draft, OTHER_RULES)
        plan_slot(draft, next_us)
    else:
        draft.wake_at(draft.due_us(next_us))


def _next_us(draft: ScheduleDraft) -> int:
    """Slots that are still to come follow newer rules of the zone; older ones change nothing: a node that has not been
    upgraded yet must not undo what others have done."""
    if draft.schedule.spec.tzdata_version >= draft.times.tzdata_version:
        return draft.state.next_us
    return draft.next_us(draft.state.done_us)
