"""Schedules in their shard: each slot acts once, whatever is lost, repeated or taken over."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.core.schedule_bench import JOB, WORKFLOW, schedule
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    Node,
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
    ONCE,
    Planner,
    complete_jobs,
    fail_job,
    job_statuses,
    outcomes,
    runs_of,
    shard_of_schedule,
    slots,
    take_jobs,
    take_workflow,
    work_jobs,
    work_workflows,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.ids import schedule_uid, shard_of
from perdure_engine.core.jobs.intents import CancelJob, RescheduleJob
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.actions import instant_text
from perdure_engine.core.schedules.decide import fire_slot
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    ScheduleSpec,
    SlotOrigin,
    SlotOutcome,
)
from perdure_engine.core.status import Status
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
SHARD = shard_of_schedule("s")
S = 1_000_000


async def begin(room: Room, *shard_ids: int) -> tuple[Node, Planner]:
    node = await room.node(*(shard_ids or EVERY))
    return node, Planner(room, node)


def next_minute(room: Room) -> float:
    """Seconds until the next full minute is well over."""
    return (60 * S - room.now_us % (60 * S)) / S + 0.3


def no_alarms(node: Node) -> None:
    assert node.alarms == []


# ---- what a slot starts


@in_room()
async def test_a_job_runs_at_each_slot(room: Room) -> None:
    node, planner = await begin(room)
    saved = await planner.create()
    assert job_statuses(room) == [JobStatus.PENDING], "A7: the next run is there"
    assert await take_jobs(node, room.worker()) == [], "and nobody gets it before its time"
    await pass_time(next_minute(room))

    (task,) = await take_jobs(node, room.worker())
    assert task.job.spec.nominal_us == saved.next_us
    assert 0 <= task.started_us - saved.next_us < S, "invariants 21, 57"
    await complete_jobs(node, task)
    assert await work_jobs(node, room.worker(), 3 * MINUTE_S) == 3
    assert outcomes(room) == [FIRED] * 4
    assert job_statuses(room) == [JobStatus.COMPLETED] * 4 + [JobStatus.PENDING]
    no_alarms(node)


@in_room()
async def test_a_workflow_starts_at_each_slot(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create(action=WORKFLOW)
    assert await work_workflows(node, room.worker(), 3 * MINUTE_S) == 3

    assert outcomes(room) == [FIRED] * 3
    assert runs_of(room, "nightly-") == 3
    assert {row.detail[:8] for row in slots(room)} == {"nightly-"}
    no_alarms(node)


@in_room()
async def test_the_end_of_a_job_lets_the_next_one_go_in_the_same_statement(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create(overlap=OverlapPolicy.BUFFER_ONE)
    await pass_time(next_minute(room))
    (task,) = await take_jobs(node, room.worker())
    await pass_time(MINUTE_S)
    assert outcomes(room) == [FIRED, SlotOutcome.BUFFERED]
    await complete_jobs(node, task)

    assert outcomes(room) == [FIRED, FIRED]
    assert len(await take_jobs(node, room.worker())) == 1


@in_room()
async def test_a_failed_job_pauses_its_schedule_when_it_is_saved(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create(action=ONCE, pause_on_failure=True)
    await pass_time(next_minute(room))
    (task,) = await take_jobs(node, room.worker())
    await fail_job(node, task)

    assert (await planner.describe()).info.paused
    await pass_time(MINUTE_S)
    assert outcomes(room) == [FIRED, SlotOutcome.PAUSED]


@in_room()
async def test_a_run_that_is_open_is_skipped_for_and_one_that_has_ended_is_not(room: Room) -> None:
    """Also when it is on another shard, and was forgotten meanwhile."""
    node, planner = await begin(room)
    await planner.create(action=WORKFLOW)
    await pass_time(next_minute(room))
    task = await take_workflow(node, room.worker())
    assert task is not None
    await pass_time(2 * MINUTE_S)
    assert outcomes(room) == [FIRED, SKIPPED, SKIPPED]
    await node.complete(task, [FINISH])
    for shard in node.history.shards():
        for run in list(shard.runs.values()):
            shard.evict(run)

    await pass_time(MINUTE_S)
    assert outcomes(room) == [FIRED, SKIPPED, SKIPPED, FIRED]
    no_alarms(node)


@in_room()
async def test_a_slot_that_waits_for_a_workflow_acts_when_that_ends(room: Room) -> None:
    """At once, not at the next question."""
    node, planner = await begin(room)
    await planner.create(action=WORKFLOW, spec=HOURLY, overlap=OverlapPolicy.BUFFER_ONE)
    await planner.trigger()
    first = await take_workflow(node, room.worker())
    assert first is not None
    await planner.trigger()
    assert outcomes(room, origin=MANUAL) == [FIRED, SlotOutcome.BUFFERED]
    await pass_time(20 * MINUTE_S)
    await node.complete(first, [FINISH])
    await pass_time(0.1)

    assert outcomes(room, origin=MANUAL) == [FIRED, FIRED]
    assert await take_workflow(node, room.worker()) is not None


@in_room()
async def test_other_workflows_are_terminated_for_a_later_slot(room: Room) -> None:
    _, planner = await begin(room)
    await planner.create(action=WORKFLOW, overlap=OverlapPolicy.TERMINATE_OTHER)
    await pass_time(next_minute(room))
    await pass_time(MINUTE_S)

    assert outcomes(room) == [FIRED, FIRED]
    statuses = sorted(row.status for row in room.tables.executions.all())
    assert statuses == [Status.RUNNING, Status.TERMINATED]


@in_room()
async def test_five_triggers_at_once_are_five_runs(room: Room) -> None:
    """Bug report 10."""
    node, planner = await begin(room)
    await planner.create(action=WORKFLOW, spec=HOURLY)
    calls = [planner.trigger(overlap=OverlapPolicy.ALLOW_ALL) for _ in range(5)]
    acted = await asyncio.gather(*calls)
    await pass_time(1)

    assert len({answer.slots[0].nominal_us for answer in acted}) == 5
    assert outcomes(room, origin=MANUAL) == [FIRED] * 5
    assert runs_of(room, "nightly-") == 5
    no_alarms(node)


@in_room()
async def test_a_workflow_id_that_somebody_has_taken(room: Room) -> None:
    """Bug report 7: the slot is recorded, and the next one acts."""
    node, planner = await begin(room)
    saved = await planner.create(action=WORKFLOW)
    taken = f"nightly-{instant_text(saved.next_us)}"
    await node.start(taken, shard_of(NAMESPACE, taken, len(EVERY)))
    await pass_time(next_minute(room))
    assert outcomes(room) == [SlotOutcome.FAILED]
    assert "is running" in slots(room)[0].detail

    await pass_time(MINUTE_S)
    assert outcomes(room) == [SlotOutcome.FAILED, FIRED]
    no_alarms(node)


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


# ---- calls


@in_room()
async def test_calls_about_what_is_not_there(room: Room) -> None:
    _, planner = await begin(room)
    kinds = (planner.describe(), planner.trigger(), planner.pause(), planner.backfill(1, 2))
    update = planner.ask(intents.UpdateSchedule, schedule=schedule(), conflict_token=0)
    assert await codes(*kinds, update) == [Code.NOT_FOUND] * 5
    assert (await planner.delete()).firing == []
    assert room.tables.schedules.all() == []


@in_room()
async def test_calls_that_are_repeated(room: Room) -> None:
    """Idempotent by request id, also when the first answer was lost with its owner."""
    _, planner = await begin(room)
    request_id = room.ids.new_id()
    made = schedule()
    first = await planner.ask(intents.CreateSchedule, schedule=made, request_id=request_id)
    _, other = await begin(room)
    again = await other.ask(intents.CreateSchedule, schedule=made, request_id=request_id)
    assert again == first
    trigger_id = room.ids.new_id()
    acted = await other.trigger(request_id=trigger_id)
    assert await other.trigger(request_id=trigger_id) == acted
    assert outcomes(room, origin=MANUAL) == [FIRED]


@in_room()
async def test_a_backfill_reads_what_has_acted(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create(overlap=OverlapPolicy.ALLOW_ALL)
    await pass_time(next_minute(room))
    await planner.pause()
    await pass_time(2 * MINUTE_S)
    await planner.pause(paused=False)
    span = (room.now_us - 10 * MINUTE_S * S, room.now_us)
    dry = await planner.backfill(*span, dry_run=True)
    assert (len(dry.nominal_us), len(dry.fired_before_us)) == (9, 1)
    request_id = room.ids.new_id()
    done = await planner.backfill(*span, request_id=request_id)
    assert done == dry

    assert outcomes(room) == [FIRED, SlotOutcome.BACKFILLED, SlotOutcome.BACKFILLED]
    assert outcomes(room, origin=SlotOrigin.BACKFILL) == [SlotOutcome.BACKFILLED] * 7
    assert await planner.backfill(*span, request_id=request_id) == done
    assert (await planner.backfill(*span)).nominal_us == []
    assert await work_jobs(node, room.worker(), 5) == 10
    ten_years = span[0] - 10 * 365 * 24 * HOUR_S * S
    assert await codes(planner.backfill(ten_years, span[1])) == [Code.INVALID_ARGUMENT]


@in_room()
async def test_two_backfills_at_once_act_for_each_slot_once(room: Room) -> None:
    """Bug report 34: what was read may be old when it is decided."""
    node, planner = await begin(room)
    await planner.create(spec=HOURLY, overlap=OverlapPolicy.ALLOW_ALL)
    span = (room.now_us - 5 * HOUR_S * S, room.now_us)
    both = await asyncio.gather(planner.backfill(*span), planner.backfill(*span))

    assert sorted(len(answer.nominal_us) for answer in both) == [0, 5]
    assert await work_jobs(node, room.worker(), 5) == 5
    no_alarms(node)


@in_room()
async def test_a_deleted_schedule_is_swept_and_its_name_is_free(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create()
    await planner.delete()
    assert job_statuses(room) == [JobStatus.CANCELLED]
    assert room.timers(SHARD) == []
    await planner.create(spec=HOURLY)
    await pass_time(2 * node.rooms.config.sweep_every_s)
    (row,) = room.tables.schedules.all()
    assert not row.gone
    await planner.delete()
    await pass_time(2 * node.rooms.config.sweep_every_s)

    assert room.tables.schedules.all() == []
    assert node.shard(SHARD).schedules.records == {}
    await planner.create()
    assert (await planner.describe()).info.next_us
    no_alarms(node)


@in_room()
async def test_one_that_was_deleted_before_a_take_over_is_swept_after_it(room: Room) -> None:
    _, planner = await begin(room)
    await planner.create()
    await planner.delete()
    other, again = await begin(room)
    await again.create()
    assert (await again.describe()).conflict_token > 1
    await again.delete()
    await pass_time(2 * other.rooms.config.sweep_every_s)

    assert room.tables.schedules.all() == []
    no_alarms(other)


@in_room()
async def test_the_run_of_the_next_slot_can_be_cancelled_and_not_moved(room: Room) -> None:
    node, planner = await begin(room)
    await planner.create()
    (row,) = room.tables.job_runs.all()
    asked: dict[str, Any] = {"namespace_id": NAMESPACE, "job_id": row.job_id}
    asked["request_id"] = room.ids.new_id()
    moved = node.history.submit_job(SHARD, RescheduleJob(**asked, due_us=0))
    assert (await refused(moved)).reason == "JOB_OF_SCHEDULE"
    await node.history.submit_job(SHARD, CancelJob(**asked))
    await pass_time(next_minute(room))
    assert outcomes(room) == [SKIPPED]
    await pass_time(MINUTE_S)
    assert outcomes(room) == [SKIPPED, FIRED]


@in_room(jobs_cached_max=1)
async def test_runs_that_are_held_stay_in_memory(room: Room) -> None:
    """However little is kept of others: a slot needs no read."""
    node, planner = await begin(room)
    for number in range(20):
        await planner.create(f"s{number}")
    calls = len(node.holds.calls)
    await pass_time(next_minute(room))

    assert all(outcomes(room, f"s{number}") == [FIRED] for number in range(20))
    assert "load_jobs" not in node.holds.calls[calls:]


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
