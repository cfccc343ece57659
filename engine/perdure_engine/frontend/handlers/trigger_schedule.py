"""TriggerSchedule: the action now, as a slot of its own."""

from __future__ import annotations

import asyncio

from perdure_engine.core.schedules.intents import ScheduleReply, TriggerSchedule
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def trigger_schedule(frontend: Frontend, intent: TriggerSchedule) -> asyncio.Future[ScheduleReply]:
    """Answered with `SlotsActed`."""
    checks.schedule_id("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    return frontend.submit_schedule(intent)
