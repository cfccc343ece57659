"""Signals: saved before they are acknowledged, in order, once per request id (semantics §6)."""

from __future__ import annotations

import pytest
from tests.unit.core.scenario import (
    CLOSED,
    COMPLETE,
    NOTHING,
    START_US,
    Scenario,
    Then,
    activity,
    cancel,
    completed,
    done,
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
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.tasks import TimerKind

REUSED = Then(refused="INVALID_ARGUMENT REQUEST_ID_REUSED")
FULL = Then(refused="RESOURCE_EXHAUSTED TOO_MANY_SIGNALS")


def test_a_signal_is_an_event_and_wakes_the_workflow() -> None:
    run = Scenario(start())
    run.turn()
    run.wait(2)

    then = run.when(signal(signal_name="paid", input=b"42", identity="me", header=b"h"))

    assert then == Then(
        events=["5 WorkflowExecutionSignaled", "6 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
    )
    assert run.last(ev.WorkflowExecutionSignaled) == ev.WorkflowExecutionSignaled(
        5, START_US + 2_000_000, "paid", b"42", "me", b"h", request_id(100), b"signal"
    )


def test_a_signal_joins_a_workflow_task_that_waits() -> None:
    run = Scenario(start())

    assert run.when(signal()) == Then(events=["3 WorkflowExecutionSignaled"])


def test_a_signal_joins_a_workflow_task_that_backs_off() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))

    assert run.when(signal()) == Then(events=["5 WorkflowExecutionSignaled"])


@pytest.mark.parametrize("saved", [False, True], ids=["hand-out unsaved", "hand-out saved"])
def test_a_signal_is_buffered_while_the_workflow_task_is_out(saved: bool) -> None:
    run = Scenario(start())
    token = run.hand_out()
    if saved:
        run.when(save_start(token))

    assert run.when(signal(1)) == Then(buffered=["WorkflowExecutionSignaled"])
    assert run.when(signal(2)) == Then(buffered=["WorkflowExecutionSignaled"])


def test_a_buffered_signal_keeps_the_workflow_task_out_after_a_take_over() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal(1))
    run.reload()

    assert run.when(signal(2)) == Then(buffered=["WorkflowExecutionSignaled"])
    assert run.when(done(token)).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskCompleted",
        "5 WorkflowExecutionSignaled",
        "6 WorkflowExecutionSignaled",
        "7 WorkflowTaskScheduled",
    ]


def test_invariant_41_signals_keep_the_order_of_their_acknowledgements() -> None:
    run = Scenario(start())
    run.when(signal(1))
    token = run.hand_out()
    for number in (2, 3):
        run.when(signal(number))
    run.when(done(token))
    run.when(signal(4))

    signals = [e for e in run.events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert [event.request_id for event in signals] == [request_id(n) for n in (1, 2, 3, 4)]


# ---- once (invariant 41)


def test_invariant_41_a_repeated_signal_is_acknowledged_and_changes_nothing() -> None:
    run = Scenario(start())
    run.when(signal())

    assert run.when(signal()) == NOTHING


def test_invariant_41_a_repeated_signal_that_is_still_buffered_changes_nothing() -> None:
    run = Scenario(start())
    run.hand_out()
    run.when(signal())

    assert run.when(signal()) == NOTHING


def test_invariant_41_a_repeated_signal_after_a_take_over_changes_nothing() -> None:
    run = Scenario(start())
    run.when(signal(1))
    run.hand_out()
    run.when(signal(2))
    run.reload()

    assert run.when(signal(1)) == NOTHING
    assert run.when(signal(2)) == NOTHING


def test_invariant_41_a_repeated_signal_after_the_end_is_acknowledged() -> None:
    run = Scenario(start())
    run.when(signal())
    run.turn(COMPLETE)

    assert run.when(signal()) == NOTHING


@pytest.mark.parametrize("buffered", [False, True], ids=["numbered", "buffered"])
def test_the_same_request_id_with_another_body_is_refused(buffered: bool) -> None:
    run = Scenario(start())
    if buffered:
        run.hand_out()
    run.when(signal())

    assert run.when(signal(body_hash=b"other")) == REUSED


def test_the_request_id_of_a_cancel_is_not_that_of_a_signal() -> None:
    run = Scenario(start())
    run.when(cancel(7))

    assert run.when(signal(7)) == REUSED


def test_two_signals_with_one_request_id_in_one_batch_are_one() -> None:
    run = Scenario(start())
    run.decide(signal())
    run.decide(signal())

    assert run.commit() == Then(events=["3 WorkflowExecutionSignaled"])


# ---- refused


@pytest.mark.parametrize("end", ["completed", "terminated", "timed out"])
def test_b32_a_signal_to_a_closed_run_is_not_found(end: str) -> None:
    run = Scenario(start(run_timeout_ms=1_000))
    if end == "completed":
        run.turn(COMPLETE)
    elif end == "terminated":
        run.when(terminate())
    else:
        run.fire(TimerKind.RUN_TIMEOUT)

    assert run.when(signal()) == CLOSED


def test_a_run_takes_so_many_signals_and_no_more() -> None:
    run = Scenario(start(), limits=RunLimits(signals_max=3))
    run.when(signal(1))
    token = run.hand_out()
    run.when(signal(2))
    run.when(signal(3))

    assert run.when(signal(4)) == FULL
    assert run.when(signal(3)) == NOTHING
    run.when(done(token))
    assert run.when(signal(4)) == FULL


def test_only_signals_count_towards_the_limit_of_signals() -> None:
    """An activity's outcome and a cancellation that wait in the inbox are no signals."""
    run = Scenario(start(), limits=RunLimits(signals_max=2))
    run.turn(activity("a"), timer("t"))
    held = run.hand_out("a")
    run.when(signal(1))
    run.hand_out()
    run.when(completed(held))
    run.when(cancel())

    assert run.when(signal(2)) == Then(buffered=["WorkflowExecutionSignaled"])
    assert run.when(signal(3)) == FULL


# ---- invariant 42: an acknowledged signal is seen, or the end was recorded before it


def test_invariant_42_a_signal_buffered_when_the_run_is_terminated_stands_before_the_end() -> None:
    run = Scenario(start())
    run.hand_out()
    run.when(signal())

    assert run.when(terminate()).events == [
        "3 WorkflowExecutionSignaled",
        "4 WorkflowExecutionTerminated",
    ]


def test_invariant_42_a_signal_buffered_when_the_run_times_out_stands_before_the_end() -> None:
    run = Scenario(start(run_timeout_ms=1_000))
    run.hand_out()
    run.when(signal())

    assert run.fire(TimerKind.RUN_TIMEOUT).events == [
        "3 WorkflowExecutionSignaled",
        "4 WorkflowExecutionTimedOut",
    ]


@pytest.mark.parametrize("how", ["failed", "timed out", "put back"])
def test_invariant_42_a_signal_is_numbered_however_the_workflow_task_ends(how: str) -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())
    ending: dict[str, intents.Intent] = {
        "failed": task_failed(token),
        "timed out": timed_out(token),
        "put back": put_back(token),
    }

    then = run.when(ending[how])

    assert then.events[-1].endswith("WorkflowExecutionSignaled")
    assert run.state.buffered == []
    assert run.task().attempt == (1 if how == "put back" else 2)
