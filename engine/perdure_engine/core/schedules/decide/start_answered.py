"""The start of a slot's workflow has its answer."""

from __future__ import annotations

import msgspec

from perdure_engine.core.schedules.actions import acted, track
from perdure_engine.core.schedules.decide.action_ended import pause_on_failure
from perdure_engine.core.schedules.decide.delete import go_if_done
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import SlotAction, SlotOutcome
from perdure_engine.core.schedules.overlap import go_on


def decide(draft: ScheduleDraft, action: SlotAction, refused: str) -> None:
    """`refused`: why there is no run and never will be; "": it has begun. Told twice it changes nothing."""
    if not action.firing:
        return
    state = draft.state
    outcome = SlotOutcome.FAILED if refused else acted(backfill=action.backfill)
    version = draft.put_slot(
        action.nominal_us,
        action.origin,
        outcome,
        target=b"" if refused else action.target,
        detail=refused or action.workflow_id,
        version=action.version,
    )
    state.actions = tuple(known for known in state.actions if known is not action)
    if not (refused or state.deleted):
        begun = msgspec.structs.replace(action, firing=False, kept=0, version=version)
        track(draft, begun)
    if not any(known.kept for known in state.actions):
        state.kept = ()
    if refused:
        pause_on_failure(draft, action, refused)
        go_on(draft)
    go_if_done(draft)
