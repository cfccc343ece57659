"""A schedule in the engine whose time skips: a year of it takes no longer than its slots do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from perdure_engine.core.ids import shard_of
from perdure_engine.core.jobs.model import JobSpec
from perdure_engine.core.schedules.intents import CreateSchedule
from perdure_engine.core.schedules.model import (
    JobAction,
    OverlapPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    SlotOutcome,
)
from perdure_engine.ports.rows import ScheduleSlotRow
from perdure_engine.server.in_process.skipping import SkippingEngine

NAMESPACE = b"a-month-of-hours"
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
S = 1_000_000
JOB = JobAction("report", "reports", JobSpec())


async def slots_of(spec: ScheduleSpec, seconds: float) -> list[ScheduleSlotRow]:
    """The schedule's slots in so much time. Nobody works, and nobody is waited for."""
    engine = await SkippingEngine.start()
    try:
        shards = {shard.shard_id: shard for shard in engine._skipper._shards()}
        shard = shards[shard_of(NAMESPACE, "schedule:s", len(shards))]
        policies = SchedulePolicies(overlap=OverlapPolicy.ALLOW_ALL)
        intent = CreateSchedule(
            namespace_id=NAMESPACE,
            schedule_id="s",
            schedule=Schedule(spec, JOB, policies),
            request_id=b"0123456789abcdef",
        )
        await shard.submit_schedule(intent)
        await engine.sleep(seconds)
        found: list[ScheduleSlotRow] = engine._skipper._tables.schedule_slots.all()
        return sorted(found)
    finally:
        await engine.stop()


def on_time(slots: list[ScheduleSlotRow]) -> bool:
    return all(
        slot.outcome == SlotOutcome.FIRED and 0 <= slot.acted_us - slot.nominal_us < S
        for slot in slots
    )


async def test_a_month_of_hours() -> None:
    """None is missing, none comes twice, none is early or late (invariants 21, 52, 53)."""
    slots = await slots_of(ScheduleSpec(cron=("0 * * * *",)), 30 * DAY_S)

    times = [slot.nominal_us for slot in slots]
    assert len(times) == 30 * 24
    assert {later - earlier for earlier, later in pairwise(times)} == {HOUR_S * S}
    assert on_time(slots)


async def test_a_year_of_nights_over_both_changes_of_the_clocks() -> None:
    """Invariant 55: 02:30 is skipped once, and comes after the gap; 24 hours later is not always tomorrow."""
    spec = ScheduleSpec(cron=("30 2 * * *",), timezone="America/New_York")
    slots = await slots_of(spec, 371 * DAY_S)

    times = [slot.nominal_us for slot in slots]
    apart = Counter((later - earlier) // (60 * S) for earlier, later in pairwise(times))
    assert set(apart) == {23.5 * 60, 24 * 60, 25 * 60}
    assert (apart[1_410], apart[1_500]) == (2, 1), "before and after the gap; a day of 25 hours"
    assert len(times) in (370, 371)
    assert on_time(slots)
