"""TerminateWorkflow: wins over everything and needs no worker."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import TerminateWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def terminate_workflow(frontend: Frontend, terminate: TerminateWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", terminate.workflow_id)
    checks.label("identity", terminate.identity)
    checks.prose("reason", terminate.reason)
    checks.size("details", terminate.details)
    return frontend.submit(terminate)
