"""A schedule's slots: what each starts, or why not (semantics §11, invariants 51-56)."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.core.schedule_bench import (
    BACKFILL,
    HOUR,
    JOB,
    MANUAL,
    MINUTE,
    SECOND,
    SPEC,
    START_US,
    WORKFLOW,
    Bench,
    schedule,
)

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import slot_run_id
from perdure_engine.core.intents import CancelWorkflow, StartWorkflow, TerminateWorkflow
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.decide import fire_slot
from perdure_engine.core.schedules.errands import ErrandKind, said_by
from perdure_engine.core.schedules.model import (
    BACKFILL_MOST,
    CatchUpPolicy,
    IntervalSpec,
    OverlapPolicy,
    ScheduleSpec,
    SlotOutcome,
)
from perdure_engine.core.schedules.overlap import WAITING_MAX
from perdure_engine.core.schedules.planning import SETTLED_MAX
from perdure_engine.core.status import Status

FIRED, SKIPPED, MISSED = SlotOutcome.FIRED, SlotOutcome.SKIPPED, SlotOutcome.MISSED
PAUSED, FIRING, FAILED = SlotOutcome.PAUSED, SlotOutcome.FIRING, SlotOutcome.FAILED
BUFFERED, BACKFILLED = SlotOutcome.BUFFERED, SlotOutcome.BACKFILLED
EVERY_HOUR = ScheduleSpec(cron=("@hourly",))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refused(bench: Bench, kind: object, **fields: object) -> Rejected:
    with pytest.raises(Rejected) as caught:
        bench.ask(kind, **fields)
    return caught.value


# ---- a job's schedule


def test_the_next_run_of_a_job_is_there_before_its_time(bench: Bench) -> None:
    """A7: given a schedule, when it is created, then its next run is pending, and held until its slot."""
    saved = bench.create()

    (run,) = bench.jobs.values()
    assert saved.next_us == run.scheduled_us == START_US + MINUTE
    assert (run.status, run.held, run.schedule_id, run.task_id) == (JobStatus.PENDING, True, "s", 0)
    assert run.spec == msgspec.structs.replace(JOB.spec, nominal_us=START_US + MINUTE)


def test_a_slot_makes_its_run_ready_and_the_next_one_in_one_step(bench: Bench) -> None:
    """Bug report 54: claim and action are one."""
    bench.create()
    bench.pass_time(MINUTE)

    first = bench.job_of(START_US + MINUTE)
    assert bench.outcomes() == [FIRED]
    assert first.task_id, "ready"
    assert bench.jobs[bench.state.job_id].scheduled_us == START_US + 2 * MINUTE
    assert bench.state.next_us == START_US + 2 * MINUTE
    assert len(bench.timers) == 1


def test_what_is_not_saved_has_not_happened(bench: Bench) -> None:
    """Invariant 51: a crash before the commit, then the same slot again."""
    bench.create()
    bench.now_us += MINUTE
    bench.fire(crash=True)
    assert bench.slots == {}

    bench.fire()
    assert bench.outcomes() == [FIRED]
    assert sorted(bench.statuses()) == [JobStatus.PENDING, JobStatus.PENDING]
    assert len(bench.jobs) == 2


def test_a_timer_that_fires_twice_acts_once(bench: Bench) -> None:
    """Invariant 22, 51."""
    bench.create()
    wake = bench.state.wake
    assert wake is not None
    bench.pass_time(MINUTE)

    again = bench.step(lambda draft: fire_slot.decide(draft, wake[0], wake[1]))
    assert again == 0
    assert bench.outcomes() == [FIRED]


def test_the_next_slot_follows_from_the_nominal_time_not_from_now(bench: Bench) -> None:
    """Invariant 53, bug report 9: late by 1.7 s (bug report 52: and it still runs)."""
    bench.create(spec=ScheduleSpec(cron=("*/2 * * * *",)))
    bench.pass_time(2 * MINUTE - SECOND)
    bench.now_us += 2_700_000
    bench.fire()

    assert bench.outcomes() == [FIRED]
    assert bench.state.next_us == START_US + 4 * MINUTE


def test_a_job_is_not_started_while_the_one_before_is_open(bench: Bench) -> None:
    bench.create()
    bench.pass_time(2 * MINUTE)
    assert bench.outcomes() == [FIRED, SKIPPED]
    skipped = bench.job_of(START_US + 2 * MINUTE)
    assert (skipped.status, skipped.reason) == (
        JobStatus.SKIPPED,
        "the action of an earlier slot is still open",
    )

    bench.end_open_jobs()
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED, SKIPPED, FIRED]


def test_one_that_was_ended_before_its_time_is_skipped(bench: Bench) -> None:
    bench.create()
    bench.end_job(bench.state.job_id, JobStatus.CANCELLED)
    bench.pass_time(2 * MINUTE)

    assert bench.outcomes() == [SKIPPED, FIRED]
    assert bench.details()[0] == "its run was ended before its time"


def test_five_triggers_within_a_second_are_five(bench: Bench) -> None:
    """Bug report 10."""
    bench.create()
    slots = []
    for _ in range(5):
        slots.append(bench.trigger(OverlapPolicy.ALLOW_ALL))
        bench.now_us += 20_000 if len(slots) % 2 else 0

    assert len({slot.nominal_us for slot in slots}) == len({slot.job_id for slot in slots}) == 5
    assert bench.outcomes(MANUAL) == [FIRED] * 5
    assert all(slot.manual for slot in slots)


def test_a_call_that_is_repeated_has_the_same_answer(bench: Bench) -> None:
    bench.create()
    request_id = bench.new_id()
    first = bench.trigger(request_id=request_id)
    for _ in range(5):
        bench.trigger(OverlapPolicy.ALLOW_ALL)

    assert bench.trigger(request_id=request_id) == first
    assert len(bench.outcomes(MANUAL)) == 6


# ---- a workflow's schedule


def test_a_workflow_slot_is_firing_until_its_start_is_answered(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    nominal_us = START_US + MINUTE
    assert bench.outcomes() == [FIRING]
    (errand,) = bench.errands()
    start = said_by(bench.record, errand)
    assert isinstance(start, StartWorkflow)
    assert start.workflow_id == "nightly-2027-01-15T08:01:00Z"
    assert start.run_id == slot_run_id(bench.record.uid, nominal_us, SPEC)
    assert start.request_id

    bench.crash()
    assert said_by(bench.record, errand) == start, "the next owner says the same"
    bench.started()
    assert bench.outcomes() == [FIRED]
    assert bench.errands() == []
    bench.hear(errand, refused="late, and of no use")
    assert bench.outcomes() == [FIRED]


def test_a_start_that_is_refused_for_good_is_recorded(bench: Bench) -> None:
    """Bug report 7: somebody else has the workflow id."""
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.started(refused="workflow 'nightly-…' is running")

    assert bench.outcomes() == [FAILED]
    assert bench.state.actions == ()
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FAILED, FIRING]


def test_a_run_is_asked_before_a_slot_is_skipped_for_it(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.started()
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED], "nothing is known yet"
    assert [errand.kind for errand in bench.errands()] == [ErrandKind.ASK]

    bench.asked(Status.RUNNING)
    assert bench.outcomes() == [FIRED, SKIPPED]
    bench.pass_time(MINUTE)
    bench.asked(Status.COMPLETED)
    assert bench.outcomes() == [FIRED, SKIPPED, FIRING]


def test_an_answer_of_before_a_slot_says_nothing_of_it(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.started()
    bench.pass_time(MINUTE)
    (errand,) = bench.errands()

    bench.hear(errand, status=Status.RUNNING, asked_us=bench.now_us - 1)
    assert bench.outcomes() == [FIRED]
    assert bench.errands() == [errand], "it is asked again"
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED, SKIPPED], "one waits already, and this one came behind it"
    bench.hear(errand, status=None)
    assert bench.outcomes() == [FIRED, FIRING, SKIPPED]


def test_a_slot_that_came_while_a_start_is_on_its_way_waits_for_that(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(2 * MINUTE)
    assert bench.outcomes() == [FIRING]
    assert [errand.kind for errand in bench.errands()] == [ErrandKind.START]

    bench.started(refused="no")
    assert bench.outcomes() == [FAILED, FIRING]


# ---- overlap


def test_buffer_one(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.BUFFER_ONE)
    bench.pass_time(3 * MINUTE)
    assert bench.outcomes() == [FIRED, BUFFERED, SKIPPED]
    assert bench.job_of(START_US + 3 * MINUTE).status is JobStatus.SKIPPED

    bench.end_open_jobs()
    assert bench.outcomes() == [FIRED, FIRED, SKIPPED], "in the step that ends the one before"
    assert bench.job_of(START_US + 2 * MINUTE).task_id
    assert bench.state.waiting == ()


def test_buffer_all_in_order_and_no_more_than_so_many(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.BUFFER_ALL)
    bench.pass_time((WAITING_MAX + 3) * MINUTE)
    assert bench.outcomes().count(BUFFERED) == WAITING_MAX
    assert bench.outcomes()[-2:] == [SKIPPED, SKIPPED]

    for number in range(1, 4):
        (action,) = bench.state.actions
        assert action.nominal_us == START_US + number * MINUTE
        bench.end_job(action.target)


def test_cancel_other_asks_a_running_job_and_waits_for_its_end(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.CANCEL_OTHER)
    bench.pass_time(MINUTE)
    running = bench.memory.jobs[bench.job_of(START_US + MINUTE).job_id]
    running.status = JobStatus.IN_PROGRESS
    bench.pass_time(MINUTE)
    assert running.cancel_us
    assert bench.outcomes() == [FIRED, BUFFERED]
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED, SKIPPED, BUFFERED], "the latest takes the place"

    bench.end_job(running.job_id, JobStatus.CANCELLED)
    assert bench.outcomes() == [FIRED, SKIPPED, FIRED]


def test_cancel_other_ends_a_job_that_has_not_started(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.CANCEL_OTHER)
    bench.pass_time(2 * MINUTE)

    assert bench.outcomes() == [FIRED, FIRED]
    assert bench.job_of(START_US + MINUTE).status is JobStatus.CANCELLED
    assert [action.nominal_us for action in bench.state.actions] == [START_US + 2 * MINUTE]


def test_terminate_other_does_not_wait_for_a_job(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.TERMINATE_OTHER)
    bench.pass_time(MINUTE)
    bench.memory.jobs[bench.job_of(START_US + MINUTE).job_id].status = JobStatus.IN_PROGRESS
    bench.pass_time(MINUTE)

    assert bench.outcomes() == [FIRED, FIRED]


@pytest.mark.parametrize(
    ("overlap", "kind"),
    [
        (OverlapPolicy.CANCEL_OTHER, CancelWorkflow),
        (OverlapPolicy.TERMINATE_OTHER, TerminateWorkflow),
    ],
)
def test_another_workflow_is_told_to_stop(bench: Bench, overlap: OverlapPolicy, kind: type) -> None:
    bench.create(WORKFLOW, overlap=overlap)
    bench.pass_time(MINUTE)
    bench.started()
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED, BUFFERED]
    (errand,) = bench.errands(ErrandKind.STOP)
    stop = said_by(bench.record, errand)
    assert isinstance(stop, CancelWorkflow | TerminateWorkflow)
    assert type(stop) is kind
    assert stop.first_run_id == slot_run_id(bench.record.uid, START_US + MINUTE, SPEC)
    bench.crash()
    assert said_by(bench.record, errand) == stop

    bench.hear(errand)
    if overlap is OverlapPolicy.CANCEL_OTHER:
        assert bench.outcomes() == [FIRED, BUFFERED]
        bench.asked(Status.RUNNING)
        assert bench.outcomes() == [FIRED, BUFFERED]
        bench.asked(Status.CANCELED)
    assert bench.outcomes() == [FIRED, FIRING]


def test_no_more_than_so_many_actions_are_known(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.backfill(START_US - 5 * HOUR, START_US, overlap=OverlapPolicy.ALLOW_ALL)
    assert len(bench.state.actions) == 301, "starts on their way are all known"
    bench.started()
    assert len(bench.state.actions) == 100

    assert bench.outcomes(BACKFILL) == [BACKFILLED] * 301


def test_allow_all(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(150 * MINUTE)

    assert bench.outcomes() == [FIRED] * 150
    assert len(bench.state.actions) == 100, "the latest are known"
    assert len(bench.describe().open) == 100


# ---- catching up


def down(bench: Bench, minutes: int) -> None:
    """Nothing runs for so long; then the schedule's timer fires until it is up to date."""
    bench.now_us += minutes * MINUTE
    while bench.state.wake is not None and bench.state.wake[0] <= bench.now_us:
        bench.fire()


def test_catching_up_with_all(bench: Bench) -> None:
    """Invariant 54, bug report 35."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    down(bench, 90)

    assert bench.outcomes() == [FIRED] * 90


def test_catching_up_with_the_last(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up=CatchUpPolicy.LAST)
    bench.now_us += 30 * SECOND
    down(bench, 5)

    assert bench.outcomes() == [MISSED] * 4 + [FIRED]
    assert bench.job_of(START_US + MINUTE).status is JobStatus.SKIPPED


def test_catching_up_with_none(bench: Bench) -> None:
    """Bug report 52: each is recorded, and what is late by less than a few seconds runs."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up=CatchUpPolicy.NONE)
    bench.now_us += 9 * SECOND
    down(bench, 5)

    assert bench.outcomes() == [MISSED] * 4 + [FIRED]


def test_what_is_older_than_the_window_is_missed(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up_window_ms=150_000)
    down(bench, 5)

    assert bench.outcomes() == [MISSED] * 2 + [FIRED] * 3
    assert bench.details()[0] == "later than the catch-up window"


def test_no_more_than_so_many_are_caught_up_with(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up_most=3)
    bench.now_us += 20 * SECOND
    down(bench, 5)
    assert bench.outcomes() == [FIRED] * 3 + [MISSED] * 2

    bench.pass_time(MINUTE)
    down(bench, 5)
    assert bench.outcomes()[5:] == [FIRED] * 4 + [MISSED] * 2, "counted anew after one on time"


def test_a_year_of_missed_minutes_is_worked_off_in_portions(bench: Bench) -> None:
    """Each step takes a share; the rest is a timer that is due."""
    bench.create(catch_up=CatchUpPolicy.NONE)
    bench.now_us += 365 * 24 * HOUR
    steps = 0
    while steps < 5:
        assert bench.fire() == fire_slot.SLOTS_AT_ONCE
        steps += 1
        assert bench.state.wake is not None
        assert bench.state.wake[0] <= bench.now_us
        assert bench.timers.keys() == {bench.state.wake[:2]}

    assert bench.outcomes() == [MISSED] * steps * fire_slot.SLOTS_AT_ONCE
    assert len(bench.jobs) == steps + 1, "a run is made for the next one of each step only"


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


# ---- creating


def test_a_schedule_is_created_once(bench: Bench) -> None:
    request_id = bench.new_id()
    first = bench.ask(intents.CreateSchedule, schedule=schedule(), request_id=request_id)
    bench.pass_time(10 * SECOND)

    assert bench.ask(intents.CreateSchedule, schedule=schedule(), request_id=request_id) == first
    assert refused(bench, intents.CreateSchedule, schedule=schedule()).code is Code.ALREADY_EXISTS


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


# ---- backfill


def test_a_backfill_acts_for_slots_that_have_not_acted(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(2 * MINUTE)
    bench.pause()
    bench.pass_time(2 * MINUTE)
    bench.unpause()
    span = (START_US - MINUTE, START_US + 4 * MINUTE)
    wanted = [START_US + n * MINUTE for n in (-1, 0, 3, 4)]

    dry = bench.backfill(*span, dry_run=True)
    assert (dry.nominal_us, dry.fired_before_us) == (
        wanted,
        [START_US + MINUTE, START_US + 2 * MINUTE],
    )
    assert BACKFILLED not in bench.outcomes()

    request_id = bench.new_id()
    done = bench.backfill(*span, request_id=request_id)
    assert done == dry
    assert bench.outcomes() == [FIRED, FIRED, BACKFILLED, BACKFILLED]
    assert bench.outcomes(BACKFILL) == [BACKFILLED, BACKFILLED]
    assert bench.backfill(*span, request_id=request_id) == done, "a repeat"
    again = bench.backfill(*span)
    assert (again.nominal_us, len(again.fired_before_us)) == ([], 6)
    assert sum(len(begun) for begun in bench.actions.values()) == 6


def test_a_backfill_leaves_what_is_still_to_come_to_the_schedule(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.now_us += 2 * MINUTE  # due, and not worked off yet
    done = bench.backfill(START_US, START_US + HOUR)
    assert done.nominal_us == [START_US]

    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED] * 3


def test_a_backfill_of_too_many_slots_is_refused(bench: Bench) -> None:
    """B31."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    span = {"overlap": None, "dry_run": False, "to_us": START_US}
    ten_years = 10 * 365 * 24 * HOUR
    refusal = refused(bench, intents.BackfillSchedule, from_us=START_US - ten_years, **span)
    assert (refusal.code, refusal.field) == (Code.INVALID_ARGUMENT, "to_us")
    backwards = refused(bench, intents.BackfillSchedule, from_us=START_US + 1, **span)
    assert (backwards.code, backwards.field) == (Code.INVALID_ARGUMENT, "from_us")
    assert bench.outcomes(BACKFILL) == []

    most = bench.backfill(START_US - (BACKFILL_MOST - 1) * MINUTE, START_US)
    assert len(most.nominal_us) == BACKFILL_MOST


def test_a_backfill_one_after_the_other(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.backfill(START_US - 2 * MINUTE, START_US, overlap=OverlapPolicy.BUFFER_ALL)
    assert bench.outcomes(BACKFILL) == [FIRING, BUFFERED, BUFFERED]

    bench.started()
    assert bench.outcomes(BACKFILL) == [BACKFILLED, BUFFERED, BUFFERED]
    bench.asked(Status.COMPLETED)
    assert bench.outcomes(BACKFILL) == [BACKFILLED, FIRING, BUFFERED]


def test_what_a_step_has_done_already_is_not_done_again(bench: Bench) -> None:
    """Bug report 34: two calls, and the slot itself, decided together."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.now_us += MINUTE
    span = (START_US - MINUTE, START_US + MINUTE)
    with bench.one_step():
        bench.fire()
        first, second = bench.backfill(*span), bench.backfill(*span)

    assert (len(first.nominal_us), second.nominal_us) == (2, [])
    assert bench.outcomes() == [FIRED]
    assert bench.outcomes(BACKFILL) == [BACKFILLED, BACKFILLED]
    assert len(bench.jobs) == 4


def test_a_slot_that_is_settled_and_waits_again_in_one_step_has_one_row(bench: Bench) -> None:
    """Paused, and backfilled before that is saved: it waits for an answer, and its row is there by then."""
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.started()
    bench.pass_time(MINUTE)
    at_us = START_US + 2 * MINUTE
    with bench.one_step():
        bench.pause()
        bench.backfill(at_us, at_us, overlap=OverlapPolicy.SKIP)
    assert bench.outcomes() == [FIRED, PAUSED]

    bench.trigger(OverlapPolicy.TERMINATE_OTHER)

    assert bench.outcomes() == [FIRED, SKIPPED]


def test_a_slot_that_was_paused_in_the_step_that_backfills_it(bench: Bench) -> None:
    """It waits for an answer, and its row is by then one that was written before."""
    bench.create(WORKFLOW)
    bench.trigger()
    bench.started()
    bench.now_us += MINUTE
    with bench.one_step():
        bench.pause()
        bench.fire()
        bench.backfill(START_US + MINUTE, START_US + MINUTE)
    assert bench.outcomes() == [PAUSED]

    bench.asked(Status.COMPLETED)
    bench.started()
    assert bench.outcomes() == [BACKFILLED]


def test_a_failed_slot_can_be_backfilled(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.started(refused="no")
    bench.backfill(START_US + MINUTE, START_US + MINUTE)
    bench.started()

    assert bench.outcomes() == [BACKFILLED]


# ---- mending


def test_a_schedule_without_a_timer_gets_one(bench: Bench) -> None:
    """Bug report 1: its row was lost; the slots in the hole act or are missed."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.lose_timer()
    bench.now_us += 3 * MINUTE
    bench.mend()
    bench.fire()

    assert bench.outcomes() == [FIRED] * 3
    assert len(bench.timers) == 1


def test_a_timer_that_only_memory_has_lost_is_replaced(bench: Bench) -> None:
    bench.create()
    bench.mend()

    assert len(bench.timers) == 1
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED]


def test_newer_rules_of_a_zone_move_the_slots_to_come(bench: Bench) -> None:
    """Not those that were: and an older node does not undo it."""
    bench.create(spec=EVERY_HOUR, overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(HOUR)
    older = msgspec.structs.replace(bench.record.schedule.spec, tzdata_version="1999a")
    bench.record.schedule = msgspec.structs.replace(bench.record.schedule, spec=older)
    bench.record.state.next_us += 15 * MINUTE  # as those rules had it
    token = bench.record.conflict_token
    bench.mend()

    assert bench.state.next_us == START_US + 2 * HOUR
    assert bench.record.schedule.spec.tzdata_version > "2025"
    assert bench.record.conflict_token == token
    bench.pass_time(HOUR)
    assert bench.outcomes() == [FIRED, FIRED]

    newer = msgspec.structs.replace(bench.record.schedule.spec, tzdata_version="2999z")
    bench.record.schedule = msgspec.structs.replace(bench.record.schedule, spec=newer)
    bench.record.state.next_us += 15 * MINUTE
    bench.mend()
    assert bench.state.next_us == START_US + 3 * HOUR + 15 * MINUTE
    assert bench.record.schedule.spec.tzdata_version == "2999z"
