"""ResetWorkflow: a new run begins with the history of another one, up to the end of a workflow task."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import ResetWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def reset_workflow(frontend: Frontend, reset: ResetWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", reset.workflow_id)
    checks.label("identity", reset.identity)
    checks.prose("reason", reset.reason)
    checks.build_of_reset(None if reset.event_id else reset.reset_type, reset.build_id)
    return frontend.submit(reset)
