"""UnpauseWorkflow: the run goes on."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import UnpauseWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def unpause_workflow(frontend: Frontend, intent: UnpauseWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", intent.workflow_id)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    return frontend.submit(intent)
