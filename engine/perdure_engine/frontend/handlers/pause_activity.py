"""PauseActivity: no attempt of it begins before it is unpaused."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import PauseActivity
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def pause_activity(frontend: Frontend, intent: PauseActivity) -> asyncio.Future[Reply]:
    checks.pending_activity(intent.workflow_id, intent.activity_id, intent.activity_type)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    return frontend.submit(intent)
