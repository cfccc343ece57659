"""Async completion: the attempt belongs to nobody's lease, and to its timeouts (design §6, semantics §4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    IDENTITY,
    NAMESPACE,
    NOTHING,
    SECOND_US,
    STALE,
    WORKFLOW_ID,
    Scenario,
    Then,
    activity,
    application,
    canceled,
    completed,
    failed,
    put_back,
    request_id,
    save_start,
    signal,
    start,
    timed_out,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.replies import ActivityHeard
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskState, TimerKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.leases import may_adopt
from perdure_engine.history.loading import _reattach

ENDS = ["6 ActivityTaskStarted", "7 ActivityTaskCompleted", "8 WorkflowTaskScheduled"]
HEARD = ActivityHeard(cancel_requested=False, paused=False, reset=False)


def handed_over(token: TaskToken, progress: bytes = b"") -> intents.HandOverActivity:
    return intents.HandOverActivity(token, progress, IDENTITY)


def beat(token: TaskToken, details: bytes | None = None) -> intents.HeartbeatActivity:
    return intents.HeartbeatActivity(token, details)


def report(
    what: intents.ActivityReport, activity_id: str = "a", number: int = 150
) -> intents.ReportActivity:
    return intents.ReportActivity(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        activity_id=activity_id,
        request_id=request_id(number),
        report=what,
        identity="from outside",
    )


def given(**options: Any) -> tuple[Scenario, TaskToken]:
    """An activity that a worker has; its start-to-close is 10 s."""
    run = Scenario(start())
    run.turn(activity("a", **options))
    token = run.hand_out("a")
    deadline_us = token.started_us + 10 * SECOND_US
    return run, TaskToken(*[getattr(token, f) for f in token.__struct_fields__[:8]], deadline_us)


def test_the_hand_over_is_a_state_of_the_row_with_a_timer() -> None:
    run, token = given()

    assert run.when(handed_over(token, b"half")) == Then(
        tasks=["activity 5 async 1"], timers=["ASYNC_TIMEOUT 5 +10s"]
    )
    assert run.task("a").progress == b"half"
    assert run.task("a").handout is None
    assert run.when(handed_over(token)) == NOTHING  # said again


def test_inv16_no_lease_puts_it_back_and_no_worker_adopts_it() -> None:
    """Invariants 16, 30: of an attempt that was handed over there is no lease; what the lease book still asks for
    (the end of the worker's lease, its goodbye, its silence) changes nothing, before and after a take-over."""
    run, token = given()
    run.when(save_start(token))
    run.when(handed_over(token))
    for _ in range(2):
        assert run.when(put_back(token, worker_dead=True)) == NOTHING
        assert run.when(put_back(token, worker_dead=False)) == NOTHING
        assert run.when(timed_out(token)) == NOTHING
        assert not may_adopt(run.state, run.task("a"), token)
        run.reload()

    assert run.task("a").state is TaskState.ASYNC
    assert run.when(completed(token)).events == ENDS


def test_inv16_a_hand_out_that_memory_kept_aside_is_not_attached_to_it_again() -> None:
    """Invariant 16: the run was evicted while the hand-over was on its way to the database, and it landed."""
    run, token = given()
    handout = run.task("a").handout
    assert handout is not None
    run.when(handed_over(token))
    run.reload()

    _reattach(run.state, {5: (1, handout)})
    assert run.task("a").handout is None


def test_inv30_it_ends_once() -> None:
    """Invariant 30."""
    run, token = given()
    run.when(handed_over(token))
    run.reload()

    then = run.when(completed(token))
    assert then.events == ENDS
    assert then.timers == ["ASYNC_TIMEOUT 5 gone"]
    for late in (completed(token), failed(token), canceled(token), beat(token), handed_over(token)):
        assert run.when(late) == STALE


def test_a_worker_that_was_given_up_hands_over_what_nobody_else_has() -> None:
    run, token = given()
    run.when(put_back(token))

    assert run.when(handed_over(token)).tasks == ["activity 5 async 1"]
    assert run.when(completed(token)).refused == ""


def test_a_hand_over_of_an_attempt_that_somebody_else_has_changes_nothing() -> None:
    """Invariant 30."""
    run, token = given()
    run.when(put_back(token))
    run.hand_out("a")

    assert run.when(handed_over(token)) == STALE


def test_start_to_close_ends_the_attempt_and_the_next_one_begins() -> None:
    run, token = given()
    run.when(handed_over(token))

    assert run.fire(TimerKind.ASYNC_TIMEOUT, 5).tasks == ["activity 5 backoff 2"]
    assert run.when(completed(token)) == STALE
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    assert run.when(completed(run.hand_out("a"))).events == ENDS


def test_start_to_close_of_the_last_attempt_ends_the_activity() -> None:
    run, token = given(retry_policy=RetryPolicy(maximum_attempts=1))
    run.when(handed_over(token))

    assert run.fire(TimerKind.ASYNC_TIMEOUT, 5).events[1] == "7 ActivityTaskTimedOut"
    cause = run.last(ev.ActivityTaskTimedOut).failure.cause
    assert cause is not None
    assert cause.timeout_type is TimeoutType.START_TO_CLOSE


def test_heartbeats_keep_it_alive_and_silence_ends_the_attempt() -> None:
    """Invariant 34: a progressing attempt is never timed out; a silent one once."""
    run, token = given(heartbeat_timeout_ms=3_000, retry_policy=RetryPolicy(maximum_attempts=1))
    run.when(handed_over(token))
    run.wait(2)
    assert run.when(beat(token, b"half")).reply == HEARD
    run.reload()

    again = run.fire(TimerKind.ASYNC_TIMEOUT, 5)
    assert again == Then(timers=["ASYNC_TIMEOUT 5 +2s", "ASYNC_TIMEOUT 5 gone"])
    run.fire(TimerKind.ASYNC_TIMEOUT, 5)
    cause = run.last(ev.ActivityTaskTimedOut).failure.cause
    assert cause is not None
    assert (cause.timeout_type, cause.details) == (TimeoutType.HEARTBEAT, b"half")


def test_cancellation_is_heard_in_the_heartbeat_and_may_be_reported() -> None:
    run, token = given()
    run.when(handed_over(token))
    assert run.when(canceled(token)).refused == "FAILED_PRECONDITION CANCEL_NOT_REQUESTED"
    run.when(signal())
    run.turn(cmd.RequestCancelActivity(5))
    assert run.task("a").state is TaskState.ASYNC

    heard = run.when(beat(token)).reply
    assert heard == ActivityHeard(cancel_requested=True, paused=False, reset=False)
    assert "ActivityTaskCanceled" in run.when(canceled(token)).events[1]


# ---- by ids


def test_by_ids_a_running_attempt_ends() -> None:
    run, token = given()
    run.when(handed_over(token))

    assert run.when(report(intents.ActivityCompleted(b"yes"))).events == ENDS
    assert run.last(ev.ActivityTaskCompleted).identity == "from outside"
    assert run.when(report(intents.ActivityCompleted(b"yes"))).refused == (
        "NOT_FOUND ACTIVITY_NOT_FOUND"
    )


def test_by_ids_a_result_is_taken_of_what_waits_too() -> None:
    run, token = given()
    run.when(failed(token))

    assert run.when(report(intents.ActivityCompleted(b"by hand"))).events == ENDS


@pytest.mark.parametrize(
    "what",
    [
        intents.ActivityFailed(application(), b""),
        intents.ActivityCanceled(b""),
        intents.ActivityLives(None),
    ],
)
def test_by_ids_all_else_is_of_a_running_attempt(what: intents.ActivityReport) -> None:
    run, token = given()
    run.when(failed(token))

    assert run.when(report(what)).refused == "NOT_FOUND ACTIVITY_NOT_FOUND"
    assert run.when(report(what, "b")).refused == "NOT_FOUND ACTIVITY_NOT_FOUND"


def test_by_ids_a_failure_said_twice_fails_one_attempt() -> None:
    """Invariant 31: the repeat comes when the next attempt is running already."""
    run, token = given()
    run.when(handed_over(token))
    failure = report(intents.ActivityFailed(application(), b"third"))
    run.when(failure)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    second = run.hand_out("a")
    assert run.task("a").progress == b"third"

    assert run.when(failure) == NOTHING
    assert run.when(completed(second)).events == ENDS
