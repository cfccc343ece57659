"""Delete: an open run is terminated, and then goes like one that had closed."""

from __future__ import annotations

from perdure_engine.core.decide.terminate_workflow import terminate
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import DeleteWorkflow


def decide(draft: Draft, intent: DeleteWorkflow) -> None:
    if draft.state.open:
        reason = intent.reason or "deleted"
        terminate(draft, reason, b"", intent.identity, intent.request_id, intent.body_hash)
