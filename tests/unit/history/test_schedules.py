"""Schedules in their shard: each slot acts once, and calls are answered once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tests.unit.core.schedule_bench import WORKFLOW, schedule
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    Room,
    codes,
    in_room,
    pass_time,
    refused,
)
from tests.unit.history.schedule_room import (
    EVERY,
    HOUR_S,
    MINUTE_S,
    ONCE,
    SHARD,
    S,
    begin,
    complete_jobs,
    fail_job,
    job_statuses,
    next_minute,
    no_alarms,
    outcomes,
    runs_of,
    slots,
    take_jobs,
    take_workflow,
    work_jobs,
    work_workflows,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.ids import shard_of
from perdure_engine.core.instants import instant_text
from perdure_engine.core.jobs.intents import CancelJob, RescheduleJob
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    ScheduleSpec,
    SlotOrigin,
    SlotOutcome,
)
from perdure_engine.core.status import Status

FIRED, FIRING, SKIPPED = SlotOutcome.FIRED, SlotOutcome.FIRING, SlotOutcome.SKIPPED
MANUAL = SlotOrigin.MANUAL
HOURLY = ScheduleSpec(cron=("@hourly",))


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
    assert again == msgspec.structs.replace(first, repeated=True)
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
