"""A run that was held back goes on: its tasks are ready again, but for activities that are paused themselves.

One that was suspended goes on as `resume_workflow` says.
"""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.requests import require_open, seen
from perdure_engine.core.decide.resume_workflow import go_on
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import UnpauseWorkflow


def decide(draft: Draft, intent: UnpauseWorkflow) -> None:
    if seen(draft, intent.request_id, intent.body_hash):
        return
    state = draft.state
    require_open(state)
    pause = state.folded.paused
    if pause is None:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "WORKFLOW_NOT_PAUSED",
            f"workflow {state.folded.started.workflow_id!r} is not paused",
        )
    go_on(draft, pause, intent)
    note(draft, Action.UNPAUSE, intent, before="PAUSED", after="RUNNING")
