"""UnpauseSchedule: the next slot is acted for again."""

from __future__ import annotations

import asyncio

from perdure_engine.core.schedules.intents import PauseSchedule, ScheduleReply
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.pause_schedule import pause_schedule


def unpause_schedule(frontend: Frontend, intent: PauseSchedule) -> asyncio.Future[ScheduleReply]:
    """Answered with `ScheduleSaved`."""
    assert not intent.paused, "the same intent says the opposite"
    return pause_schedule(frontend, intent)
