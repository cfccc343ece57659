"""TriggerSchedule: the action now, as a slot of its own."""

from __future__ import annotations

from perdure_engine.core.schedules.intents import SlotsActed, TriggerSchedule
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


async def trigger_schedule(frontend: Frontend, intent: TriggerSchedule) -> SlotsActed:
    checks.key("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    reply = await frontend.submit_schedule(intent)
    assert isinstance(reply, SlotsActed)
    return reply
