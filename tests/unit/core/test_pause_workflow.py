"""Pause and unpause of a run: its tasks wait, and what happens to it is recorded."""

from __future__ import annotations

from tests.unit.core.scenario import (
    CLOSED,
    NOTHING,
    SECOND_US,
    STALE,
    START_US,
    Scenario,
    Then,
    activity,
    cancel,
    completed,
    done,
    failed,
    pause,
    put_back,
    request_id,
    save_start,
    signal,
    start,
    task_failed,
    terminate,
    timer,
    unpause,
)

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.explain import WaitKind, WaitReason, explain
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind

ADDRESS = {
    "namespace_id": pause().namespace_id,
    "workflow_id": pause().workflow_id,
    "run_id": b"",
    "activity_id": "a",
    "activity_type": "",
}


def test_the_tasks_that_are_ready_wait_and_are_ready_again() -> None:
    run = Scenario(start())

    assert run.when(pause()) == Then(
        events=["3 WorkflowExecutionPaused"], tasks=["workflow paused 1"]
    )
    assert run.state.folded.status is Status.PAUSED
    assert run.state.open
    assert run.when(unpause()) == Then(
        events=["4 WorkflowExecutionUnpaused"], tasks=["workflow ready 1", "workflow gone"]
    )
    assert run.state.folded.status is Status.RUNNING
    run.turn(timer("t"))
    assert run.when(pause(301)) == Then(events=["8 WorkflowExecutionPaused"])
    assert run.when(unpause(331)) == Then(events=["9 WorkflowExecutionUnpaused"])


def test_a_workflow_task_that_is_out_is_taken_back_and_what_waited_is_numbered() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    assert run.when(pause()) == Then(
        events=["3 WorkflowExecutionSignaled", "4 WorkflowExecutionPaused"],
        tasks=["workflow paused 1", "workflow gone"],
    )
    assert run.when(done(token)) == STALE
    assert run.when(task_failed(token)) == STALE
    assert run.when(put_back(token)) == NOTHING
    assert run.when(save_start(token)) == NOTHING
    run.when(unpause())
    assert run.when(done(token)) == STALE
    run.turn()


def test_what_comes_in_is_recorded_and_waits() -> None:
    run = Scenario(start(run_timeout_ms=60_000))
    run.turn(timer("t", 5))
    run.when(pause())

    assert run.when(signal()) == Then(
        events=["7 WorkflowExecutionSignaled", "8 WorkflowTaskScheduled"],
        tasks=["workflow paused 1"],
    )
    assert run.fire(TimerKind.USER, 5) == Then(events=["9 TimerFired"], timers=["USER 5 gone"])
    assert run.when(cancel(240)) == Then(events=["10 WorkflowExecutionCancelRequested"])
    run.reload()
    assert run.when(signal()) == NOTHING, "said before"
    then = run.when(unpause())
    assert then.tasks == ["workflow ready 1", "workflow gone"]
    run.turn()


def test_an_attempt_that_runs_goes_on_and_its_retry_waits() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    token = run.hand_out("a")
    run.when(save_start(token))
    other = run.hand_out("b")

    then = run.when(pause())
    assert then.tasks == ["activity 6 started 1"], "saved, so that no other owner hands it out"
    assert run.when(failed(token)).tasks == ["activity 5 backoff 2"]
    run.wait(1)
    assert run.fire(TimerKind.ACTIVITY_RETRY, 5).tasks == ["activity 5 paused 2", "activity 5 gone"]
    assert run.when(completed(other)).tasks == ["workflow paused 1", "activity 6 gone"]
    then = run.when(unpause())
    assert sorted(then.tasks) == [
        "activity 5 gone",
        "activity 5 ready 2",
        "workflow gone",
        "workflow ready 1",
    ]


def test_an_activity_that_is_paused_itself_stays_so() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.when(intents.PauseActivity(**ADDRESS))  # type: ignore[arg-type]  # a dict of both
    run.when(pause())
    assert run.when(unpause()).tasks == []
    run.when(pause(301))
    assert run.when(intents.UnpauseActivity(**ADDRESS)).tasks == [  # type: ignore[arg-type]
        "activity 5 paused 1",
        "activity 5 gone",
    ]
    assert run.when(unpause(331)).tasks == ["activity 5 ready 1", "activity 5 gone"]


def test_schedule_to_start_does_not_run_while_nobody_may_start_it() -> None:
    run = Scenario(start())
    run.turn(activity("a", schedule_to_start_timeout_ms=2_000))
    run.when(pause())
    assert run.fire(TimerKind.SCHEDULE_TO_START, 5) == Then(timers=["SCHEDULE_TO_START 5 gone"])
    assert run.when(unpause()).timers == ["SCHEDULE_TO_START 5 +2s"]
    assert run.fire(TimerKind.SCHEDULE_TO_START, 5).events[1] == "9 WorkflowTaskScheduled"


def test_invariant_32_the_end_of_a_run_wins_over_its_pause() -> None:
    """No retry, no task after the terminal decision (bug case 38)."""
    run = Scenario(start())
    run.when(pause())
    assert run.when(terminate()).events == ["4 WorkflowExecutionTerminated"]
    assert run.state.folded.paused is None
    assert run.when(unpause()) == CLOSED
    assert run.when(pause(301)) == CLOSED

    late = Scenario(start(run_timeout_ms=5_000, retry_policy=RetryPolicy(1_000)))
    late.when(pause())
    assert late.fire(TimerKind.RUN_TIMEOUT).events == ["4 WorkflowExecutionTimedOut"]
    assert late.next.state.folded.status is Status.RUNNING, "the next attempt is not paused"


def test_a_pause_is_said_once_and_another_one_refused() -> None:
    run = Scenario(start())
    run.when(pause())
    assert run.when(pause()) == NOTHING
    assert run.when(pause(301)).refused == "FAILED_PRECONDITION WORKFLOW_PAUSED"
    assert run.when(pause(body_hash=b"other")).refused == "INVALID_ARGUMENT REQUEST_ID_REUSED"
    run.when(unpause())
    assert run.when(unpause()) == NOTHING
    assert run.when(unpause(331)).refused == "FAILED_PRECONDITION WORKFLOW_NOT_PAUSED"
    assert run.last(ev.WorkflowExecutionUnpaused).reason == "it is back"
    assert run.state.folded.request_ids.keys() == {request_id(200), request_id(230)}


def test_describe_and_why_say_who_paused_it_since_when_and_why() -> None:
    run = Scenario(start(execution_timeout_ms=60_000))
    run.turn(activity("a"), timer("t", 30))
    run.wait(5)
    run.when(pause())
    run.when(signal())
    said = describe(run.state)
    assert said.info.status is Status.PAUSED
    assert said.pause_us == START_US + 5 * SECOND_US
    assert (said.pause_identity, said.pause_reason) == ("me", "provider is down")
    first, *others = explain(run.state).reasons
    assert first == WaitReason(
        kind=WaitKind.PAUSED,
        since_us=START_US + 5 * SECOND_US,
        until_us=START_US + 60 * SECOND_US,
        subject="provider is down",
        worker_identity="me",
    )
    assert [one.kind for one in others] == [WaitKind.TIMER], "the pause is said once"
