"""After a take-over a valid token adopts its task; only the newest start of it is valid (design §6)."""

from __future__ import annotations

import pytest
from tests.unit.core.scenario import (
    STALE,
    Scenario,
    activity,
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

from perdure_engine.core import intents
from perdure_engine.core.tasks import TaskState, TimerKind

saved = pytest.mark.parametrize("saved", [False, True], ids=["start unsaved", "start saved"])


@saved
def test_a_workflow_task_is_completed_by_the_worker_that_had_it(saved: bool) -> None:
    run = Scenario(start())
    token = run.hand_out()
    if saved:
        run.when(save_start(token))
    run.reload()

    assert run.when(done(token, timer("t"))).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskCompleted",
        "5 TimerStarted",
    ]


@saved
def test_an_activity_is_completed_by_the_worker_that_had_it(saved: bool) -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))
    run.reload()

    assert run.when(completed(token)).events == [
        "6 ActivityTaskStarted",
        "7 ActivityTaskCompleted",
        "8 WorkflowTaskScheduled",
    ]


@saved
def test_an_activity_that_failed_is_retried_with_its_attempt_counted(saved: bool) -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))
    run.reload()

    assert run.when(failed(token)).tasks == ["activity 5 backoff 2"]


def test_what_was_buffered_before_the_take_over_follows_the_completion() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal(1))
    run.reload()
    run.when(cancel())

    assert run.when(done(token)).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskCompleted",
        "5 WorkflowExecutionSignaled",
        "6 WorkflowExecutionCancelRequested",
        "7 WorkflowTaskScheduled",
    ]


def test_a_workflow_task_is_not_adopted_once_the_history_has_gone_on() -> None:
    """An unsaved start with nothing buffered leaves no trace: an event is numbered, and the old token is stale."""
    run = Scenario(start())
    token = run.hand_out()
    run.reload()
    assert run.when(signal()).events == ["3 WorkflowExecutionSignaled"]

    assert run.when(done(token)) == STALE
    assert run.turn().events == ["4 WorkflowTaskStarted", "5 WorkflowTaskCompleted"]


def test_a_transient_workflow_task_is_adopted() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()
    run.reload()

    assert run.when(done(token)).events == [
        "5 WorkflowTaskScheduled",
        "6 WorkflowTaskStarted",
        "7 WorkflowTaskCompleted",
    ]


def test_a_token_older_than_the_saved_start_is_stale() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    old = run.hand_out("a")
    run.when(put_back(old))
    new = run.hand_out("a")
    run.when(save_start(new))
    run.reload()

    assert run.when(completed(old)) == STALE
    assert run.when(completed(new)).events[:2] == [
        "6 ActivityTaskStarted",
        "7 ActivityTaskCompleted",
    ]


def test_a_token_is_stale_while_another_hand_out_is_in_memory() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    old = run.hand_out("a")
    run.reload()
    new = run.hand_out("a")

    for intent in (completed(old), failed(old), intents.SaveProgress(old, b"p")):
        assert run.when(intent) == STALE
    assert run.when(completed(new)).refused == ""


def test_a_worker_whose_task_was_put_back_may_still_bring_its_result() -> None:
    """One that returns takes its marks back (design §7): nobody else has the attempt yet."""
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    run.when(put_back(token))

    assert run.when(completed(token)).events[:2] == [
        "6 ActivityTaskStarted",
        "7 ActivityTaskCompleted",
    ]


def test_progress_of_an_adopted_attempt_is_saved() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    run.when(save_start(token))
    run.reload()

    assert run.when(intents.SaveProgress(token, b"half")).tasks == ["activity 5 started 1"]
    assert run.task("a").progress == b"half"
    assert run.task("a").state is TaskState.STARTED


def test_a_task_that_is_gone_is_not_adopted() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    run.when(completed(token))
    run.reload()

    assert run.when(completed(token)) == STALE
