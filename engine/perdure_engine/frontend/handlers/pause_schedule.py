"""PauseSchedule: its slots are recorded and not acted for."""

from __future__ import annotations

import asyncio

from perdure_engine.core.schedules.intents import PauseSchedule, ScheduleReply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def pause_schedule(frontend: Frontend, intent: PauseSchedule) -> asyncio.Future[ScheduleReply]:
    """Answered with `ScheduleSaved`."""
    checks.schedule_id("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.prose("note", intent.note)
    return frontend.submit_schedule(intent)
