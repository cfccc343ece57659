"""Delete a schedule: it starts nothing more. What is on its way still is told to the world, and then nothing is left of
it but the records of its slots."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.schedules.auditing import note, standing
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import DeleteSchedule, ScheduleSaved
from perdure_engine.core.schedules.model import SlotOutcome
from perdure_engine.core.schedules.overlap import drop_waiting
from perdure_engine.core.schedules.planning import leave_spec
from perdure_engine.core.schedules.saved import saved

DELETED = "the schedule was deleted"


def decide(draft: ScheduleDraft, intent: DeleteSchedule) -> ScheduleSaved:
    """Of one that is not there too."""
    state = draft.state
    if draft.exists:
        note(
            draft,
            Action.DELETE_SCHEDULE,
            intent,
            before=standing(draft),
            after="DELETED",
            reason=intent.reason,
        )
        reason = f"{DELETED}: {intent.reason}" if intent.reason else DELETED
        leave_spec(draft, reason, acts=False)
        drop_waiting(draft, reason, SlotOutcome.SKIPPED, also_called_for=True)
        draft.drop_wake()
        state.next_us = 0
        state.actions = tuple(action for action in state.actions if action.firing)
        state.deleted = draft.changed = True
        go_if_done(draft)
    return saved(draft)


def go_if_done(draft: ScheduleDraft) -> None:
    """Of a deleted one: nothing is on its way any more."""
    if draft.state.deleted and not draft.state.actions:
        draft.gone = draft.changed = True
