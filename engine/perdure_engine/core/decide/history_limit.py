"""A run that has grown past its hard limit is ended with a named reason, by the decision that finds it so."""

from __future__ import annotations

from perdure_engine.core.decide.terminate_workflow import terminate
from perdure_engine.core.draft import Draft

IDENTITY = "perdure-engine"


def enforce_history_limit(draft: Draft) -> None:
    state, limits = draft.state, draft.env.limits
    events = state.folded.next_event_id - 1
    if not state.open or (
        events < limits.history_events_max and state.history_bytes < limits.history_bytes_max
    ):
        return
    reason = (
        f"history limit: {events} events, {state.history_bytes} bytes "
        f"(at most {limits.history_events_max} and {limits.history_bytes_max}); use continue-as-new"
    )
    terminate(draft, reason, b"", IDENTITY, b"", b"")
