"""A workflow that a slot has started was asked whether it is open."""

from __future__ import annotations

from perdure_engine.core.schedules.decide import action_ended
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import OverlapPolicy, SlotAction
from perdure_engine.core.schedules.overlap import OVERLAPS, skip
from perdure_engine.core.status import Status

OPEN = (Status.RUNNING, Status.PAUSED)
FAILURES = (Status.FAILED, Status.TIMED_OUT)


def decide(draft: ScheduleDraft, action: SlotAction, status: Status | None, asked_us: int) -> None:
    """`status` None: there is no such run any more. `asked_us`: an answer says nothing of slots that came later."""
    if status not in OPEN:
        failure = status.name if status in FAILURES else ""
        action_ended.decide(draft, action, failure)
        return
    state = draft.state
    answered = [
        slot
        for slot in state.waiting
        if slot.overlap is OverlapPolicy.SKIP and slot.since_us <= asked_us
    ]
    if answered:
        state.waiting = tuple(slot for slot in state.waiting if slot not in answered)
        for slot in answered:
            skip(draft, slot, OVERLAPS)
