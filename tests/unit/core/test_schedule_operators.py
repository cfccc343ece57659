"""What is asked of a schedule, and what it makes of its slots (semantics §11, invariants 52, 56)."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.core.schedule_bench import (
    BUFFERED,
    EVERY_HOUR,
    FIRED,
    HOUR,
    JOB,
    MANUAL,
    MINUTE,
    MISSED,
    PAUSED,
    SECOND,
    SKIPPED,
    START_US,
    WORKFLOW,
    Bench,
    refused,
    schedule,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.errands import said_by
from perdure_engine.core.schedules.model import (
    IntervalSpec,
    OverlapPolicy,
    ScheduleSpec,
)
from perdure_engine.core.schedules.planning import SETTLED_MAX
from perdure_engine.core.status import Status

# ---- creating


def test_a_schedule_is_created_once(bench: Bench) -> None:
    request_id = bench.new_id()
    first = bench.ask(intents.CreateSchedule, schedule=schedule(), request_id=request_id)
    bench.pass_time(10 * SECOND)

    again = bench.ask(intents.CreateSchedule, schedule=schedule(), request_id=request_id)
    assert again == msgspec.structs.replace(first, repeated=True)
    assert refused(bench, intents.CreateSchedule, schedule=schedule()).code is Code.ALREADY_EXISTS


def is_another_call(bench: Bench, kind: object, **said: object) -> bool:
    """Whether it is refused as such, and has changed nothing."""
    before = bench.record
    refusal = refused(bench, kind, **said)
    assert (refusal.code, refusal.field) == (Code.INVALID_ARGUMENT, "request_id")
    return refusal.reason == "REQUEST_ID_REUSED" and bench.record is before


PAUSE = {"paused": True, "note": ""}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (intents.PauseSchedule, PAUSE | {"paused": False}),
        (intents.PauseSchedule, PAUSE | {"note": "else"}),
        (intents.TriggerSchedule, {"overlap": None}),
        (intents.UpdateSchedule, {"schedule": schedule(), "conflict_token": 0}),
        (
            intents.BackfillSchedule,
            {"from_us": 1, "to_us": 2, "overlap": None, "dry_run": False},
        ),
    ],
)
def test_b55_no_other_call_is_lost_under_the_request_id_of_one(
    bench: Bench, kind: object, said: dict[str, object]
) -> None:
    """As bug report 10: a trigger under the id of a pause would be answered, and never act."""
    bench.create()
    request_id = bench.new_id()
    bench.ask(intents.PauseSchedule, **PAUSE, request_id=request_id)
    bench.crash()

    bench.ask(intents.PauseSchedule, **PAUSE, identity="else", request_id=request_id)
    assert is_another_call(bench, kind, **said, request_id=request_id)


def test_b55_another_schedule_is_not_taken_for_the_one_that_was_created(bench: Bench) -> None:
    request_id = bench.new_id()
    made = {"schedule": schedule(), "trigger_immediately": True, "request_id": request_id}
    bench.ask(intents.CreateSchedule, **made)
    bench.crash()

    assert is_another_call(bench, intents.CreateSchedule, **made | {"user_id": "ada"})
    assert is_another_call(
        bench, intents.CreateSchedule, **made | {"schedule": schedule(note="else")}
    )
    assert is_another_call(bench, intents.TriggerSchedule, overlap=None, request_id=request_id)


def test_one_whose_times_are_all_over_is_refused(bench: Bench) -> None:
    refusal = refused(
        bench,
        intents.CreateSchedule,
        schedule=schedule(spec=ScheduleSpec(dates_us=(START_US - 1,))),
    )
    assert (refusal.code, refusal.field) == (Code.INVALID_ARGUMENT, "schedule.spec")
    assert bench.jobs == {}


def test_a_schedule_may_act_at_once(bench: Bench) -> None:
    bench.ask(intents.CreateSchedule, schedule=schedule(), trigger_immediately=True)

    assert bench.outcomes(MANUAL) == [FIRED]


def test_actions_that_remain_are_counted(bench: Bench) -> None:
    bench.create(remaining_actions=2, overlap=OverlapPolicy.ALLOW_ALL)
    bench.trigger()
    bench.pass_time(5 * MINUTE)

    assert bench.outcomes() == [FIRED, FIRED]
    assert (bench.state.next_us, bench.timers, bench.state.job_id) == (0, {}, b"")
    info = bench.describe().info
    assert (info.schedule.remaining_actions, info.next_us) == (0, 0)
    bench.update(remaining_actions=1, overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(5 * MINUTE)
    assert bench.outcomes() == [FIRED] * 3


def test_the_last_action_may_be_one_that_waited(bench: Bench) -> None:
    bench.create(remaining_actions=2, overlap=OverlapPolicy.BUFFER_ALL)
    bench.pass_time(3 * MINUTE)
    bench.end_open_jobs()
    assert bench.outcomes() == [FIRED, FIRED, BUFFERED]
    assert bench.state.next_us == 0

    bench.end_open_jobs()
    assert bench.outcomes() == [FIRED, FIRED, SKIPPED]


def test_one_with_an_end_ends(bench: Bench) -> None:
    spec = ScheduleSpec(cron=("* * * * *",), end_us=START_US + 2 * MINUTE)
    bench.create(spec=spec, overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(HOUR)

    assert bench.outcomes() == [FIRED, FIRED]
    assert bench.timers == {}


def test_a_slot_with_jitter_keeps_its_identity(bench: Bench) -> None:
    spec = ScheduleSpec(intervals=(IntervalSpec(60_000),), jitter_ms=50_000)
    bench.create(spec=spec, overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(10 * MINUTE)

    lateness = [row.acted_us - key[0] for key, row in sorted(bench.slots.items())]
    assert all(key[0] % MINUTE == 0 for key in bench.slots)
    assert all(0 <= late < 51 * SECOND for late in lateness)
    assert len(set(lateness)) > 5


# ---- pause, update, delete


def test_slots_of_a_paused_schedule_come_and_go(bench: Bench) -> None:
    """Invariant 52, 56."""
    bench.create()
    bench.pause("maintenance")
    bench.pass_time(2 * MINUTE)
    assert bench.outcomes() == [PAUSED, PAUSED]
    assert bench.details() == ["maintenance"] * 2

    bench.unpause()
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [PAUSED, PAUSED, FIRED]
    assert bench.statuses()[:3] == [JobStatus.SKIPPED, JobStatus.SKIPPED, JobStatus.PENDING]


def test_what_was_due_while_paused_stays_so_after_the_pause(bench: Bench) -> None:
    """The engine was down when it was due."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.pause()
    bench.now_us += 2 * MINUTE
    bench.unpause()
    bench.now_us += MINUTE
    bench.fire()

    assert bench.outcomes() == [PAUSED, PAUSED, FIRED]


def test_a_pause_stops_what_waits(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.BUFFER_ALL)
    bench.pass_time(2 * MINUTE)
    bench.trigger()
    bench.pause("stop")
    assert bench.outcomes() == [FIRED, PAUSED]

    bench.end_open_jobs()
    assert bench.outcomes(MANUAL) == [FIRED], "what somebody has called for goes on"
    assert bench.outcomes() == [FIRED, PAUSED]


@pytest.mark.parametrize(
    ("action", "how"),
    [(JOB, "job"), (WORKFLOW, "workflow"), (WORKFLOW, "start")],
    ids=["job", "workflow", "start"],
)
def test_a_failure_pauses_the_schedule(bench: Bench, action: object, how: str) -> None:
    bench.create(action, pause_on_failure=True)
    bench.pass_time(MINUTE)
    if how == "job":
        bench.end_open_jobs(JobStatus.FAILED)
    elif how == "workflow":
        bench.started()
        bench.asked(Status.RUNNING)
        bench.asked(Status.FAILED)
    else:
        bench.started(refused="no such namespace")

    info = bench.describe().info
    assert info.paused
    assert info.note.startswith("paused because ")
    bench.pass_time(MINUTE)
    assert bench.outcomes()[-1] is PAUSED


def test_an_end_that_is_no_failure_pauses_nothing(bench: Bench) -> None:
    bench.create(WORKFLOW, pause_on_failure=True)
    bench.pass_time(MINUTE)
    bench.started()
    bench.asked(Status.CANCELED)

    assert not bench.record.schedule.paused
    assert bench.errands() == []


def test_an_update_holds_for_every_slot_after_it(bench: Bench) -> None:
    """Invariant 56: another spec, another action."""
    bench.create()
    bench.pass_time(30 * SECOND)
    other = msgspec.structs.replace(JOB, task_name="other")
    saved = bench.update(other, EVERY_HOUR)

    assert saved.next_us == START_US + HOUR
    bench.pass_time(2 * HOUR)
    assert bench.outcomes() == [FIRED, SKIPPED]
    by_time = sorted(bench.jobs.values(), key=lambda run: run.scheduled_us)
    assert [(run.task_name, run.status) for run in by_time] == [
        ("report", JobStatus.CANCELLED),
        ("other", JobStatus.PENDING),
        ("other", JobStatus.SKIPPED),
        ("other", JobStatus.PENDING),
    ]


def test_an_update_of_the_action_alone_keeps_the_slot(bench: Bench) -> None:
    bench.create()
    bench.update(msgspec.structs.replace(JOB, queue="fast"))

    assert bench.state.next_us == START_US + MINUTE
    assert bench.jobs[bench.state.job_id].queue == "fast"
    bench.pass_time(MINUTE)
    assert bench.job_of(START_US + MINUTE).queue == "fast"


def test_an_update_does_not_lose_the_slot_whose_time_it_is(bench: Bench) -> None:
    bench.create()
    bench.now_us += MINUTE + SECOND
    bench.update(JOB, EVERY_HOUR)

    assert bench.outcomes() == [FIRED]


@pytest.mark.parametrize("acts", [True, False])
def test_a_slot_that_waits_for_its_jitter_is_not_forgotten(bench: Bench, acts: bool) -> None:
    spec = ScheduleSpec(intervals=(IntervalSpec(60_000),), jitter_ms=60_000)
    bench.create(spec=spec)
    bench.now_us += MINUTE
    assert bench.state.wake is not None
    assert bench.state.wake[0] > bench.now_us
    if acts:
        bench.update(JOB, EVERY_HOUR)
    else:
        bench.delete()

    assert bench.outcomes() == [FIRED if acts else MISSED]


def test_what_was_not_worked_off_before_an_update_is_missed(bench: Bench) -> None:
    """Nothing silent, and nothing endless."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.now_us += (SETTLED_MAX + 50) * MINUTE
    bench.update(JOB, EVERY_HOUR)

    assert bench.outcomes() == [MISSED] * (SETTLED_MAX + 1)
    assert bench.details()[-1].endswith("this record is of all slots up to then")
    assert bench.state.next_us % HOUR == 0


def test_an_update_of_what_has_nothing_to_do_with_times_goes_on_where_it_was(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.now_us += 30 * MINUTE
    bench.update(overlap=OverlapPolicy.ALLOW_ALL, note="new")
    bench.fire()

    assert bench.outcomes() == [FIRED] * 30


def test_an_update_goes_by_the_conflict_token(bench: Bench) -> None:
    token = bench.create().conflict_token
    newer = bench.update(conflict_token=token, note="first").conflict_token
    assert newer > token

    refusal = refused(
        bench, intents.UpdateSchedule, schedule=schedule(note="second"), conflict_token=token
    )
    assert refusal.code is Code.ABORTED
    assert bench.record.schedule.note == "first"


def test_starts_on_their_way_go_on_with_what_they_were_claimed_with(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    (errand,) = bench.errands()
    start = said_by(bench.record, errand)

    answer = bench.update(JOB)
    assert [slot.workflow_id for slot in answer.firing] == ["nightly-2027-01-15T08:01:00Z"]
    bench.crash()
    assert said_by(bench.record, errand) == start
    bench.started()
    assert bench.state.kept == ()


def test_a_deleted_schedule_starts_nothing_more(bench: Bench) -> None:
    """Invariant 56."""
    bench.create(overlap=OverlapPolicy.BUFFER_ALL)
    bench.pass_time(2 * MINUTE)
    bench.delete(reason="old")

    assert bench.record.gone
    assert bench.outcomes() == [FIRED, SKIPPED]
    assert sorted(bench.statuses()) == [JobStatus.PENDING, JobStatus.CANCELLED, JobStatus.SKIPPED]
    assert bench.timers == {}
    assert refused(bench, intents.DescribeSchedule).code is Code.NOT_FOUND
    assert bench.delete().conflict_token


def test_what_a_deleted_schedule_has_on_its_way_arrives(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    answer = bench.delete()
    assert len(answer.firing) == 1
    assert not bench.record.gone
    assert not bench.draft().exists
    assert refused(bench, intents.TriggerSchedule, overlap=None).code is Code.NOT_FOUND

    bench.create(spec=EVERY_HOUR)
    bench.crash()
    assert isinstance(said_by(bench.record, bench.errands()[0]), StartWorkflow)
    bench.started()
    assert bench.outcomes() == [FIRED]
    assert bench.draft().exists


def test_a_deleted_schedule_goes_when_nothing_is_on_its_way(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.delete()
    bench.started()

    assert bench.record.gone
    assert bench.outcomes() == [FIRED]


def test_what_operators_do_is_noted_and_a_repeat_is_not(bench: Bench) -> None:
    """Semantics §13: who, when, why; saved with what was done."""
    request_id = bench.new_id()
    bench.ask(intents.CreateSchedule, schedule=schedule(), trigger_immediately=True)
    for _ in range(2):
        bench.pause("stop")
        bench.trigger(request_id=request_id)
        bench.ask(intents.DescribeSchedule)
    bench.backfill(START_US, START_US, dry_run=True)
    bench.backfill(START_US, START_US)
    bench.delete(reason="old", identity="op")

    assert [(entry.action, entry.reason) for entry in bench.audit] == [
        ("schedule.pause", "stop"),
        ("schedule.trigger", ""),
        ("schedule.pause", "stop"),
        ("schedule.backfill", ""),
        ("schedule.delete", "old"),
    ]
    assert {entry.subject for entry in bench.audit} == {"s"}
    assert bench.audit[-1].identity == "op"
