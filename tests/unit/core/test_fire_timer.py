"""Timer rows that are due (semantics §5): each kind does its one thing, once; a stale row does nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    NOTHING,
    SECOND_US,
    START_US,
    Scenario,
    Then,
    activity,
    application,
    cancel,
    completed,
    done,
    failed,
    put_back,
    save_start,
    signal,
    start,
    task_failed,
    timer,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.failures import FailureKind, RetryState, TimeoutType
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind, TimerRecord


def row(run: Scenario, kind: TimerKind, reference: int = 0) -> TimerRecord:
    return run.state.timer_rows[kind, reference]


def fire(run: Scenario, of: TimerRecord, **changes: Any) -> Then:
    """Fire that row, whether it is still there or not."""
    fields = {"kind": of.kind, "reference": of.reference, "timer_id": of.timer_id} | changes
    return run.when(intents.FireTimer(run_id=run.state.run_id, wake_us=of.wake_us, **fields))


# ---- user timers


def test_a_user_timer_fires_and_wakes_the_workflow() -> None:
    run = Scenario(start())
    run.turn(timer("t", 60))

    assert run.fire(TimerKind.USER, 5) == Then(
        events=["6 TimerFired", "7 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
        timers=["USER 5 gone"],
    )
    assert run.last(ev.TimerFired) == ev.TimerFired(6, START_US + 60 * SECOND_US, "t", 5)
    assert run.state.folded.timers == {}


def test_a_user_timer_that_fires_while_the_workflow_task_is_out_is_buffered() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    run.when(signal())
    token = run.hand_out()

    assert run.fire(TimerKind.USER, 5) == Then(buffered=["TimerFired"], timers=["USER 5 gone"])
    assert run.when(done(token)).events[2:] == ["10 TimerFired", "11 WorkflowTaskScheduled"]


def test_invariant_22_a_user_timer_fires_once() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    fired = row(run, TimerKind.USER, 5)
    run.fire(TimerKind.USER, 5)

    assert fire(run, fired) == NOTHING
    run.reload()
    assert fire(run, fired) == NOTHING


def test_invariant_22_a_user_timer_that_fired_in_the_inbox_fires_once() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    fired = row(run, TimerKind.USER, 5)
    run.when(signal())
    run.hand_out()
    run.fire(TimerKind.USER, 5)

    assert fire(run, fired) == NOTHING
    run.reload()
    assert fire(run, fired) == NOTHING


def test_invariant_22_a_canceled_timer_does_not_fire() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    late = row(run, TimerKind.USER, 5)
    run.when(signal())
    run.turn(cmd.CancelTimer("t"))

    assert fire(run, late) == NOTHING


def test_invariant_22_a_timer_fired_and_canceled_in_one_batch_has_one_outcome() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    late = row(run, TimerKind.USER, 5)
    run.when(signal())
    token = run.hand_out()
    for intent in (
        done(token, cmd.CancelTimer("t")),
        intents.FireTimer(run.state.run_id, late.kind, 5, late.wake_us, late.timer_id),
    ):
        run.decide(intent)

    assert run.commit().events[2:] == ["10 TimerCanceled"]


def test_two_timers_of_one_instant_both_fire() -> None:
    run = Scenario(start())
    run.turn(timer("t"), timer("u"))

    assert run.fire(TimerKind.USER, 5).events == ["7 TimerFired", "8 WorkflowTaskScheduled"]
    assert run.fire(TimerKind.USER, 6).events == ["9 TimerFired"]


# ---- the run's own


@pytest.mark.parametrize(
    ("kind", "option", "why"),
    [
        (TimerKind.RUN_TIMEOUT, "run_timeout_ms", RetryState.RETRY_POLICY_NOT_SET),
        (TimerKind.EXECUTION_TIMEOUT, "execution_timeout_ms", RetryState.TIMEOUT),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_run_that_passes_its_timeout_ends(kind: TimerKind, option: str, why: RetryState) -> None:
    run = Scenario(start(**{option: 30_000}))
    run.turn(activity("a"), timer("t"))
    run.hand_out("a")

    assert run.fire(kind) == Then(
        events=["7 WorkflowExecutionTimedOut"],
        tasks=["activity 5 gone"],
        timers=[f"{kind.name} 0 gone", "USER 6 gone"],
    )
    assert run.state.folded.status is Status.TIMED_OUT
    assert run.last(ev.WorkflowExecutionTimedOut) == ev.WorkflowExecutionTimedOut(
        7, START_US + 30 * SECOND_US, why
    )


def test_invariant_24_a_run_times_out_once() -> None:
    run = Scenario(start(run_timeout_ms=30_000, execution_timeout_ms=30_000))
    execution = row(run, TimerKind.EXECUTION_TIMEOUT)
    once = row(run, TimerKind.RUN_TIMEOUT)
    run.fire(TimerKind.RUN_TIMEOUT)

    assert fire(run, execution) == NOTHING
    assert fire(run, once) == NOTHING


def test_a_timeout_needs_no_worker() -> None:
    run = Scenario(start(run_timeout_ms=30_000))
    run.hand_out()
    run.when(cancel())

    assert run.fire(TimerKind.RUN_TIMEOUT).events == [
        "3 WorkflowExecutionCancelRequested",
        "4 WorkflowExecutionTimedOut",
    ]


def test_a_delay_that_is_over_counts_once() -> None:
    run = Scenario(start(start_delay_ms=5_000))
    delay = row(run, TimerKind.START_DELAY)
    run.fire(TimerKind.START_DELAY)

    assert fire(run, delay) == NOTHING


# ---- the end of a back-off


def test_the_end_of_the_workflow_tasks_back_off() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    old = run.task().task_id
    backoff = row(run, TimerKind.WORKFLOW_TASK_BACKOFF)

    assert run.fire(TimerKind.WORKFLOW_TASK_BACKOFF) == Then(
        tasks=["workflow ready 2", "workflow gone"], timers=["WORKFLOW_TASK_BACKOFF 0 gone"]
    )
    assert run.task().task_id > old
    assert run.task().ready_us == START_US + SECOND_US
    assert fire(run, backoff) == NOTHING


def test_the_end_of_an_activitys_back_off() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.when(failed(run.hand_out("a")))
    backoff = row(run, TimerKind.ACTIVITY_RETRY, 5)

    assert run.fire(TimerKind.ACTIVITY_RETRY, 5) == Then(
        tasks=["activity 5 ready 2", "activity 5 gone"], timers=["ACTIVITY_RETRY 5 gone"]
    )
    assert (run.task("a").ready_us, run.task("a").next_attempt_us) == (START_US + SECOND_US, 0)
    assert fire(run, backoff) == NOTHING


# ---- an activity's timeouts


def with_activity(**options: Any) -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", **options))
    return run


def test_an_activity_that_nobody_takes_times_out() -> None:
    run = with_activity(schedule_to_start_timeout_ms=5_000, schedule_to_close_timeout_ms=60_000)

    assert run.fire(TimerKind.SCHEDULE_TO_START, 5) == Then(
        events=["6 ActivityTaskTimedOut", "7 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "activity 5 gone"],
        timers=["SCHEDULE_TO_START 5 gone", "SCHEDULE_TO_CLOSE 5 gone"],
    )
    event = run.last(ev.ActivityTaskTimedOut)
    assert (event.started_event_id, event.retry_state) == (0, RetryState.TIMEOUT)
    assert event.failure.kind is FailureKind.ACTIVITY
    assert event.failure.cause is not None
    assert event.failure.cause.timeout_type is TimeoutType.SCHEDULE_TO_START


@pytest.mark.parametrize("saved", [False, True], ids=["start unsaved", "start saved"])
def test_schedule_to_start_has_done_its_duty_once_a_worker_has_it(saved: bool) -> None:
    run = with_activity(schedule_to_start_timeout_ms=5_000)
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))
        run.reload()

    assert run.fire(TimerKind.SCHEDULE_TO_START, 5) == Then(timers=["SCHEDULE_TO_START 5 gone"])
    assert run.when(completed(token)).events[1] == "7 ActivityTaskCompleted"


@pytest.mark.parametrize("stage", ["backing off", "ready again"])
def test_schedule_to_start_is_over_for_later_attempts(stage: str) -> None:
    run = with_activity(schedule_to_start_timeout_ms=5_000)
    run.when(failed(run.hand_out("a")))
    if stage == "ready again":
        run.fire(TimerKind.ACTIVITY_RETRY, 5)

    assert run.fire(TimerKind.SCHEDULE_TO_START, 5) == Then(timers=["SCHEDULE_TO_START 5 gone"])


@pytest.mark.parametrize("saved", [False, True], ids=["start unsaved", "start saved"])
def test_schedule_to_close_ends_a_running_activity(saved: bool) -> None:
    run = with_activity(schedule_to_close_timeout_ms=60_000)
    token = run.hand_out("a")
    run.when(intents.SaveProgress(token, b"half"))
    if saved:
        run.when(save_start(token))
        run.reload()

    assert run.fire(TimerKind.SCHEDULE_TO_CLOSE, 5) == Then(
        events=["6 ActivityTaskStarted", "7 ActivityTaskTimedOut", "8 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "activity 5 gone"],
        timers=["SCHEDULE_TO_CLOSE 5 gone"],
    )
    event = run.last(ev.ActivityTaskTimedOut)
    assert (event.started_event_id, event.retry_state) == (6, RetryState.TIMEOUT)
    assert event.failure.cause is not None
    assert event.failure.cause.timeout_type is TimeoutType.SCHEDULE_TO_CLOSE
    assert event.failure.cause.details == b"half"


def test_schedule_to_close_ends_an_activity_that_waits() -> None:
    run = with_activity(schedule_to_close_timeout_ms=60_000)

    assert run.fire(TimerKind.SCHEDULE_TO_CLOSE, 5).events == [
        "6 ActivityTaskTimedOut",
        "7 WorkflowTaskScheduled",
    ]


def test_schedule_to_close_ends_an_activity_that_backs_off_and_names_its_last_failure() -> None:
    run = with_activity(schedule_to_close_timeout_ms=1_500)
    run.when(failed(run.hand_out("a")))
    assert row(run, TimerKind.ACTIVITY_RETRY, 5).due_us == START_US + SECOND_US

    then = run.fire(TimerKind.SCHEDULE_TO_CLOSE, 5)

    assert then.events[0] == "6 ActivityTaskTimedOut"
    assert then.timers == ["SCHEDULE_TO_CLOSE 5 gone", "ACTIVITY_RETRY 5 gone"]
    cause = run.last(ev.ActivityTaskTimedOut).failure.cause
    assert cause is not None
    assert cause.cause == application()


def test_schedule_to_close_ends_an_activity_that_was_asked_to_cancel() -> None:
    run = with_activity(schedule_to_close_timeout_ms=60_000)
    run.hand_out("a")
    run.when(signal())
    run.turn(cmd.RequestCancelActivity(5))

    assert run.fire(TimerKind.SCHEDULE_TO_CLOSE, 5).events[:2] == [
        "11 ActivityTaskStarted",
        "12 ActivityTaskTimedOut",
    ]


def test_an_activity_whose_worker_was_lost_still_has_its_schedule_to_close() -> None:
    run = with_activity(schedule_to_close_timeout_ms=60_000)
    run.when(put_back(run.hand_out("a")))

    assert run.fire(TimerKind.SCHEDULE_TO_CLOSE, 5).events[0] == "6 ActivityTaskTimedOut"


def test_invariant_24_the_timeouts_of_an_activity_that_is_over_do_not_fire() -> None:
    run = with_activity(schedule_to_start_timeout_ms=5_000, schedule_to_close_timeout_ms=60_000)
    rows = list(run.state.timer_rows.values())
    run.when(completed(run.hand_out("a")))

    assert [fire(run, late) for late in rows] == [NOTHING, NOTHING]


def test_a_timeout_of_an_activity_is_buffered_while_the_workflow_task_is_out() -> None:
    run = with_activity(schedule_to_start_timeout_ms=5_000)
    run.when(signal())
    run.hand_out()

    assert run.fire(TimerKind.SCHEDULE_TO_START, 5).buffered == ["ActivityTaskTimedOut"]


# ---- stale rows


@pytest.mark.parametrize("kind", TimerKind, ids=lambda k: k.name)
def test_a_row_that_the_run_does_not_know_changes_nothing(kind: TimerKind) -> None:
    run = with_activity()

    assert fire(run, TimerRecord(kind, 99, START_US, 77, START_US)) == NOTHING


def test_a_row_with_another_number_changes_nothing() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    known = row(run, TimerKind.USER, 5)

    assert fire(run, known, timer_id=known.timer_id + 1) == NOTHING
    assert fire(run, known).events[0] == "6 TimerFired"


def test_a_timer_of_a_closed_run_changes_nothing() -> None:
    run = Scenario(start(run_timeout_ms=30_000))
    late = row(run, TimerKind.RUN_TIMEOUT)
    run.turn(COMPLETE)

    assert fire(run, late) == NOTHING
