"""WaitResults: one of the waits that a stream carries."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import WaitResult
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def wait_result(frontend: Frontend, wait: WaitResult) -> asyncio.Future[Reply]:
    """Answered with `Closed`, however long that takes. Cancel it when nobody waits any more."""
    checks.workflow_id("workflow_id", wait.workflow_id)
    return frontend.submit(wait)
