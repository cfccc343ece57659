"""UpdateSchedule: no slot after the answer follows the old one."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import ScheduleSaved, UpdateSchedule
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.schedule_checks import check_schedule


async def update_schedule(frontend: Frontend, intent: UpdateSchedule) -> ScheduleSaved:
    checks.key("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.not_negative("conflict_token", intent.conflict_token)
    check_schedule(frontend, intent.namespace_id, intent.schedule)
    reply = await frontend.submit_schedule(intent)
    assert isinstance(reply, ScheduleSaved)
    return reply
