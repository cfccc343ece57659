"""ResetWorkflow: a new run begins with the history of another one, up to the end of a workflow task."""

from __future__ import annotations

import asyncio

from perdure_engine.core.errors import invalid
from perdure_engine.core.intents import ResetType, ResetWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def reset_workflow(frontend: Frontend, reset: ResetWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", reset.workflow_id)
    checks.label("identity", reset.identity)
    checks.label("build_id", reset.build_id)
    checks.prose("reason", reset.reason)
    by_build = not reset.event_id and reset.reset_type is ResetType.BUILD_ID
    if by_build and not reset.build_id:
        raise invalid("build_id", "is required with this type of reset")
    if reset.build_id and not by_build:
        raise invalid("build_id", "is given, and the reset is not by build")
    return frontend.submit(reset)
