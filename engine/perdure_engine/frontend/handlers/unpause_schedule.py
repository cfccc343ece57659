"""UnpauseSchedule: the next slot is acted for again."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import PauseSchedule, ScheduleSaved
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.pause_schedule import pause_schedule


async def unpause_schedule(frontend: Frontend, intent: PauseSchedule) -> ScheduleSaved:
    assert not intent.paused, "the same intent says the opposite"
    return await pause_schedule(frontend, intent)
