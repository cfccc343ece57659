"""DescribeSchedule: what a schedule is, what it will do next, and what it did last."""

from __future__ import annotations

import asyncio

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import DescribeWorkflow
from perdure_engine.core.replies import Description
from perdure_engine.core.schedules.decide.run_heard import OPEN
from perdure_engine.core.schedules.intents import (
    DescribeSchedule,
    ScheduleDescription,
    ScheduleInfo,
    Slot,
)
from perdure_engine.core.schedules.model import SlotOutcome
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.preview_schedule import next_times
from perdure_engine.frontend.schedule_rows import slot_of


class DescribedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """`recent`: its last slots, newest first. `open`: see `ScheduleDescription`, without those whose workflow has ended
    since its schedule asked last."""

    info: ScheduleInfo
    conflict_token: int
    description: str
    next_times_us: list[int]
    recent: list[Slot]
    open: list[Slot]
    tzdata_version: str


async def describe_schedule(frontend: Frontend, intent: DescribeSchedule) -> DescribedSchedule:
    checks.key("schedule_id", intent.schedule_id)
    found = await frontend.submit_schedule(intent)
    assert isinstance(found, ScheduleDescription)
    namespace_id, schedule_id = intent.namespace_id, intent.schedule_id
    rows = await frontend.schedules.list_slots(
        frontend.schedule_shard_id(namespace_id, schedule_id),
        namespace_id,
        schedule_id,
        outcomes=(),
        from_us=0,
        to_us=0,
        past=None,
        limit=limits.SCHEDULE_SLOTS_SHOWN,
    )
    info = found.info
    return DescribedSchedule(
        info=info,
        conflict_token=found.conflict_token,
        description=frontend.times.describe(info.schedule.spec),
        next_times_us=await _next_times(frontend, info),
        recent=[slot_of(row) for row in rows],
        open=await _still_open(frontend, namespace_id, found.open),
        tzdata_version=frontend.times.tzdata_version,
    )


async def _next_times(frontend: Frontend, info: ScheduleInfo) -> list[int]:
    """The first is the one that is planned, and none is shown when none is."""
    remaining = info.schedule.remaining_actions
    most = limits.PREVIEW_TIMES_DEFAULT
    count = most if remaining is None else min(remaining, most)
    if not info.next_us or not count:
        return []
    return [
        info.next_us,
        *await next_times(frontend, info.schedule.spec, info.next_us, count - 1),
    ]


async def _still_open(frontend: Frontend, namespace_id: bytes, slots: list[Slot]) -> list[Slot]:
    """A schedule asks for its workflows when a slot depends on it only: here somebody wants to know. One that cannot be
    asked now is shown, as what is known of it."""
    ended = await asyncio.gather(*(_has_ended(frontend, namespace_id, slot) for slot in slots))
    return [slot for slot, over in zip(slots, ended, strict=True) if not over]


async def _has_ended(frontend: Frontend, namespace_id: bytes, slot: Slot) -> bool:
    """The whole chain of runs that the slot has begun."""
    if not slot.run_id or slot.outcome is SlotOutcome.FIRING:
        return False
    ask = DescribeWorkflow(namespace_id=namespace_id, workflow_id=slot.workflow_id, run_id=b"")
    try:
        found = await frontend.submit(ask)
    except Rejected as refusal:
        return refusal.code is Code.NOT_FOUND
    assert isinstance(found, Description)
    is_chain = found.first_run_id == checks.uuid_bytes("run_id", slot.run_id)
    return not is_chain or found.info.status not in OPEN
