"""An activity's result comes with the workflow task that it leads to (invariants 2, 5, 7, 18, 30, 36, 42)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    IDENTITY,
    SECOND_US,
    STALE,
    START_US,
    WORKER,
    Scenario,
    Then,
    activity,
    application,
    completed,
    died,
    done,
    failed,
    frozen,
    pause,
    signal,
    start,
    timer,
    update,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.intents import WorkAhead
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.replies import WentAhead
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.state import pinned_version
from perdure_engine.core.status import Status
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import Behavior, version_name

RESULT = ["6 ActivityTaskStarted", "7 ActivityTaskCompleted", "8 WorkflowTaskScheduled"]
TASK = ["9 WorkflowTaskStarted", "10 WorkflowTaskCompleted"]
ALONE = Then(events=RESULT, tasks=["workflow ready 1", "activity 5 gone"])


def waiting(*, limits: RunLimits | None = None) -> tuple[Scenario, TaskToken]:
    """A run in its worker's memory, and an attempt of the only activity it waits for."""
    run = Scenario(start()) if limits is None else Scenario(start(), limits=limits)
    run.turn(activity("a"), cached=True)
    run.wait(1)
    token = run.hand_out("a")
    run.wait(1)
    return run, token


def changed(ahead: WorkAhead, **changes: Any) -> WorkAhead:
    """`changes`: of its token."""
    return of_completion(ahead, token=msgspec.structs.replace(ahead.completion.token, **changes))


def of_completion(ahead: WorkAhead, **changes: Any) -> WorkAhead:
    completion = msgspec.structs.replace(ahead.completion, **changes)
    return msgspec.structs.replace(ahead, completion=completion)


# ---- it counts


def test_the_result_and_what_follows_are_one_decision() -> None:
    run, token = waiting()

    assert run.when(completed(token, ahead=run.ahead(activity("b"), timer("t")))) == Then(
        events=[*RESULT, *TASK, "11 ActivityTaskScheduled", "12 TimerStarted"],
        tasks=["activity 11 ready 1", "activity 5 gone"],
        timers=["USER 12 +60s"],
        reply=WentAhead(),
    )
    assert run.state.folded.previous_started_id == 9
    assert run.state.sticky_worker_id == WORKER
    assert run.last(ev.ActivityTaskCompleted).result == b"result"


def test_a_run_may_end_ahead() -> None:
    run, token = waiting()

    assert run.when(completed(token, ahead=run.ahead(COMPLETE, cached=False))) == Then(
        events=[*RESULT, *TASK, "11 WorkflowExecutionCompleted"],
        tasks=["activity 5 gone"],
        reply=WentAhead(),
    )
    assert run.state.folded.status is Status.COMPLETED


def test_step_by_step_a_run_goes_ahead() -> None:
    run, token = waiting()
    for name in "bcd":
        reply = run.when(completed(token, ahead=run.ahead(activity(name)))).reply
        assert isinstance(reply, WentAhead)
        run.wait(1)
        token = run.hand_out(name)

    assert run.names.count("WorkflowTaskCompleted") == 4
    assert [event.event_id for event in run.events] == list(range(1, len(run.events) + 1))


def test_the_history_is_that_of_a_result_and_a_task_that_came_one_after_the_other() -> None:
    """But for times: whatever reads it cannot tell which way it went."""
    run, token = waiting()
    run.when(completed(token, ahead=run.ahead(activity("b"))))
    other, token = waiting()
    other.when(completed(token))
    other.turn(activity("b"), cached=True)

    assert [msgspec.structs.replace(e, time_us=0) for e in _alike(run)] == [
        msgspec.structs.replace(e, time_us=0) for e in _alike(other)
    ]


def _alike(run: Scenario) -> list[ev.Event]:
    """The size of a history counts what has been saved, and there that was more."""
    return [
        msgspec.structs.replace(event, history_bytes=0)
        if isinstance(event, ev.WorkflowTaskStarted)
        else event
        for event in run.events
    ]


def test_invariant_7_the_result_is_dated_when_the_code_thought_it_was() -> None:
    """The code has seen that time, which its task's Started says; what led there cannot be later."""
    run, token = waiting()
    ahead = run.ahead(timer("t", 10))
    seen_us = ahead.completion.token.started_us
    run.wait(0.5)  # on its way
    run.when(completed(token, ahead=ahead))

    for kind in (ev.ActivityTaskStarted, ev.ActivityTaskCompleted, ev.WorkflowTaskStarted):
        assert run.last(kind).time_us == seen_us
    assert run.last(ev.WorkflowTaskCompleted).time_us == run.now_us
    assert run.last(ev.TimerStarted).time_us == run.now_us


def test_a_worker_s_clock_may_be_a_little_ahead_and_time_does_not_decrease() -> None:
    run, token = waiting()
    early = changed(run.ahead(timer("t")), started_us=run.now_us + SECOND_US)

    assert isinstance(run.when(completed(token, ahead=early)).reply, WentAhead)
    assert {event.time_us for event in run.events[5:]} == {run.now_us + SECOND_US}


def test_what_the_task_says_besides_its_commands_is_taken_too() -> None:
    """The version that ran it, what is shown in lists, and when the code wants to be woken."""
    run, token = waiting()
    stage = SearchAttribute("Stage", AttributeType.INT, 2)
    asked = run.ahead(activity("b"), activity("c"), cmd.UpsertSearchAttributes((stage,)))
    said = of_completion(
        asked,
        deployment_name="shop",
        build_id="7",
        behavior=Behavior.PINNED,
        wake_rules=(WakeRule(["b", "c"], ended=2),),
    )
    run.when(completed(token, ahead=said))

    taken = run.last(ev.WorkflowTaskCompleted)
    assert (taken.deployment_name, taken.build_id, taken.behavior) == ("shop", "7", Behavior.PINNED)
    assert pinned_version(run.state.folded) == version_name("shop", "7")
    assert run.last(ev.UpsertWorkflowSearchAttributes).search_attributes == (stage,)
    assert run.when(completed(run.hand_out("b"))).tasks == ["activity 11 gone"], "it wants both"
    assert "workflow ready 1" in run.when(completed(run.hand_out("c"))).tasks


# ---- it does not: the result counts, and the task comes as usual


@pytest.mark.parametrize(
    ("what", "of_token"),
    [
        ("an event more", lambda run: {"started_event_id": run.state.folded.next_event_id + 4}),
        ("an event fewer", lambda run: {"started_event_id": run.state.folded.next_event_id + 2}),
        ("no event", lambda run: {"started_event_id": 0}),
        ("before the last event", lambda run: {"started_us": run.events[-1].time_us - 1}),
        ("never", lambda run: {"started_us": -(1 << 63)}),
        ("in the future", lambda run: {"started_us": run.now_us + SECOND_US + 1}),
    ],
)
def test_invariants_2_42_another_history_or_time_than_the_worker_took_for_known(
    what: str, of_token: Callable[[Scenario], dict[str, int]]
) -> None:
    run, token = waiting()
    ahead = changed(run.ahead(activity("b")), **of_token(run))

    assert run.when(completed(token, ahead=ahead)) == ALONE
    assert run.last(ev.ActivityTaskCompleted).time_us == run.now_us


def test_what_was_done_ahead_does_not_wait_out_an_outage() -> None:
    """The code has reckoned with its time: a delay until some instant would be late by as much."""
    run, token = waiting()
    ahead = run.ahead(timer("t"))
    run.wait(2)
    assert isinstance(run.when(completed(token, ahead=ahead)).reply, WentAhead)

    run, token = waiting()
    ahead = run.ahead(timer("t"))
    run.wait(2.001)
    assert run.when(completed(token, ahead=ahead)) == ALONE


def test_another_workflow_task_was_the_last_one() -> None:
    run, token = waiting()
    ahead = msgspec.structs.replace(run.ahead(activity("b")), previous_started_id=2)

    assert run.when(completed(token, ahead=ahead)) == ALONE


def test_another_worker_has_the_run_in_memory() -> None:
    run, token = waiting()

    assert run.when(completed(token, ahead=run.ahead(COMPLETE, worker=b"another"))) == ALONE


def test_nobody_is_known_to_have_it_in_memory() -> None:
    run = Scenario(start())
    run.turn(activity("a"), cached=False)
    token = run.hand_out("a")

    assert run.when(completed(token, ahead=run.ahead(COMPLETE))) == ALONE
    assert run.when(completed(token, ahead=run.ahead(COMPLETE, worker=b""))) == STALE


def test_a_signal_was_there_before() -> None:
    """Its task is scheduled already: the code sees signal and result in one."""
    run, token = waiting()
    ahead = run.ahead(COMPLETE)
    run.when(signal())

    assert run.when(completed(token, ahead=ahead)) == Then(
        events=["8 ActivityTaskStarted", "9 ActivityTaskCompleted"], tasks=["activity 5 gone"]
    )


def test_a_signal_before_it_that_the_worker_knows_of() -> None:
    """It took part in the worker's count, and waits for the code all the same."""
    run, token = waiting()
    run.when(signal())

    assert run.when(completed(token, ahead=run.ahead(COMPLETE))) == Then(
        events=["8 ActivityTaskStarted", "9 ActivityTaskCompleted"], tasks=["activity 5 gone"]
    )
    assert run.state.open


def test_a_worker_has_a_workflow_task() -> None:
    run, token = waiting()
    run.when(signal())
    out = run.hand_out()

    then = run.when(completed(token, ahead=run.ahead(COMPLETE)))
    assert then.buffered == ["ActivityTaskStarted", "ActivityTaskCompleted"]
    assert then.reply is None
    assert run.when(done(out)).events[-1] == "12 WorkflowTaskScheduled"


def test_an_update_waits_for_the_code() -> None:
    run, token = waiting()
    run.when(update())

    assert run.when(completed(token, ahead=run.ahead(COMPLETE))).reply is None
    assert run.state.open


def test_a_run_that_is_held_does_not_go_on() -> None:
    run, token = waiting()
    run.when(pause())

    then = run.when(completed(token, ahead=run.ahead(COMPLETE)))
    assert then.reply is None
    assert then.tasks == ["workflow paused 1", "activity 5 gone"]


def test_two_activities_are_open() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"), cached=True)
    token = run.hand_out("a")

    assert run.when(completed(token, ahead=run.ahead(COMPLETE))).reply is None
    assert run.state.open


def test_the_code_wants_no_task_for_each_outcome() -> None:
    run = Scenario(start())
    turn = done(run.hand_out(), activity("a"), cached=True)
    run.when(msgspec.structs.replace(turn, wake_rules=(WakeRule(["a"], ended=1),)))
    token = run.hand_out("a")

    assert run.when(completed(token, ahead=run.ahead(COMPLETE))).reply is None
    assert run.state.open


def test_the_code_was_told_otherwise_about_continuing_as_new() -> None:
    run, token = waiting(limits=RunLimits(history_events_suggest=8))
    assert run.when(completed(token, ahead=run.ahead(activity("b")))) == ALONE

    run, token = waiting(limits=RunLimits(history_events_suggest=8))
    knows = msgspec.structs.replace(run.ahead(activity("b")), suggests_continue_as_new=True)
    assert isinstance(run.when(completed(token, ahead=knows)).reply, WentAhead)
    assert run.last(ev.WorkflowTaskStarted).suggest_continue_as_new


@pytest.mark.parametrize(
    "asked", [[COMPLETE, timer("t")], [timer("t"), timer("t")], [cmd.CancelTimer("nobody's")]]
)
def test_bad_commands_are_left_to_a_task_of_their_own(asked: list[cmd.Command]) -> None:
    """There they fail it, with the cause in the history."""
    run, token = waiting()

    assert run.when(completed(token, ahead=run.ahead(*asked))) == ALONE
    assert run.turn(*asked).events[:2] == ["9 WorkflowTaskStarted", "10 WorkflowTaskFailed"]


def test_a_bad_wake_rule_is_left_like_a_bad_command() -> None:
    run, token = waiting()
    bad = of_completion(run.ahead(activity("b")), wake_rules=(WakeRule(["a"], ended=1),))

    assert run.when(completed(token, ahead=bad)) == ALONE, "a is not pending any more"


# ---- invariant 30: once


def test_invariant_30_what_is_said_again_changes_nothing() -> None:
    run, token = waiting()
    said = completed(token, ahead=run.ahead(activity("b")))
    run.when(said)
    before = frozen(run.state)

    assert run.when(said) == STALE
    assert frozen(run.state) == before


def test_invariant_30_a_late_result_brings_nothing_ahead() -> None:
    run, token = waiting()
    run.when(failed(token))
    before = frozen(run.state)

    assert run.when(completed(token, ahead=run.ahead(COMPLETE))) == STALE
    assert frozen(run.state) == before


def test_what_started_the_task_is_who_had_the_activity() -> None:
    run, token = waiting()
    run.when(completed(token, ahead=run.ahead(activity("b"))))

    assert run.last(ev.WorkflowTaskStarted).identity == IDENTITY
    assert run.last(ev.WorkflowTaskStarted).scheduled_event_id == 8
    assert run.last(ev.WorkflowTaskStarted).time_us > START_US


# ---- invariant 36: whose crash it was


def test_the_task_behind_an_activity_that_crashed_begins_with_that_crash() -> None:
    """Its code may have gone ahead in the process that died: with two more of its own, three workers would be gone
    before it runs alone."""
    run, token = waiting()
    run.when(died(token, WORKER))
    again = run.hand_out("a")
    run.when(completed(again))

    crashes = run.task().crashes
    assert crashes is not None
    assert (crashes.count, crashes.worker_ids) == (1, ())
    assert crashes.last is not None
    task = run.hand_out()
    run.when(died(task))
    assert run.task().isolated


def test_what_the_activity_did_alone_is_its_own() -> None:
    run, token = waiting()
    run.when(died(token, WORKER))
    run.when(died(run.hand_out("a")))
    alone = run.hand_out("a")
    run.when(failed(alone, application(non_retryable=True)))

    crashes = run.task().crashes
    assert crashes is not None
    assert crashes.count == 1


def test_a_crash_is_forgotten_with_the_task_that_succeeds() -> None:
    run, token = waiting()
    run.when(died(token, WORKER))
    run.when(completed(run.hand_out("a")))
    run.turn(activity("b"), cached=True)
    run.when(completed(run.hand_out("b")))

    assert run.task().crashes is None


def test_a_task_that_was_there_has_crashes_of_its_own() -> None:
    run, token = waiting()
    run.when(died(token, WORKER))
    run.when(signal())
    run.when(completed(run.hand_out("a")))

    assert run.task().crashes is None


def test_a_crash_elsewhere_was_none_of_the_workflow_s_code() -> None:
    """The run was not in that worker's memory."""
    run, token = waiting()
    run.when(died(token))
    run.when(completed(run.hand_out("a")))

    assert run.task().crashes is None
