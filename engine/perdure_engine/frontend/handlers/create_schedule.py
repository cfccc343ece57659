"""CreateSchedule: from the answer on its slots are acted for."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import CreateSchedule, ScheduleSaved
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.schedule_checks import check_schedule


async def create_schedule(frontend: Frontend, intent: CreateSchedule) -> ScheduleSaved:
    checks.key("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.label("user_id", intent.user_id)
    check_schedule(frontend, intent.namespace_id, intent.schedule)
    reply = await frontend.submit_schedule(intent)
    assert isinstance(reply, ScheduleSaved)
    return reply
