"""A schedule's timer has fired: the slots that are due act, or their records say why not (invariants 51, 52, 54)."""

from __future__ import annotations

from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.planning import act, advance, is_due, plan_slot

SLOTS_AT_ONCE = 100
"""Of one schedule in one step: what it has missed must not keep the others waiting."""


def decide(draft: ScheduleDraft, wake_us: int, timer_id: int, most: int = SLOTS_AT_ONCE) -> int:
    """Act for at most so many slots; the timer of the next one stands for the rest. How many it were; none when
    another timer stands for the schedule by now."""
    state = draft.state
    if state.wake is None or state.wake[:2] != (wake_us, timer_id):
        return 0
    count = 0
    while count < most and is_due(draft, state.next_us):
        act(draft)
        advance(draft)
        count += 1
    if count:
        plan_slot(draft, state.next_us)
    else:
        draft.wake_at(draft.due_us(state.next_us))
    return count
