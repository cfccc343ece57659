"""A started attempt passed its time (semantics §4): start-to-close and heartbeat end the attempt, not the activity."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    IDENTITY,
    NOTHING,
    START_US,
    Scenario,
    Then,
    activity,
    application,
    completed,
    failed,
    put_back,
    signal,
    start,
    timed_out,
)

from perdure_engine.core import events as ev
from perdure_engine.core.failures import (
    Failure,
    FailureKind,
    RetryState,
    TimeoutType,
    timeout_failure,
)
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TimerKind

ENDED_ATTEMPT = (TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT)
each_kind = pytest.mark.parametrize("kind", ENDED_ATTEMPT, ids=lambda k: k.name)


def with_activity(**options: Any) -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", **options))
    return run


@each_kind
def test_an_attempt_that_timed_out_is_retried_by_the_policy(kind: TimeoutType) -> None:
    run = with_activity()

    assert run.when(timed_out(run.hand_out("a"), kind)) == Then(
        tasks=["activity 5 backoff 2"], timers=["ACTIVITY_RETRY 5 +1s"]
    )
    assert run.task("a").last_failure == timeout_failure(kind)


@each_kind
def test_the_last_attempt_that_times_out_ends_the_activity(kind: TimeoutType) -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=1))

    assert run.when(timed_out(run.hand_out("a"), kind)) == Then(
        events=["6 ActivityTaskStarted", "7 ActivityTaskTimedOut", "8 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "activity 5 gone"],
    )
    assert run.last(ev.ActivityTaskTimedOut) == ev.ActivityTaskTimedOut(
        7,
        START_US,
        Failure(
            FailureKind.ACTIVITY,
            "activity error",
            cause=timeout_failure(kind),
            type="charge",
            scheduled_event_id=5,
            identity=IDENTITY,
            activity_id="a",
            retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
        ),
        5,
        6,
        RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )


def test_a_time_out_whose_retry_would_pass_schedule_to_close_ends_the_activity() -> None:
    run = with_activity(schedule_to_close_timeout_ms=10_500)
    token = run.hand_out("a")
    run.wait(10)

    then = run.when(timed_out(token))

    assert then.events[1] == "7 ActivityTaskTimedOut"
    assert run.last(ev.ActivityTaskTimedOut).retry_state is RetryState.TIMEOUT


def test_an_error_type_that_is_not_retried_has_no_say_in_time_outs() -> None:
    run = with_activity(retry_policy=RetryPolicy(non_retryable_error_types=("TimeoutError",)))

    assert run.when(timed_out(run.hand_out("a"))).tasks == ["activity 5 backoff 2"]


def test_the_failure_before_is_kept_in_started() -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=2))
    run.when(failed(run.hand_out("a"), application("first")))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    run.when(timed_out(run.hand_out("a")))

    started = run.last(ev.ActivityTaskStarted)
    assert (started.attempt, started.last_failure) == (2, application("first"))


def test_a_time_out_is_buffered_while_the_workflow_task_is_out() -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=1))
    token = run.hand_out("a")
    run.when(signal())
    run.hand_out()

    assert run.when(timed_out(token)) == Then(
        buffered=["ActivityTaskStarted", "ActivityTaskTimedOut"], tasks=["activity 5 gone"]
    )


def test_invariant_24_a_time_out_is_for_the_start_it_was_armed_for() -> None:
    run = with_activity()
    first = run.hand_out("a")
    run.when(put_back(first))
    assert run.when(timed_out(first)) == NOTHING
    second = run.hand_out("a")

    assert run.when(timed_out(first)) == NOTHING
    assert run.when(timed_out(second)).tasks == ["activity 5 backoff 2"]
    assert run.when(timed_out(second)) == NOTHING


def test_a_time_out_after_the_outcome_changes_nothing() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(completed(token))

    assert run.when(timed_out(token)) == NOTHING
