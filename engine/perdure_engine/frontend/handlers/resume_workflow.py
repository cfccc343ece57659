"""ResumeWorkflow: what of the run is poisoned is tried at once, in the surgical pool."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import ResumeWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def resume_workflow(frontend: Frontend, intent: ResumeWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", intent.workflow_id)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    return frontend.submit(intent)
