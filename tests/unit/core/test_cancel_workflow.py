"""Cancellation of a run: asked for once, delivered once, and the run may go on (semantics §7)."""

from __future__ import annotations

from tests.unit.core.scenario import (
    CANCEL,
    CLOSED,
    COMPLETE,
    NOTHING,
    START_US,
    Scenario,
    Then,
    cancel,
    done,
    request_id,
    signal,
    start,
    terminate,
)

from perdure_engine.core import events as ev


def test_a_cancellation_is_an_event_and_wakes_the_workflow() -> None:
    run = Scenario(start())
    run.turn()

    assert run.when(cancel(identity="me")) == Then(
        events=["5 WorkflowExecutionCancelRequested", "6 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
    )
    assert run.last(ev.WorkflowExecutionCancelRequested) == ev.WorkflowExecutionCancelRequested(
        5, START_US, "no longer wanted", "me", request_id(200), b"cancel"
    )
    assert run.state.folded.cancel_requested


def test_a_cancellation_is_buffered_while_the_workflow_task_is_out() -> None:
    run = Scenario(start())
    token = run.hand_out()

    assert run.when(cancel()) == Then(buffered=["WorkflowExecutionCancelRequested"])
    assert run.when(done(token)) == Then(
        events=[
            "3 WorkflowTaskStarted",
            "4 WorkflowTaskCompleted",
            "5 WorkflowExecutionCancelRequested",
            "6 WorkflowTaskScheduled",
        ],
        tasks=["workflow ready 1", "workflow gone"],
    )


def test_invariant_46_the_same_request_is_delivered_once() -> None:
    run = Scenario(start())
    run.when(cancel())

    assert run.when(cancel()) == NOTHING


def test_invariant_46_the_same_request_while_it_is_buffered_is_delivered_once() -> None:
    run = Scenario(start())
    run.hand_out()
    run.when(cancel())

    assert run.when(cancel()) == NOTHING
    run.reload()
    assert run.when(cancel()) == NOTHING


def test_a_second_request_is_acknowledged_and_the_run_is_asked_once() -> None:
    run = Scenario(start())
    run.when(cancel(1))

    assert run.when(cancel(2)) == NOTHING


def test_a_second_request_while_the_first_is_buffered_is_acknowledged() -> None:
    run = Scenario(start())
    run.hand_out()
    run.when(cancel(1))

    assert run.when(cancel(2)) == NOTHING


def test_the_same_request_id_with_another_body_is_refused() -> None:
    run = Scenario(start())
    run.when(cancel())

    assert run.when(cancel(body_hash=b"other")) == Then(
        refused="INVALID_ARGUMENT REQUEST_ID_REUSED"
    )


def test_invariant_46_a_run_that_ignores_it_stays_running() -> None:
    run = Scenario(start())
    run.when(cancel())

    assert run.turn() == Then(
        events=["4 WorkflowTaskStarted", "5 WorkflowTaskCompleted"], tasks=["workflow gone"]
    )
    assert run.state.open
    assert run.when(signal()).events == ["6 WorkflowExecutionSignaled", "7 WorkflowTaskScheduled"]
    assert run.turn(COMPLETE).events[-1] == "10 WorkflowExecutionCompleted"


def test_a_run_that_heeds_it_ends_as_canceled() -> None:
    run = Scenario(start())
    run.when(cancel())

    assert run.turn(CANCEL).events[-1] == "6 WorkflowExecutionCanceled"
    assert run.last(ev.WorkflowExecutionCanceled).details == b"cleaned up"


def test_invariant_46_a_run_that_closed_before_it_came_is_not_found() -> None:
    run = Scenario(start())
    run.turn(COMPLETE)

    assert run.when(cancel()) == CLOSED


def test_a_repeated_request_after_the_end_is_acknowledged() -> None:
    run = Scenario(start())
    run.when(cancel())
    run.when(terminate())

    assert run.when(cancel()) == NOTHING


def test_a_cancellation_meant_for_another_chain_does_not_reach_this_one() -> None:
    """The id was started anew: who holds the handle of before means another order."""
    run = Scenario(start())
    run.turn()

    assert run.when(cancel(first_run_id=b"b" * 16)) == CLOSED
    assert not run.state.folded.cancel_requested
    first = run.state.folded.started.first_run_id
    assert run.when(cancel(first_run_id=first)).events[0] == "5 WorkflowExecutionCancelRequested"
