"""PauseWorkflow: no task of the run is handed out before it is unpaused."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import PauseWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def pause_workflow(frontend: Frontend, intent: PauseWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", intent.workflow_id)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    return frontend.submit(intent)
