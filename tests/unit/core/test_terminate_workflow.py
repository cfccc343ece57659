"""Terminate wins over everything and needs no worker (semantics §7; invariant 47)."""

from __future__ import annotations

import pytest
from tests.unit.core.scenario import (
    CLOSED,
    COMPLETE,
    NOTHING,
    STALE,
    START_US,
    Scenario,
    Then,
    activity,
    cancel,
    canceled,
    completed,
    done,
    failed,
    put_back,
    request_id,
    save_start,
    signal,
    start,
    task_failed,
    terminate,
    timed_out,
    timer,
)

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.tasks import TimerKind


def busy() -> Scenario:
    """A run with everything a run can have: its task out, activities and timers, events that wait."""
    run = Scenario(start(run_timeout_ms=600_000))
    run.turn(
        activity("a", schedule_to_close_timeout_ms=60_000),
        activity("b", schedule_to_start_timeout_ms=60_000),
        activity("c"),
        timer("t"),
    )
    return run


def test_terminate_ends_the_run_with_its_reason() -> None:
    run = Scenario(start())

    assert run.when(terminate(identity="me")) == Then(
        events=["3 WorkflowExecutionTerminated"], tasks=["workflow gone"]
    )
    assert run.last(ev.WorkflowExecutionTerminated) == ev.WorkflowExecutionTerminated(
        3, START_US, "stop", b"why", "me", request_id(250), b"terminate"
    )


def test_invariant_47_every_task_and_timer_of_the_run_is_over() -> None:
    run = busy()
    run.when(failed(run.hand_out("c")))
    run.when(signal())

    assert run.when(terminate()) == Then(
        events=["11 WorkflowExecutionTerminated"],
        tasks=["activity 5 gone", "activity 6 gone", "activity 7 gone", "workflow gone"],
        timers=[
            "RUN_TIMEOUT 0 gone",
            "SCHEDULE_TO_CLOSE 5 gone",
            "SCHEDULE_TO_START 6 gone",
            "USER 8 gone",
            "ACTIVITY_RETRY 7 gone",
        ],
    )
    assert run.saved.live_tasks(run.state.run_id) == {}
    assert run.saved.live_timers(run.state.run_id) == {}


def test_invariant_47_nothing_has_an_effect_after_it() -> None:
    run = busy()
    a, c = run.hand_out("a"), run.hand_out("c")
    run.when(signal(1))
    workflow = run.hand_out()
    timers = list(run.state.timer_rows.values())
    run.when(signal(2))
    run.when(terminate())

    for intent in (completed(a), failed(c), canceled(a), done(workflow, COMPLETE)):
        assert run.when(intent) == STALE
    assert run.when(task_failed(workflow)) == STALE
    assert run.when(intents.SaveProgress(a, b"progress")) == STALE
    for quiet in (put_back(a), put_back(workflow), timed_out(c), save_start(a)):
        assert run.when(quiet) == NOTHING
    for row in timers:
        fire = intents.FireTimer(
            run.state.run_id, row.kind, row.reference, row.wake_us, row.timer_id
        )
        assert run.when(fire) == NOTHING
    assert run.when(signal(3)) == CLOSED
    assert run.when(cancel()) == CLOSED
    assert run.names[-1] == "WorkflowExecutionTerminated"


@pytest.mark.parametrize("reloaded", [False, True], ids=["in memory", "after a take-over"])
def test_the_same_request_is_acknowledged_again(reloaded: bool) -> None:
    run = Scenario(start())
    run.when(terminate())
    if reloaded:
        run.reload()

    assert run.when(terminate()) == NOTHING


def test_another_request_after_the_end_is_not_found() -> None:
    run = Scenario(start())
    run.when(terminate(1))

    assert run.when(terminate(2)) == CLOSED


def test_the_same_request_id_with_another_body_is_refused() -> None:
    run = Scenario(start())
    run.when(terminate())

    assert run.when(terminate(body_hash=b"other")) == Then(
        refused="INVALID_ARGUMENT REQUEST_ID_REUSED"
    )


def test_terminate_after_a_completion_is_not_found() -> None:
    run = Scenario(start())
    run.turn(COMPLETE)

    assert run.when(terminate()) == CLOSED


def test_terminate_wins_over_a_completion_that_comes_later_in_the_same_batch() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.decide(terminate())
    _, refused = run.decide(done(token, COMPLETE))

    assert refused == STALE.refused
    assert run.commit().events == ["3 WorkflowExecutionTerminated"]


def test_a_run_whose_task_backs_off_can_be_terminated() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))

    assert run.when(terminate()) == Then(
        events=["5 WorkflowExecutionTerminated"],
        tasks=["workflow gone"],
        timers=[f"{TimerKind.WORKFLOW_TASK_BACKOFF.name} 0 gone"],
    )


def test_a_termination_meant_for_another_chain_does_not_reach_this_one() -> None:
    run = Scenario(start())
    run.turn()

    assert run.when(terminate(first_run_id=b"b" * 16)) == CLOSED
    assert run.state.open
    first = run.state.folded.started.first_run_id
    assert run.when(terminate(first_run_id=first)).events == ["5 WorkflowExecutionTerminated"]
