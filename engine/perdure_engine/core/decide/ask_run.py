"""A schedule asks how the run is that it has started."""

from __future__ import annotations

from perdure_engine.core.decide.requests import require_chain
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import AskRun
from perdure_engine.core.replies import RunStatus


def decide(draft: Draft, intent: AskRun) -> RunStatus:
    """Changes nothing. Raises NOT_FOUND for a run of another chain."""
    require_chain(draft.state, intent.first_run_id)
    return RunStatus(draft.state.folded.status)
