"""A schedule's slots: what each starts, or why not (semantics §11, invariants 51-53)."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.core.schedule_bench import (
    BACKFILL,
    BACKFILLED,
    BUFFERED,
    FAILED,
    FIRED,
    FIRING,
    HOUR,
    JOB,
    MANUAL,
    MINUTE,
    SECOND,
    SKIPPED,
    SPEC,
    START_US,
    WORKFLOW,
    Bench,
)

from perdure_engine.core.ids import slot_run_id
from perdure_engine.core.intents import CancelWorkflow, StartWorkflow, TerminateWorkflow
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.decide import fire_slot
from perdure_engine.core.schedules.errands import ErrandKind, said_by
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    ScheduleSpec,
)
from perdure_engine.core.schedules.overlap import WAITING_MAX
from perdure_engine.core.status import Status

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
