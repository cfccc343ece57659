"""ListScheduleSlots: what became of each of a schedule's times, newest first."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import invalid
from perdure_engine.core.schedules.intents import Slot
from perdure_engine.core.schedules.model import SlotOutcome
from perdure_engine.core.schedules.saved import no_schedule
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.schedule_rows import slot_of
from perdure_engine.frontend.seal import page_scope


class ListScheduleSlots(msgspec.Struct, frozen=True, kw_only=True):
    """Nominal times from inclusive, to exclusive; `to_us` 0: no end. No outcomes: any."""

    namespace_id: bytes
    schedule_id: str
    outcomes: tuple[SlotOutcome, ...] = ()
    from_us: int = 0
    to_us: int = 0
    page_size: int = 0
    page_token: bytes = b""


class SlotsPage(msgspec.Struct, frozen=True):
    slots: list[Slot]
    next_page_token: bytes


class Last(msgspec.Struct, frozen=True, array_like=True):
    """The last slot of the page before."""

    nominal_us: int
    origin: int


async def list_schedule_slots(frontend: Frontend, asked: ListScheduleSlots) -> SlotsPage:
    """Of a schedule that was deleted too, as long as its slots are kept. Raises NOT_FOUND when there is neither."""
    checks.key("schedule_id", asked.schedule_id)
    checks.instant("from_us", asked.from_us)
    checks.instant("to_us", asked.to_us)
    if asked.to_us and asked.to_us < asked.from_us:
        raise invalid("to_us", "lies before from_us")
    size = checks.page_size("page_size", asked.page_size)
    namespace_id, schedule_id = asked.namespace_id, asked.schedule_id
    told = (namespace_id, schedule_id, asked.outcomes, asked.from_us, asked.to_us)
    scope = page_scope(b"list_schedule_slots", told)
    past = None
    if asked.page_token:
        last = frontend.sealer.open_page("page_token", asked.page_token, scope, Last)
        past = (last.nominal_us, last.origin)
    shard_id = frontend.schedule_shard_id(namespace_id, schedule_id)
    rows = await frontend.schedules.list_slots(
        shard_id,
        namespace_id,
        schedule_id,
        outcomes=tuple(map(int, asked.outcomes)),
        from_us=asked.from_us,
        to_us=asked.to_us,
        past=past,
        limit=size + 1,
    )
    if not rows:
        schedule = await frontend.schedules.load_schedule(shard_id, namespace_id, schedule_id)
        if schedule is None or schedule.gone:
            raise no_schedule(schedule_id)
    slots = [slot_of(row) for row in rows[:size]]
    if len(rows) <= size:
        return SlotsPage(slots, b"")
    end = rows[size - 1]
    return SlotsPage(slots, frontend.sealer.seal_page(Last(end.nominal_us, end.origin), scope))
