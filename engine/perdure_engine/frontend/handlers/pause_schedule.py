"""PauseSchedule: its slots are recorded and not acted for."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import PauseSchedule, ScheduleSaved
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


async def pause_schedule(frontend: Frontend, intent: PauseSchedule) -> ScheduleSaved:
    checks.key("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.prose("note", intent.note)
    reply = await frontend.submit_schedule(intent)
    assert isinstance(reply, ScheduleSaved)
    return reply
