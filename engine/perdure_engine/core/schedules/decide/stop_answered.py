"""A workflow that a later slot takes the place of has been asked to stop, or terminated, or was over anyway."""

from __future__ import annotations

import msgspec

from perdure_engine.core.schedules.decide import action_ended
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import SlotAction, Stop


def decide(draft: ScheduleDraft, action: SlotAction, refused: str) -> None:
    """`refused`: there is no such open run."""
    if refused or action.stop is Stop.TERMINATE:
        action_ended.decide(draft, action, failure="")
        return
    told = msgspec.structs.replace(action, told=True)
    draft.state.actions = tuple(told if known is action else known for known in draft.state.actions)
    draft.changed = True
