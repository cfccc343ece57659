"""An attempt of an activity ends (semantics §4): once, for the attempt it was handed out for; then a retry, or not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    IDENTITY,
    NOTHING,
    SECOND_US,
    STALE,
    START_US,
    Scenario,
    Then,
    activity,
    application,
    canceled,
    completed,
    failed,
    put_back,
    signal,
    start,
    timed_out,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskState, TimerKind
from perdure_engine.core.tokens import TaskToken

ENDED = ["6 ActivityTaskStarted", "7 ActivityTaskCompleted", "8 WorkflowTaskScheduled"]
FAILED = ["6 ActivityTaskStarted", "7 ActivityTaskFailed", "8 WorkflowTaskScheduled"]
OVER = ["workflow ready 1", "activity 5 gone"]


def with_activity(**options: Any) -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", **options))
    return run


def retried(run: Scenario, failure: Failure | None = None) -> Then:
    """A worker takes the activity and fails; then its back-off ends."""
    then = run.when(failed(run.hand_out("a"), failure))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    return then


# ---- completed


def test_a_completion_writes_started_and_completed_together() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.wait(2)

    assert run.when(completed(token, b"42")) == Then(events=ENDED, tasks=OVER)
    assert run.last(ev.ActivityTaskStarted) == ev.ActivityTaskStarted(
        6, START_US + 2 * SECOND_US, 5, IDENTITY, 1, None
    )
    assert run.last(ev.ActivityTaskCompleted) == ev.ActivityTaskCompleted(
        7, START_US + 2 * SECOND_US, b"42", 5, 6, IDENTITY
    )
    assert run.state.folded.activities == {}


def test_started_tells_the_attempt_and_the_last_failure() -> None:
    run = with_activity()
    retried(run, application("first"))
    retried(run, application("second"))
    run.when(completed(run.hand_out("a")))

    started = run.last(ev.ActivityTaskStarted)
    assert (started.attempt, started.last_failure) == (3, application("second"))
    assert run.names.count("ActivityTaskStarted") == 1


def test_the_timers_of_the_activity_end_with_it() -> None:
    run = with_activity(schedule_to_start_timeout_ms=5_000, schedule_to_close_timeout_ms=60_000)

    assert run.when(completed(run.hand_out("a"))).timers == [
        "SCHEDULE_TO_START 5 gone",
        "SCHEDULE_TO_CLOSE 5 gone",
    ]


def test_an_outcome_joins_the_workflow_task_that_waits() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    a, b = run.hand_out("a"), run.hand_out("b")
    run.when(completed(a))

    assert run.when(completed(b)) == Then(
        events=["10 ActivityTaskStarted", "11 ActivityTaskCompleted"], tasks=["activity 6 gone"]
    )


def test_an_outcome_is_buffered_while_the_workflow_task_is_out() -> None:
    run = with_activity(schedule_to_close_timeout_ms=60_000)
    token = run.hand_out("a")
    run.when(signal())
    run.hand_out()

    assert run.when(completed(token)) == Then(
        buffered=["ActivityTaskStarted", "ActivityTaskCompleted"],
        tasks=["activity 5 gone"],
        timers=["SCHEDULE_TO_CLOSE 5 gone"],
    )


# ---- failed, and tried again


def test_a_failure_is_retried_after_the_policys_delay_and_writes_no_event() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.wait(3)

    assert run.when(failed(token)) == Then(
        tasks=["activity 5 backoff 2"], timers=["ACTIVITY_RETRY 5 +1s"]
    )
    record = run.task("a")
    assert record.last_failure == application()
    assert (record.worker_id, record.identity, record.started_us) == (b"", "", 0)
    assert record.next_attempt_us == START_US + 4 * SECOND_US

    assert run.fire(TimerKind.ACTIVITY_RETRY, 5) == Then(
        tasks=["activity 5 ready 2", "activity 5 gone"], timers=["ACTIVITY_RETRY 5 gone"]
    )


def test_invariant_31_attempts_grow_by_one_and_delays_follow_the_policy() -> None:
    run = with_activity(retry_policy=RetryPolicy(2_000, 3.0, 30_000))
    rows = [retried(run) for _ in range(5)]

    assert [then.tasks for then in rows] == [[f"activity 5 backoff {n}"] for n in range(2, 7)]
    assert [then.timers for then in rows] == [
        [f"ACTIVITY_RETRY 5 +{seconds}s"] for seconds in (2, 6, 18, 30, 30)
    ]


def test_the_delay_that_the_error_asks_for_wins() -> None:
    run = with_activity()

    then = run.when(failed(run.hand_out("a"), application(next_retry_delay_ms=7_500)))

    assert then.timers == ["ACTIVITY_RETRY 5 +7.5s"]


def test_an_error_may_ask_to_be_retried_at_once() -> None:
    run = with_activity()

    assert run.when(failed(run.hand_out("a"), application(next_retry_delay_ms=0))) == Then(
        tasks=["activity 5 ready 2", "activity 5 gone"]
    )
    assert run.task("a").last_failure == application(next_retry_delay_ms=0)


def test_the_last_saved_progress_goes_to_the_next_attempt() -> None:
    run = with_activity()
    run.when(failed(run.hand_out("a"), progress=b"half"))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    assert (run.task("a").progress, run.task("a").progress_version) == (b"half", 1)

    run.when(failed(run.hand_out("a"), progress=b""))
    assert (run.task("a").progress, run.task("a").progress_version) == (b"half", 1)


# ---- failed for good

NO_MORE = {
    "the error says so": (
        RetryPolicy(),
        application(non_retryable=True),
        RetryState.NON_RETRYABLE_FAILURE,
    ),
    "its type is listed": (
        RetryPolicy(non_retryable_error_types=("KeyError", "ValueError")),
        application(),
        RetryState.NON_RETRYABLE_FAILURE,
    ),
    "it says it was canceled": (
        RetryPolicy(),
        Failure(FailureKind.CANCELED, "canceled"),
        RetryState.NON_RETRYABLE_FAILURE,
    ),
    "no attempt is left": (
        RetryPolicy(maximum_attempts=1),
        application(),
        RetryState.MAXIMUM_ATTEMPTS_REACHED,
    ),
}


@pytest.mark.parametrize("why", NO_MORE)
def test_invariant_31_a_failure_that_is_not_retried_ends_the_activity(why: str) -> None:
    policy, failure, state = NO_MORE[why]
    run = with_activity(retry_policy=policy)

    assert run.when(failed(run.hand_out("a"), failure)) == Then(events=FAILED, tasks=OVER)
    event = run.last(ev.ActivityTaskFailed)
    assert event.retry_state is state
    assert event.failure == Failure(
        FailureKind.ACTIVITY,
        "activity error",
        cause=failure,
        type="charge",
        scheduled_event_id=5,
        identity=IDENTITY,
        activity_id="a",
        retry_state=state,
    )


def test_invariant_31_no_attempt_beyond_the_maximum() -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=3))
    retried(run)
    retried(run)

    then = run.when(failed(run.hand_out("a")))

    assert then.events == FAILED
    assert run.last(ev.ActivityTaskStarted).attempt == 3
    assert run.last(ev.ActivityTaskFailed).retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED


def test_no_attempt_is_started_that_would_pass_schedule_to_close() -> None:
    run = with_activity(schedule_to_close_timeout_ms=4_000)
    assert retried(run).timers == ["ACTIVITY_RETRY 5 +1s"]  # ends at 1 s
    run.wait(1)  # 2 s; the next attempt would begin at 4 s

    then = run.when(failed(run.hand_out("a")))

    assert then.events == FAILED
    assert then.timers == ["SCHEDULE_TO_CLOSE 5 gone"]
    assert run.last(ev.ActivityTaskFailed).retry_state is RetryState.TIMEOUT


def test_a_delay_that_fits_before_schedule_to_close_is_waited_for() -> None:
    run = with_activity(schedule_to_close_timeout_ms=4_000)
    token = run.hand_out("a")
    run.wait(2.999)

    assert run.when(failed(token)).timers == ["ACTIVITY_RETRY 5 +1s"]


def test_the_delay_an_error_asks_for_is_bound_by_schedule_to_close_too() -> None:
    run = with_activity(schedule_to_close_timeout_ms=4_000)

    then = run.when(failed(run.hand_out("a"), application(next_retry_delay_ms=5_000)))

    assert then.events == FAILED


# ---- cancellation


def asked(**options: Any) -> tuple[Scenario, TaskToken]:
    """A running activity whose cancellation was asked for."""
    run = with_activity(**options)
    token = run.hand_out("a")
    run.when(signal())
    run.turn(cmd.RequestCancelActivity(5))
    return run, token


def test_an_activity_that_heeds_its_cancellation_ends_as_canceled() -> None:
    run, token = asked()

    assert run.when(canceled(token, b"cleaned up")) == Then(
        events=["11 ActivityTaskStarted", "12 ActivityTaskCanceled", "13 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "activity 5 gone"],
    )
    assert run.last(ev.ActivityTaskCanceled) == ev.ActivityTaskCanceled(
        12, START_US, b"cleaned up", 10, 5, 11, IDENTITY
    )


def test_an_activity_that_finishes_all_the_same_ends_as_completed() -> None:
    run, token = asked()

    assert run.when(completed(token)).events[1] == "12 ActivityTaskCompleted"


def test_invariant_32_an_activity_that_fails_after_it_was_asked_is_not_retried() -> None:
    run, token = asked()

    assert run.when(failed(token)).events[1] == "12 ActivityTaskFailed"
    assert run.last(ev.ActivityTaskFailed).retry_state is RetryState.CANCEL_REQUESTED


def test_invariant_32_an_activity_that_times_out_after_it_was_asked_is_not_retried() -> None:
    run, token = asked()

    assert run.when(timed_out(token)).events[1] == "12 ActivityTaskTimedOut"
    assert run.last(ev.ActivityTaskTimedOut).retry_state is RetryState.CANCEL_REQUESTED


def test_invariant_32_an_activity_whose_worker_is_lost_after_it_was_asked_is_canceled() -> None:
    run, token = asked()

    assert run.when(put_back(token)).events[:2] == [
        "11 ActivityTaskStarted",
        "12 ActivityTaskCanceled",
    ]


def test_an_activity_that_nobody_asked_cannot_end_as_canceled() -> None:
    run = with_activity()

    assert run.when(canceled(run.hand_out("a"))) == Then(
        refused="FAILED_PRECONDITION CANCEL_NOT_REQUESTED"
    )


# ---- duplicates and stale tokens (invariant 30): NOT_FOUND, and nothing changes

REPORTS: dict[str, Any] = {
    "completed": completed,
    "failed": failed,
    "failed with progress": lambda token: failed(token, progress=b"late"),
    "canceled": canceled,
    "progress": lambda token: intents.SaveProgress(token, b"late"),
}
QUIET: dict[str, Any] = {"put back": put_back, "timed out": timed_out}
reports = pytest.mark.parametrize("report", REPORTS)


@reports
@pytest.mark.parametrize("outcome", ["completed", "failed for good", "canceled", "timed out"])
def test_invariant_30_a_report_after_the_end_is_not_found(outcome: str, report: str) -> None:
    run, token = asked()
    ends: dict[str, Any] = {
        "completed": completed,
        "failed for good": failed,
        "canceled": canceled,
        "timed out": timed_out,
    }
    run.when(ends[outcome](token))

    assert run.when(REPORTS[report](token)) == STALE
    for late in QUIET.values():
        assert run.when(late(token)) == NOTHING
    run.reload()
    assert run.when(REPORTS[report](token)) == STALE


@reports
@pytest.mark.parametrize("stage", ["backing off", "ready again", "handed out again"])
def test_invariant_30_a_report_on_an_earlier_attempt_is_not_found(stage: str, report: str) -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(failed(token))
    if stage != "backing off":
        run.fire(TimerKind.ACTIVITY_RETRY, 5)
    if stage == "handed out again":
        run.hand_out("a")

    assert run.when(REPORTS[report](token)) == STALE


@reports
def test_invariant_30_a_report_on_an_earlier_hand_out_is_not_found(report: str) -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(put_back(token))
    run.hand_out("a")

    assert run.when(REPORTS[report](token)) == STALE
    for late in QUIET.values():
        assert run.when(late(token)) == NOTHING


@reports
def test_invariant_30_a_report_while_the_outcome_waits_in_the_inbox_is_not_found(
    report: str,
) -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(signal())
    run.hand_out()
    run.when(completed(token))

    assert run.when(REPORTS[report](token)) == STALE
    run.reload()
    assert run.when(REPORTS[report](token)) == STALE


def test_invariant_30_two_outcomes_in_one_batch_are_one() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.decide(completed(token))

    assert run.decide(failed(token)) == (None, STALE.refused)
    assert run.commit().events == ENDED


@pytest.mark.parametrize("first", ["failed", "timed out"])
@pytest.mark.parametrize("second", QUIET)
@pytest.mark.parametrize("batches", ["one batch", "two batches"])
def test_invariant_24_an_attempt_that_has_ended_does_not_end_again(
    first: str, second: str, batches: str
) -> None:
    """The lease book may have asked for the time-out, or the put-back, of an attempt whose failure came in first.

    It must neither count a second attempt nor cut the back-off short (invariant 31), nor leave a timer row behind.
    """
    run = with_activity(schedule_to_close_timeout_ms=60_000)
    token = run.hand_out("a")
    run.decide(failed(token) if first == "failed" else timed_out(token))
    if batches == "two batches":
        run.commit()
    run.decide(QUIET[second](token))
    run.commit()

    record = run.task("a")
    assert (record.attempt, record.state) == (2, TaskState.BACKOFF)
    assert record.next_attempt_us == START_US + SECOND_US
    assert [(row.kind.name, row.due_us - START_US) for row in run.state.timer_rows.values()] == [
        ("SCHEDULE_TO_CLOSE", 60 * SECOND_US),
        ("ACTIVITY_RETRY", SECOND_US),
    ]


@pytest.mark.parametrize("late", QUIET)
def test_invariant_24_an_attempt_that_has_ended_does_not_touch_the_next_one(late: str) -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(failed(token))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)

    assert run.when(QUIET[late](token)) == NOTHING


def test_a_heartbeat_time_out_names_what_was_last_heard() -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=1))
    token = run.hand_out("a")
    run.when(intents.SaveProgress(token, b"half"))
    run.when(timed_out(token, TimeoutType.HEARTBEAT))

    failure = run.last(ev.ActivityTaskTimedOut).failure
    assert failure.cause is not None
    assert (failure.cause.timeout_type, failure.cause.details) == (TimeoutType.HEARTBEAT, b"half")
