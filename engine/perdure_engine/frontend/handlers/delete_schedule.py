"""DeleteSchedule: no slot after the answer is acted for. What its slots have begun goes on."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import DeleteSchedule, ScheduleSaved
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


async def delete_schedule(frontend: Frontend, intent: DeleteSchedule) -> ScheduleSaved:
    checks.key("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    reply = await frontend.submit_schedule(intent)
    assert isinstance(reply, ScheduleSaved)
    return reply
