"""Why a run does not move: every state names what it waits for, since when, and until when."""

from __future__ import annotations

from tests.unit.core.scenario import (
    COMPLETE,
    FAIL,
    IDENTITY,
    NAMESPACE,
    SECOND_US,
    START_US,
    WORKFLOW_ID,
    Scenario,
    accept,
    activity,
    application,
    complete_update,
    failed,
    save_start,
    signal,
    start,
    task_failed,
    timer,
    update,
)

from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.explain import WaitKind, WaitReason, explain, waits_for_a_worker
from perdure_engine.core.limits import WORKFLOW_TASK_STUCK_ATTEMPTS
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind, TimerKind
from perdure_engine.core.versions import Behavior, Versioning


def why(run: Scenario) -> list[WaitReason]:
    return explain(run.state).reasons


def only(run: Scenario) -> WaitReason:
    [reason] = why(run)
    return reason


def with_activity() -> Scenario:
    run = Scenario(start())
    run.turn(
        activity(
            "a",
            task_queue="cards",
            schedule_to_close_timeout_ms=90_000,
            schedule_to_start_timeout_ms=30_000,
            start_to_close_timeout_ms=20_000,
        )
    )
    return run


def test_nobody_has_taken_the_workflow_task() -> None:
    run = Scenario(start())

    reason = only(run)
    assert reason == WaitReason(
        kind=WaitKind.WORKER_FOR_WORKFLOW_TASK, since_us=START_US, task_queue="orders", attempt=1
    )
    assert waits_for_a_worker(reason) is TaskKind.WORKFLOW


def test_a_worker_runs_its_code() -> None:
    run = Scenario(start(task_timeout_ms=7_000))
    run.wait(2)
    run.hand_out()

    reason = only(run)
    began_us = START_US + 2 * SECOND_US
    assert (reason.kind, reason.since_us) == (WaitKind.WORKFLOW_TASK, began_us)
    assert (reason.until_us, reason.worker_identity) == (began_us + 7 * SECOND_US, IDENTITY)
    assert waits_for_a_worker(reason) is None


def test_its_code_has_failed() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))

    reason = only(run)
    assert reason.kind is WaitKind.WORKFLOW_TASK_BACKOFF
    assert reason.until_us == run.task().next_attempt_us > START_US
    assert reason.last_failure is not None


def test_the_start_is_delayed() -> None:
    assert only(Scenario(start(start_delay_ms=60_000))) == WaitReason(
        kind=WaitKind.START_DELAY, since_us=START_US, until_us=START_US + 60 * SECOND_US
    )


def test_nobody_has_taken_the_activity() -> None:
    run = with_activity()

    reason = only(run)
    assert (reason.kind, reason.subject, reason.activity_type) == (
        WaitKind.WORKER_FOR_ACTIVITY,
        "a",
        "charge",
    )
    assert (reason.task_queue, reason.since_us) == ("cards", START_US)
    assert reason.until_us == START_US + 30 * SECOND_US
    assert waits_for_a_worker(reason) is TaskKind.ACTIVITY


def test_an_activity_runs_and_a_restart_of_the_engine_changes_nothing() -> None:
    run = with_activity()
    run.wait(80)
    token = run.hand_out("a")
    reason = only(run)

    assert (reason.kind, reason.since_us) == (WaitKind.ACTIVITY, START_US + 80 * SECOND_US)
    assert reason.until_us == START_US + 90 * SECOND_US, "schedule-to-close comes first"
    assert reason.worker_identity == IDENTITY
    run.when(save_start(token))
    run.reload()
    assert only(run) == reason


def test_an_activity_has_failed() -> None:
    run = with_activity()
    run.when(failed(run.hand_out("a")))

    reason = only(run)
    assert (reason.kind, reason.attempt) == (WaitKind.ACTIVITY_BACKOFF, 2)
    assert (reason.until_us, reason.last_failure) == (START_US + SECOND_US, application())


def test_timers_and_activities_are_all_named() -> None:
    run = Scenario(start())
    run.turn(timer("t", 1), activity("a"), timer("u", 2))

    assert [(one.kind, one.subject) for one in why(run)] == [
        (WaitKind.WORKER_FOR_ACTIVITY, "a"),
        (WaitKind.TIMER, "t"),
        (WaitKind.TIMER, "u"),
    ]
    assert [one.until_us for one in why(run)[1:]] == [
        START_US + SECOND_US,
        START_US + 2 * SECOND_US,
    ]


def test_nothing_of_its_own_is_under_way() -> None:
    run = Scenario(start(run_timeout_ms=60_000, execution_timeout_ms=50_000))
    run.wait(3)
    run.turn()

    assert only(run) == WaitReason(
        kind=WaitKind.EVENT,
        since_us=START_US + 3 * SECOND_US,
        until_us=START_US + 50 * SECOND_US,
    )
    run.when(signal())
    assert only(run).kind is WaitKind.WORKER_FOR_WORKFLOW_TASK


def test_a_closed_run_waits_for_nothing() -> None:
    run = Scenario(start())
    run.wait(5)
    run.turn(COMPLETE)

    assert only(run) == WaitReason(kind=WaitKind.CLOSED, since_us=START_US + 5 * SECOND_US)


def test_an_operator_holds_it_back_and_gave_it_other_options() -> None:
    run = with_activity()
    run.wait(1)
    target = {"namespace_id": NAMESPACE, "workflow_id": WORKFLOW_ID, "run_id": b""}
    run.when(intents.PauseActivity(**target, activity_id="a", activity_type=""))  # type: ignore[arg-type]
    options = {"activity_id": "a", "activity_type": "", "schedule_to_close_timeout_ms": 70_000}
    run.when(intents.UpdateActivityOptions(**target, **options))  # type: ignore[arg-type]

    reason = only(run)
    assert reason.kind is WaitKind.ACTIVITY_PAUSED
    assert reason.since_us == START_US + SECOND_US
    assert reason.until_us == START_US + 70 * SECOND_US


def test_its_outcome_is_to_come_from_outside() -> None:
    run = with_activity()
    run.when(intents.HandOverActivity(run.hand_out("a"), b"", IDENTITY))
    run.reload()

    assert only(run).kind is WaitKind.ACTIVITY


def test_a_run_that_follows_waits_for_its_time_and_says_what_that_is() -> None:
    """A back-off, a schedule and a start delay are three things to whoever looks."""
    retried = Scenario(start(retry_policy=RetryPolicy(2_000, maximum_attempts=3)))
    retried.turn(FAIL)
    assert only(retried.next) == WaitReason(
        kind=WaitKind.RETRY_BACKOFF,
        since_us=START_US,
        until_us=START_US + 2 * SECOND_US,
        attempt=2,
        last_failure=FAIL.failure,
    )
    scheduled = Scenario(start(cron_schedule="hourly"), now_us=START_US + 600 * SECOND_US)
    assert only(scheduled) == WaitReason(
        kind=WaitKind.CRON,
        since_us=START_US + 600 * SECOND_US,
        until_us=START_US + 3_600 * SECOND_US,
        subject="hourly",
    )


def test_an_update_waits_for_a_verdict_and_then_for_its_handler() -> None:
    run = Scenario(start())
    run.turn()
    run.wait(2)
    run.when(update())

    assert [(one.kind, one.subject) for one in why(run)] == [
        (WaitKind.WORKER_FOR_WORKFLOW_TASK, ""),
        (WaitKind.UPDATE_ADMITTED, "u-1"),
    ]
    assert why(run)[1].since_us == START_US + 2 * SECOND_US
    run.turn(accept())
    run.reload()
    assert [(one.kind, one.subject) for one in why(run)] == [(WaitKind.UPDATE_RUNNING, "u-1")]
    run.when(signal())
    run.turn(complete_update())
    assert only(run).kind is WaitKind.EVENT


def test_the_version_that_alone_may_run_it_is_named() -> None:
    pinned = Versioning(Behavior.PINNED, "shop", "7")
    run = Scenario(start(versioning_override=pinned))
    assert only(run).version == "shop.7"
    run.turn(activity("a"))
    assert (only(run).kind, only(run).version) == (WaitKind.WORKER_FOR_ACTIVITY, "shop.7")


def test_code_that_fails_again_and_again_says_how_often() -> None:
    run = Scenario(start())
    for _ in range(WORKFLOW_TASK_STUCK_ATTEMPTS):
        run.when(task_failed(run.hand_out()))
        run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.when(task_failed(run.hand_out()))

    assert describe(run.state).info.stuck
    assert only(run).kind is WaitKind.WORKFLOW_TASK_BACKOFF
    assert only(run).attempt == WORKFLOW_TASK_STUCK_ATTEMPTS + 2
