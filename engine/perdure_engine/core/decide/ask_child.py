"""The parent of a child asks for its end, of which it may have been told while nobody listened."""

from __future__ import annotations

from perdure_engine.core.closing import tell_parent
from perdure_engine.core.decide.requests import require_child
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import AskChild


def decide(draft: Draft, intent: AskChild) -> None:
    """A child that is open tells when it closes. Raises NOT_FOUND for a run that is not that child."""
    require_child(draft.state, intent.child_of)
    tell_parent(draft)
