"""ResetWorkflow: a new run begins with the history of another one, up to the end of a workflow task."""

from __future__ import annotations

from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import ResetWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import refusal_of_archived
from perdure_engine.frontend.frontend import Frontend


async def reset_workflow(frontend: Frontend, reset: ResetWorkflow) -> Reply:
    checks.workflow_id("workflow_id", reset.workflow_id)
    checks.label("identity", reset.identity)
    checks.prose("reason", reset.reason)
    checks.build_of_reset(None if reset.event_id else reset.reset_type, reset.build_id)
    try:
        return await frontend.submit(reset)
    except Rejected as refusal:
        raise await refusal_of_archived(
            frontend, refusal, reset.namespace_id, reset.workflow_id, reset.run_id
        ) from None
