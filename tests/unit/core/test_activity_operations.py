"""Pause, unpause, reset, other options: of pending activities, saved in their rows (semantics §4)."""

from __future__ import annotations

from typing import Any

from tests.unit.core.scenario import (
    NAMESPACE,
    NOTHING,
    STALE,
    WORKFLOW_ID,
    Scenario,
    Then,
    activity,
    application,
    completed,
    failed,
    put_back,
    request_id,
    start,
)

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.ids import queue_number
from perdure_engine.core.replies import PendingActivity
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind, TaskState, TimerKind

PENDING = {"namespace_id": NAMESPACE, "workflow_id": WORKFLOW_ID, "run_id": b""}


def pause(activity_id: str = "a", activity_type: str = "") -> intents.PauseActivity:
    return intents.PauseActivity(
        **PENDING,  # type: ignore[arg-type]  # a dict of both
        activity_id=activity_id,
        activity_type=activity_type,
        identity="op@host",
        reason="provider is down",
    )


def unpause(**options: Any) -> intents.UnpauseActivity:
    return intents.UnpauseActivity(**PENDING, activity_id="a", activity_type="", **options)


def reset(number: int = 160, **options: Any) -> intents.ResetActivity:
    fields = {**PENDING, "activity_id": "a", "activity_type": "", "request_id": request_id(number)}
    return intents.ResetActivity(**(fields | options))


def update(**options: Any) -> intents.UpdateActivityOptions:
    return intents.UpdateActivityOptions(**PENDING, activity_id="a", activity_type="", **options)


def given(**options: Any) -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", **options))
    return run


def shown(run: Scenario) -> PendingActivity:
    return describe(run.state).activities[0]


# ---- pause


def test_a_paused_activity_is_no_ready_row_and_goes_on_when_unpaused() -> None:
    run = given()
    assert run.when(pause()) == Then(tasks=["activity 5 paused 1"])
    run.reload()

    assert (shown(run).state, shown(run).pause_reason) == ("PAUSED", "provider is down")
    assert run.when(pause()) == NOTHING
    assert run.when(unpause()).tasks == ["activity 5 ready 1", "activity 5 gone"]
    assert run.when(unpause()) == NOTHING
    assert run.when(completed(run.hand_out("a"))).refused == ""


def test_the_outcome_of_an_attempt_that_runs_counts() -> None:
    run = given()
    token = run.hand_out("a")
    assert run.when(pause()) == Then(tasks=["activity 5 started 1"])
    assert shown(run).state == "PAUSE_REQUESTED"
    run.reload()

    assert run.when(completed(token)).events[1] == "7 ActivityTaskCompleted"


def test_after_a_failure_no_other_attempt_begins() -> None:
    run = given()
    token = run.hand_out("a")
    run.when(pause())
    assert run.when(failed(token)).tasks == ["activity 5 backoff 2"]

    assert run.fire(TimerKind.ACTIVITY_RETRY, 5).tasks == ["activity 5 paused 2", "activity 5 gone"]
    assert run.when(unpause()).tasks[0] == "activity 5 ready 2"


def test_an_attempt_whose_worker_died_waits_as_paused() -> None:
    """Invariant 16: put back, and not handed out."""
    run = given()
    token = run.hand_out("a")
    run.when(pause())

    assert run.when(put_back(token)).tasks == ["activity 5 paused 1", "activity 5 gone"]


def test_an_attempt_that_stopped_because_of_the_pause_is_not_counted() -> None:
    run = given(retry_policy=RetryPolicy(maximum_attempts=2))
    token = run.hand_out("a")
    run.when(pause())
    stopped = failed(token, application(type="ActivityPause"), b"half")
    assert run.when(stopped).tasks == ["activity 5 paused 1", "activity 5 gone"]
    assert run.task("a").progress == b"half"

    run.when(unpause(reset_heartbeat=True))
    assert run.task("a").progress == b""
    assert run.when(completed(run.hand_out("a"))).refused == ""


def test_that_type_of_failure_is_one_like_others_when_nothing_is_paused() -> None:
    run = given(retry_policy=RetryPolicy(maximum_attempts=1))
    token = run.hand_out("a")

    assert run.when(failed(token, application(type="ActivityPause"))).events[1] == (
        "7 ActivityTaskFailed"
    )


def test_schedule_to_start_does_not_run_while_nobody_may_start_it() -> None:
    run = given(schedule_to_start_timeout_ms=3_000)
    run.when(pause())
    assert run.fire(TimerKind.SCHEDULE_TO_START, 5) == Then(timers=["SCHEDULE_TO_START 5 gone"])
    run.wait(60)

    assert run.when(unpause()).timers == ["SCHEDULE_TO_START 5 +3s"]
    assert run.fire(TimerKind.SCHEDULE_TO_START, 5).events[0] == "6 ActivityTaskTimedOut"


def test_schedule_to_close_ends_a_paused_activity() -> None:
    run = given(schedule_to_close_timeout_ms=5_000)
    run.when(pause())

    assert run.fire(TimerKind.SCHEDULE_TO_CLOSE, 5).events[0] == "6 ActivityTaskTimedOut"


def test_by_type_all_of_it_are_meant() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b", activity_type="ship"), activity("c"))
    assert run.when(pause("", "charge")).tasks == ["activity 5 paused 1", "activity 7 paused 1"]

    assert run.when(pause("", "mail")).refused == "NOT_FOUND ACTIVITY_NOT_FOUND"
    assert run.when(pause("z")).refused == "NOT_FOUND ACTIVITY_NOT_FOUND"


# ---- reset


def test_reset_makes_the_next_attempt_the_first_one_at_once() -> None:
    run = given(retry_policy=RetryPolicy(maximum_attempts=3))
    run.when(failed(run.hand_out("a")))

    then = run.when(reset())
    assert then.tasks == ["activity 5 ready 1", "activity 5 gone"]
    assert then.timers == ["ACTIVITY_RETRY 5 gone"]
    run.when(completed(run.hand_out("a")))
    assert run.last(ev.ActivityTaskStarted).attempt == 1


def test_inv30_no_token_of_the_first_attempt_is_taken_for_the_new_first_one() -> None:
    """Invariant 30: the numbers of both are 1, their start numbers are not."""
    run = given()
    old = run.hand_out("a")
    run.when(failed(old))
    run.when(reset())

    assert run.when(completed(old)) == STALE
    run.reload()
    assert run.when(failed(old)) == STALE


def test_a_reset_asked_twice_is_one() -> None:
    run = given()
    run.when(failed(run.hand_out("a")))
    run.when(reset())
    run.when(failed(run.hand_out("a")))

    assert run.when(reset()) == NOTHING
    assert run.task("a").attempt == 2


def test_the_attempt_that_runs_goes_on_and_what_follows_is_the_first() -> None:
    run = given(retry_policy=RetryPolicy(maximum_attempts=2))
    run.when(failed(run.hand_out("a")))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    second = run.hand_out("a")
    run.when(reset())

    assert run.when(failed(second)).tasks == ["activity 5 backoff 1", "activity 5 gone"]
    assert run.task("a").state is TaskState.BACKOFF
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    assert run.when(completed(second)) == STALE
    assert run.when(failed(run.hand_out("a"))).tasks == ["activity 5 backoff 2"]


def test_reset_unpauses_unless_told_otherwise() -> None:
    run = given()
    run.when(pause())
    assert run.when(reset(1, keep_paused=True)).tasks[0] == "activity 5 paused 1"
    assert run.when(reset(2)).tasks[0] == "activity 5 ready 1"


def test_schedule_to_start_runs_anew_when_a_reset_takes_the_pause_back() -> None:
    run = given(schedule_to_start_timeout_ms=3_000)
    run.when(pause())
    run.fire(TimerKind.SCHEDULE_TO_START, 5)

    assert run.when(reset()).timers == ["SCHEDULE_TO_START 5 +3s"]
    assert run.fire(TimerKind.SCHEDULE_TO_START, 5).events[0] == "6 ActivityTaskTimedOut"


def test_schedule_to_start_runs_anew_as_it_is_by_now() -> None:
    run = given(schedule_to_start_timeout_ms=3_000)
    run.when(pause())
    run.fire(TimerKind.SCHEDULE_TO_START, 5)
    run.when(update(schedule_to_start_timeout_ms=9_000))
    run.fire(TimerKind.SCHEDULE_TO_START, 5)

    assert run.when(unpause()).timers == ["SCHEDULE_TO_START 5 +9s"]


# ---- options


def test_other_options_are_saved_and_go_with_the_next_attempt() -> None:
    run = given()
    policy = RetryPolicy(5_000, 1.0, maximum_attempts=2)
    run.when(update(task_queue="elsewhere", retry_policy=policy, start_to_close_timeout_ms=60_000))
    run.reload()

    record = run.task("a")
    assert record.queue == "elsewhere"
    assert record.queue_no == queue_number(NAMESPACE, TaskKind.ACTIVITY, "elsewhere")
    options = shown(run).options
    assert options is not None
    assert (options.start_to_close_timeout_ms, shown(run).maximum_attempts) == (60_000, 2)
    assert run.when(failed(run.hand_out("a"))).timers == ["ACTIVITY_RETRY 5 +5s"]
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    assert run.when(failed(run.hand_out("a"))).events[1] == "7 ActivityTaskFailed"


def test_the_original_options_come_back() -> None:
    run = given()
    run.when(update(task_queue="elsewhere"))
    run.when(update(restore_original=True))

    assert run.task("a").aside is None
    assert run.task("a").queue == "orders"
    assert run.task("a").queue_no == queue_number(NAMESPACE, TaskKind.ACTIVITY, "orders")


def test_the_original_options_come_back_for_an_attempt_that_is_made_later() -> None:
    """The row that waits was made with the others: the next one must not go by it."""
    for when in ("it waits for its retry", "it runs", "it is reset"):
        run = given(schedule_to_close_timeout_ms=50_000)
        run.when(update(task_queue="elsewhere", priority=1, schedule_to_close_timeout_ms=90_000))
        token = run.hand_out("a")
        if when != "it runs":
            run.when(failed(token))
        if when == "it is reset":
            then = run.when(reset(restore_original_options=True))
        else:
            then = run.when(update(restore_original=True))
        assert "SCHEDULE_TO_CLOSE 5 +50s" in then.timers
        if when == "it runs":
            run.when(failed(token))
        if when != "it is reset":
            run.fire(TimerKind.ACTIVITY_RETRY, 5)

        record = run.task("a")
        assert (record.state, record.queue, record.priority) == (TaskState.READY, "orders", 3), when
        assert record.queue_no == queue_number(NAMESPACE, TaskKind.ACTIVITY, "orders")


def test_the_original_priority_comes_back() -> None:
    run = given()
    run.when(update(priority=1))
    assert run.task("a").priority == 1
    run.when(update(restore_original=True))

    assert run.task("a").priority == 3


def test_another_schedule_to_close_moves_its_timer() -> None:
    run = given(schedule_to_close_timeout_ms=5_000)
    then = run.when(update(schedule_to_close_timeout_ms=9_000))

    assert then.timers == ["SCHEDULE_TO_CLOSE 5 +9s", "SCHEDULE_TO_CLOSE 5 gone"]


def test_an_activity_without_any_timeout_is_refused_and_nothing_changes() -> None:
    run = given()

    refused = run.when(update(start_to_close_timeout_ms=0, task_queue="elsewhere"))
    assert refused == Then(refused="FAILED_PRECONDITION NO_TIMEOUT_LEFT")
    assert run.task("a").queue == "orders"
