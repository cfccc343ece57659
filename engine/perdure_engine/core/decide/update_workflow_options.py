"""Another versioning override for an open run, or none: its ready tasks go where it says from now on."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.requests import require_open, seen
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowExecutionOptionsUpdated
from perdure_engine.core.intents import UpdateWorkflowOptions
from perdure_engine.core.versions import Versioning


def decide(draft: Draft, intent: UpdateWorkflowOptions) -> None:
    """It wakes nobody: the workflow has nothing to look at. A worker that has a task of the run ends it."""
    if seen(draft, intent.request_id, intent.body_hash):
        return
    require_open(draft.state)
    waits = draft.state.workflow_task_out
    before = draft.state.folded.versioning_override
    draft.record(
        WorkflowExecutionOptionsUpdated(
            0,
            draft.env.now_us,
            intent.versioning_override,
            intent.identity,
            intent.request_id,
            intent.body_hash,
        )
    )
    if not waits:
        draft.pin_anew()
    note(
        draft,
        Action.UPDATE_OPTIONS,
        intent,
        before=_shown(before),
        after=_shown(intent.versioning_override),
    )


def _shown(override: Versioning | None) -> str:
    if override is None:
        return "no override"
    return f"{override.behavior.name} {override.version}".rstrip()
