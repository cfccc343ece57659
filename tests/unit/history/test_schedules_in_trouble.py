"""Schedules whose statements, owners, timers or neighbours fail: each slot acts once all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.core.schedule_bench import JOB, WORKFLOW
from tests.unit.history.room import (
    NAMESPACE,
    Room,
    codes,
    in_room,
    pass_time,
    refused,
    turns,
    within,
)
from tests.unit.history.schedule_room import (
    EVERY,
    HOUR_S,
    MINUTE_S,
    SHARD,
    Planner,
    S,
    begin,
    complete_jobs,
    job_statuses,
    next_minute,
    no_alarms,
    outcomes,
    runs_of,
    shard_of_schedule,
    slots,
    take_jobs,
    work_jobs,
    work_workflows,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.ids import schedule_uid, shard_of
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.decide import fire_slot
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    ScheduleSpec,
    SlotOrigin,
    SlotOutcome,
)
from perdure_engine.ports.store import (
    BatchRefused,
    Conflict,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from perdure_engine.store.memory import Moment

FIRED, FIRING, SKIPPED = SlotOutcome.FIRED, SlotOutcome.FIRING, SlotOutcome.SKIPPED
MANUAL = SlotOrigin.MANUAL
HOURLY = ScheduleSpec(cron=("@hourly",))


# ---- what is lost and repeated


FAULTS = [
    (Moment.BEFORE, OutcomeUnknown("lost on its way")),
    (Moment.AFTER, OutcomeUnknown("the answer was lost")),
    (Moment.BEFORE, Conflict("40001")),
    (Moment.BEFORE, StoreUnavailable("away")),
    (Moment.BEFORE, BatchRefused("23514", "a row is to blame")),
]


@pytest.mark.parametrize(("moment", "error"), FAULTS)
@pytest.mark.parametrize("action", [JOB, WORKFLOW], ids=["job", "workflow"])
def test_a_statement_that_fails_is_a_slot_all_the_same(
    moment: Moment, error: StoreError, action: Any
) -> None:
    """Invariant 51, 52: every commit around a slot, each in its turn."""

    @in_room(seeds=(0,))
    async def story(room: Room) -> None:
        node, planner = await begin(room)
        await planner.create(action=action, overlap=OverlapPolicy.ALLOW_ALL)
        await pass_time(next_minute(room) - 1)
        node.faults.fail_next("commit", error, moment)
        await pass_time(10)
        assert outcomes(room) == [FIRED]
        worked = work_jobs if action is JOB else work_workflows
        assert await worked(node, room.worker(), 5) == 1
        assert runs_of(room, "nightly-") == (action is WORKFLOW)

    story()


@in_room()
async def test_a_slot_whose_claim_was_not_saved_fires_for_the_next_owner(room: Room) -> None:
    """Bug report 54, 57: killed between claim and commit; restarted more often than the schedule fires."""
    node, planner = await begin(room)
    await planner.create()
    await pass_time(next_minute(room) - 0.5)
    hold = node.holds.hold("commit")
    await pass_time(1)
    assert hold.waiting == 1, "the claim is on its way"
    assert outcomes(room) == []

    other, _ = await begin(room)
    await pass_time(1)
    assert outcomes(room) == [FIRED]
    hold.release()
    assert await work_jobs(other, room.worker(), 5) == 1
    assert outcomes(room) == [FIRED]
    assert job_statuses(room) == [JobStatus.COMPLETED, JobStatus.PENDING]


@in_room()
async def test_one_that_is_restarted_more_often_than_it_fires(room: Room) -> None:
    """Bug report 57."""
    _, planner = await begin(room)
    await planner.create(overlap=OverlapPolicy.ALLOW_ALL)
    for _ in range(15):
        await pass_time(20)
        await begin(room)
    await pass_time(1)

    assert outcomes(room) == [FIRED] * 5
    late = [slot.acted_us - slot.nominal_us for slot in slots(room)]
    assert max(late) < S


@in_room()
async def test_a_start_that_was_on_its_way_is_said_again_by_the_next_owner(room: Room) -> None:
    """The first one has arrived, and its answer is lost."""
    _, planner = await begin(room, SHARD)
    await planner.create(action=WORKFLOW)
    await pass_time(next_minute(room))
    assert outcomes(room) == [FIRING], "nobody serves the shard of the workflow, or it is this one"

    other, _ = await begin(room)
    await pass_time(12)
    assert outcomes(room) == [FIRED]
    assert runs_of(room, "nightly-") == 1
    third, _ = await begin(room)
    assert await work_workflows(third, room.worker(), 6) == 1
    no_alarms(other)


@in_room()
async def test_a_start_that_is_due_again_while_its_schedule_is_being_read(room: Room) -> None:
    """A step that was not saved takes the schedule out of memory; the start must not be forgotten over that."""
    node, planner = await begin(room, SHARD)
    await planner.create(action=WORKFLOW)
    await pass_time(next_minute(room))
    (slot,) = slots(room)
    target = shard_of(NAMESPACE, slot.detail, len(EVERY))
    assert target != SHARD, "nobody serves it yet"
    reading = node.holds.hold("load_schedule")
    node.faults.fail_next("commit", OutcomeUnknown("lost"))
    pause = planner.pause()
    await reading.reached()
    await pass_time(25)
    reading.release()
    await pause
    await node.take(target)
    await pass_time(15)
    assert outcomes(room) == [FIRED]


@in_room()
async def test_what_was_missed_while_nobody_served_the_shard(room: Room) -> None:
    """Invariant 54."""
    node, planner = await begin(room)
    await planner.create(overlap=OverlapPolicy.ALLOW_ALL)
    await node.stop()
    await pass_time(10 * MINUTE_S)
    other, _ = await begin(room)
    await pass_time(1)

    assert outcomes(room) == [FIRED] * 10
    assert await work_jobs(other, room.worker(), 10) == 10


@in_room()
async def test_an_end_that_came_while_the_schedule_was_not_in_memory_is_heard(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create(spec=HOURLY, overlap=OverlapPolicy.BUFFER_ONE)
    await planner.trigger()
    (task,) = await take_jobs(node, room.worker())
    await planner.trigger()
    assert outcomes(room, origin=MANUAL) == [FIRED, SlotOutcome.BUFFERED]

    other = await room.node()
    load = other.holds.hold("load_schedules")
    await other.take(*EVERY)
    await load.reached()
    await complete_jobs(other, task)  # by its token
    load.release()
    await pass_time(1)
    assert outcomes(room, origin=MANUAL) == [FIRED, FIRED]
    assert len(await take_jobs(other, room.worker())) == 1


@in_room()
async def test_calls_wait_until_the_schedules_have_been_read(room: Room) -> None:
    _, planner = await begin(room)
    await planner.create()
    other = await room.node()
    load = other.holds.hold("load_schedules")
    await other.take(*EVERY)
    calls = [Planner(room, other).describe(), Planner(room, other).describe("no-such")]
    await load.reached()
    await pass_time(2 * MINUTE_S)
    assert not any(call.done() for call in calls)
    assert outcomes(room) == []
    load.release()

    assert (await calls[0]).info.schedule_id == "s"
    assert (await refused(calls[1])).code is Code.NOT_FOUND
    await pass_time(1)
    assert outcomes(room) == [FIRED, SKIPPED]


# ---- trouble


@in_room()
async def test_a_timer_whose_row_was_lost_fires_all_the_same(room: Room) -> None:
    """Bug report 1: it is in memory, so its end is what the database refuses."""
    node, planner = await begin(room)
    await planner.create()
    lose_timers(room)
    await pass_time(next_minute(room) + 3)

    assert outcomes(room) == [FIRED]
    await pass_time(MINUTE_S)
    assert outcomes(room) == [FIRED, SKIPPED]
    assert "schedule_timer_lost" in node.alarms


@in_room()
async def test_a_timer_that_is_nowhere_is_noticed(room: Room) -> None:
    """Bug report 1: its row was lost while it was not in memory. Invariant 13."""
    node, planner = await begin(room)
    await planner.create(spec=ScheduleSpec(cron=("*/10 * * * *",)))
    lose_timers(room)
    shard = node.shard(SHARD)
    wake = planner.record().state.wake
    assert wake is not None
    await pass_time((wake[0] - room.now_us) / S + 61)

    assert node.rooms.metrics is not None
    assert outcomes(room) == [FIRED], "late, within a minute"
    assert "schedule_timer_lost" in node.alarms
    assert shard.schedules.watch.overdue in (0, 1)
    await shard.schedules.watch.run_once()
    assert shard.schedules.watch.overdue == 0
    assert len(room.timers(SHARD)) == 1


@in_room()
async def test_a_timer_that_memory_has_forgotten_is_replaced(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create()
    shard = node.shard(SHARD)
    shard.timers._heap.clear()
    shard.timers._known.clear()
    await shard.schedules.watch.run_once()
    assert shard.schedules.watch.overdue == 1
    await pass_time(next_minute(room) + MINUTE_S)

    assert outcomes(room) == [FIRED, SKIPPED]
    assert len(room.timers(SHARD)) == 1


def lose_timers(room: Room) -> None:
    for row in room.timers(SHARD):
        room.tables.timers.delete(row)


@in_room()
async def test_an_end_of_a_job_that_nobody_heard_of_is_noticed(room: Room) -> None:
    """Else its schedule would skip for ever."""
    node, planner = await begin(room)
    await planner.create()
    await pass_time(next_minute(room))
    (task,) = await take_jobs(node, room.worker())
    shard = node.shard(SHARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard.schedules, "hear_jobs", lambda *_: True)
        await complete_jobs(node, task)
    await pass_time(5 * MINUTE_S)
    assert outcomes(room) == [FIRED] + [SKIPPED] * 5

    await pass_time(8 * MINUTE_S)
    assert FIRED in outcomes(room)[1:]


@in_room()
async def test_one_bad_schedule_never_stops_the_others(room: Room) -> None:
    """Bug report 46: deciding it raises what it must not; and a row that does not read back."""
    _, planner = await begin(room)
    ids = [name for name in (f"s{n}" for n in range(40)) if shard_of_schedule(name) == SHARD]
    bad, broken, *good = ids
    for schedule_id in ids:
        await planner.create(schedule_id, overlap=OverlapPolicy.ALLOW_ALL)
    before = fire_slot.decide

    def decide(draft: Any, *args: Any) -> int:
        if draft.record.schedule_id == bad:
            raise ZeroDivisionError("a bug")
        return before(draft, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire_slot, "decide", decide)
        await pass_time(next_minute(room) + 5)
        assert all(outcomes(room, schedule_id) == [FIRED] for schedule_id in good)
        assert outcomes(room, bad) == []
        await pass_time(2 * MINUTE_S)
    assert all(len(outcomes(room, schedule_id)) == 3 for schedule_id in good)
    await pass_time(MINUTE_S)
    assert outcomes(room, bad)[:3] == [FIRED] * 3, "nothing was lost of it"

    (row,) = [r for r in room.tables.schedules.all() if r.schedule_id == broken]
    room.tables.schedules.put(row._replace(spec=b"\x00no"))
    _, other = await begin(room)
    assert await codes(other.describe(broken)) == [Code.DATA_LOSS]
    many = len(outcomes(room, good[0]))
    await pass_time(MINUTE_S)
    assert len(outcomes(room, good[0])) > many


@in_room()
async def test_a_shard_takes_no_more_schedules_than_it_can_hold(room: Room) -> None:
    """B30."""
    node, planner = await begin(room)
    await planner.create()
    other = next(f"s{n}" for n in range(99) if shard_of_schedule(f"s{n}") == SHARD)
    for limit in ("SCHEDULES_OF_SHARD_MAX", "SCHEDULE_BYTES_OF_SHARD_MAX"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"perdure_engine.core.limits.{limit}", 1)
            assert await codes(planner.create(other)) == [Code.RESOURCE_EXHAUSTED]
            assert (await refused(planner.create())).code is Code.ALREADY_EXISTS
    await planner.create(other)
    uid = schedule_uid(NAMESPACE, other)
    assert uid in node.shard(SHARD).schedules.records


@in_room()
async def test_newer_rules_of_zones_are_noticed_at_a_take_over(room: Room) -> None:
    _, planner = await begin(room)
    await planner.create(spec=HOURLY)
    (row,) = room.tables.schedules.all()
    old = room.codec.decode_schedule(row.spec)
    spec = msgspec.structs.replace(old.spec, tzdata_version="1999a")
    old = msgspec.structs.replace(old, spec=spec)
    room.tables.schedules.put(row._replace(spec=room.codec.encode_schedule(old)))
    other, again = await begin(room)
    await turns(20)
    await pass_time(1)

    assert again.record().schedule.spec.tzdata_version == other.rooms.times.tzdata_version
    assert len(room.timers(SHARD)) == 1


@in_room(seeds=(0,))
async def test_thousands_in_the_same_minute_go_in_lists(room: Room) -> None:
    """No statement for each, and no slot late."""
    node, planner = await begin(room)
    names = [f"s{number}" for number in range(2_000)]
    await asyncio.gather(*(planner.create(name) for name in names))
    statements = node.writer.statements
    await pass_time(next_minute(room))

    assert all(outcomes(room, name) == [FIRED] for name in names)
    assert node.writer.statements - statements < 60
    no_alarms(node)


@in_room()
async def test_time_may_jump_over_many_slots(room: Room) -> None:
    """As the test environment lets it: each of them is recorded."""
    node, planner = await begin(room)
    await planner.create(spec=HOURLY, overlap=OverlapPolicy.ALLOW_ALL)
    room.database_clock.jump(30 * HOUR_S)
    node.rooms.database_clock.sample(room.now_us)
    for shard in node.history.shards():
        shard.timers.time_jumped()
        await shard.timers.load_window()
    await within(asyncio.ensure_future(until_fired(room, 30)), 60)


async def until_fired(room: Room, count: int) -> None:
    while len(outcomes(room)) < count:
        await pass_time(0.1)
