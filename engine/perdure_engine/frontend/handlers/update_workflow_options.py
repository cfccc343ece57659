"""UpdateWorkflowOptions: another versioning override for an open run, or none."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import UpdateWorkflowOptions
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.start_workflow import check_override


def update_workflow_options(
    frontend: Frontend, intent: UpdateWorkflowOptions
) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", intent.workflow_id)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    if intent.versioning_override is not None:
        check_override(frontend, intent.namespace_id, intent.versioning_override)
    return frontend.submit(intent)
