"""UnpauseActivity: a paused activity goes on."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import UnpauseActivity
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def unpause_activity(frontend: Frontend, intent: UnpauseActivity) -> asyncio.Future[Reply]:
    checks.pending_activity(intent.workflow_id, intent.activity_id, intent.activity_type)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    return frontend.submit(intent)
