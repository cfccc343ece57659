"""BackfillSchedule: acts for slots of a span of time that have had no action."""

from __future__ import annotations

from perdure_engine.core.errors import invalid
from perdure_engine.core.schedules.intents import Backfilled, BackfillSchedule
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


async def backfill_schedule(frontend: Frontend, intent: BackfillSchedule) -> Backfilled:
    checks.key("schedule_id", intent.schedule_id)
    checks.label("identity", intent.identity)
    checks.instant("from_us", intent.from_us)
    checks.instant("to_us", intent.to_us)
    if intent.to_us < intent.from_us:
        raise invalid("to_us", "lies before from_us")
    reply = await frontend.submit_schedule(intent)
    assert isinstance(reply, Backfilled)
    return reply
