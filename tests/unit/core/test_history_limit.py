"""A run that has grown past its hard limit ends with a named reason (semantics §1; invariant 8)."""

from __future__ import annotations

from tests.unit.core.scenario import (
    COMPLETE,
    Scenario,
    Then,
    activity,
    done,
    signal,
    start,
    terminate,
    timer,
)

from perdure_engine.core import events as ev
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.status import Status


def test_invariant_8_the_batch_that_crosses_the_limit_of_events_ends_the_run() -> None:
    run = Scenario(start(), limits=RunLimits(history_events_max=6))

    assert run.turn(timer("t")).events[-1] == "5 TimerStarted"
    assert run.when(signal()) == Then(
        events=[
            "6 WorkflowExecutionSignaled",
            "7 WorkflowTaskScheduled",
            "8 WorkflowExecutionTerminated",
        ],
        timers=["USER 5 gone"],
    )
    ended = run.last(ev.WorkflowExecutionTerminated)
    assert ended.reason.startswith("history limit: 7 events")
    assert ended.identity == "perdure-engine"
    assert run.state.folded.status is Status.TERMINATED


def test_invariant_8_the_limit_of_bytes_ends_the_run() -> None:
    run = Scenario(start(), limits=RunLimits(history_bytes_max=2_000))
    run.turn(activity("a", input=b"x" * 3_000))

    then = run.when(signal())

    assert then.events[-1] == "8 WorkflowExecutionTerminated"
    assert "bytes" in run.last(ev.WorkflowExecutionTerminated).reason


def test_one_event_below_the_limit_goes_on() -> None:
    run = Scenario(start(), limits=RunLimits(history_events_max=6))

    run.turn(timer("t"))
    assert run.state.open


def test_invariant_42_what_waits_is_numbered_before_the_end() -> None:
    run = Scenario(start(), limits=RunLimits(history_events_max=5))
    token = run.hand_out()
    run.when(signal())

    assert run.when(done(token, timer("t"))).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskCompleted",
        "5 TimerStarted",
        "6 WorkflowExecutionSignaled",
        "7 WorkflowTaskScheduled",
        "8 WorkflowExecutionTerminated",
    ]


def test_a_run_that_ends_at_the_limit_by_itself_is_not_terminated() -> None:
    run = Scenario(start(), limits=RunLimits(history_events_max=5))

    assert run.turn(COMPLETE).events[-1] == "5 WorkflowExecutionCompleted"
    assert run.state.folded.status is Status.COMPLETED


def test_a_terminated_run_at_the_limit_is_terminated_once() -> None:
    run = Scenario(start(), limits=RunLimits(history_events_max=3))

    assert run.when(terminate()).events == ["3 WorkflowExecutionTerminated"]
