"""CancelWorkflow: asks once; the run may clean up."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import CancelWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def cancel_workflow(frontend: Frontend, cancel: CancelWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", cancel.workflow_id)
    checks.label("identity", cancel.identity)
    checks.prose("reason", cancel.reason)
    return frontend.submit(cancel)
