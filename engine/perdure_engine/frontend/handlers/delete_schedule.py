"""DeleteSchedule: no slot after the answer is acted for. What its slots have begun goes on."""

from __future__ import annotations

import asyncio

from perdure_engine.core.schedules.intents import DeleteSchedule, ScheduleReply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def delete_schedule(frontend: Frontend, intent: DeleteSchedule) -> asyncio.Future[ScheduleReply]:
    """Answered with `ScheduleSaved`."""
    checks.schedule_id("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    return frontend.submit_schedule(intent)
