"""Delete: an open run is terminated, and then goes like one that had closed.

That it goes is written into the audit log when it goes (history/removing.py); here only its end.
"""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import note, status_of
from perdure_engine.core.decide.terminate_workflow import terminate
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import DeleteWorkflow


def decide(draft: Draft, intent: DeleteWorkflow) -> None:
    if draft.state.open:
        reason = intent.reason or "deleted"
        before = status_of(draft)
        terminate(draft, reason, b"", intent.identity, intent.request_id, intent.body_hash)
        after = status_of(draft)
        note(draft, Action.TERMINATE, intent, before=before, after=after, reason=reason)
