"""Suspension (invariant 39): what crashes its workers for 24 hours holds its run back, once, until a human says so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    CLOSED,
    COMPLETE,
    FAIL,
    NOTHING,
    SECOND_US,
    STALE,
    START_US,
    Scenario,
    Then,
    activity,
    came_back,
    cancel,
    completed,
    continue_as_new,
    crashed,
    died,
    done,
    failed,
    pause,
    reset,
    resume,
    signal,
    start,
    terminate,
    timer,
    unpause,
)
from tests.unit.core.test_activity_operations import reset as reset_activity
from tests.unit.core.test_activity_operations import update as update_options
from tests.unit.core.test_audited_actions import entries
from tests.unit.core.test_crash_task import backoff, poison

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.explain import WaitKind, explain
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskState, TimerKind

HOUR_US = 3_600 * SECOND_US
GOES_ON = pytest.mark.parametrize("go_on", [resume(), unpause()], ids=["resume", "unpause"])
TIMEOUTS: dict[str, Any] = {
    "run_timeout_ms": 90 * 3_600_000,
    "execution_timeout_ms": 91 * 3_600_000,
}


def crash_for_a_day(run: Scenario, name: str = "a") -> Then:
    """From the first crash on: the last thing that happens."""
    poison(run, name)
    for _ in range(60):
        then = run.fire(*backoff(run, name))
        if run.state.folded.paused is not None:
            return then
        run.when(died(run.hand_out(name)))
    raise AssertionError("it is never suspended")


def suspended(name: str = "a", **options: Any) -> Scenario:
    run = Scenario(start(**TIMEOUTS))
    if name:
        run.turn(activity("a", schedule_to_close_timeout_ms=92 * 3_600_000, **options))
    crash_for_a_day(run, name)
    return run


# ---- suspended


def test_invariant_39_24_hours_after_the_first_crash_its_timer_suspends_the_run_once() -> None:
    run = Scenario(start(**TIMEOUTS))
    run.turn(activity("a", schedule_to_close_timeout_ms=92 * 3_600_000), activity("b"))
    other = run.hand_out("b")
    run.wait(3_600)
    first_us = run.now_us
    then = crash_for_a_day(run)

    assert run.now_us == first_us + 24 * HOUR_US
    assert then == Then(
        events=["7 WorkflowExecutionPaused"],
        tasks=["activity 5 paused 1", "activity 6 started 1", "activity 5 gone"],
        timers=[
            "ACTIVITY_RETRY 5 gone",
            "RUN_TIMEOUT 0 gone",
            "EXECUTION_TIMEOUT 0 gone",
            "SCHEDULE_TO_CLOSE 5 gone",
        ],
    )
    event = run.last(ev.WorkflowExecutionPaused)
    assert (event.suspended, event.identity, event.request_id) == (True, "perdure", b"")
    assert event.reason.startswith(
        "activity 'a' has crashed 52 times in a row, for the first time at 2027-"
    )
    assert run.state.folded.status is Status.PAUSED
    assert b"" not in run.state.folded.request_ids, "nobody asked for it"
    run.reload()
    assert run.when(completed(other)).tasks == ["workflow paused 1", "activity 6 gone"]
    assert run.names.count("WorkflowExecutionPaused") == 1


def test_invariant_39_one_audit_row_says_what_how_often_and_since_when() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    poison(run)
    run.wait(24 * 3_600)
    row = run.state.timer_rows[TimerKind.ACTIVITY_RETRY, 5]
    fire = intents.FireTimer(
        run.state.run_id, TimerKind.ACTIVITY_RETRY, 5, row.wake_us, row.timer_id
    )

    (entry,) = entries(run, fire)
    assert (entry.action, entry.identity, entry.subject) == ("workflow.suspend", "perdure", "a")
    assert (entry.before, entry.after) == ("RUNNING", "PAUSED")
    assert entry.reason == run.last(ev.WorkflowExecutionPaused).reason
    assert (
        "crashed 3 times in a row, for the first time at 2027-01-15T08:00:00Z: the" in entry.reason
    )
    assert entries(run, fire) == [], "said once"


def test_invariant_39_a_crash_that_comes_after_24_hours_suspends_at_once() -> None:
    """In the decision that counts it. A workflow task that is out is taken back, as by any pause."""
    run = Scenario(start())
    run.turn(activity("a"))
    poison(run)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    token = run.hand_out("a")
    run.when(signal())
    out = run.hand_out()
    run.when(signal(101))
    run.wait(24 * 3_600)

    then = run.when(crashed(token))
    assert then.events == ["8 WorkflowExecutionSignaled", "9 WorkflowExecutionPaused"]
    assert then.timers == ["SUSPENSION 5 gone"]
    assert {run.task().state, run.task("a").state} == {TaskState.PAUSED}
    assert run.when(done(out)) == STALE


def test_invariant_39_code_that_crashes_is_suspended_too() -> None:
    run = Scenario(start())
    poison(run, "")
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()
    run.when(signal())
    run.wait(24 * 3_600)

    assert run.when(crashed(token)).events == [
        "3 WorkflowExecutionSignaled",
        "4 WorkflowExecutionPaused",
    ]
    assert run.last(ev.WorkflowExecutionPaused).reason.startswith(
        "the workflow's code has crashed 4 times"
    )
    assert run.task().state is TaskState.PAUSED
    run.when(resume())
    assert run.task().pool == SURGICAL
    run.turn(COMPLETE)


def test_what_an_operator_holds_back_is_not_suspended_as_well() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    poison(run)
    run.when(pause())
    run.wait(24 * 3_600)

    assert run.fire(TimerKind.ACTIVITY_RETRY, 5).tasks == ["activity 5 paused 1", "activity 5 gone"]
    assert not describe(run.state).suspended
    run.when(unpause())
    assert (run.task("a").state, run.task("a").pool) == (TaskState.READY, SURGICAL)
    assert run.when(died(run.hand_out("a"))).events == ["8 WorkflowExecutionPaused"]


# ---- its timeouts stand still


@GOES_ON
def test_invariant_39_its_timeouts_go_on_with_what_was_left_of_them(go_on: intents.Intent) -> None:
    run = suspended()
    run.wait(200 * 3_600)
    run.reload()
    then = run.when(go_on)

    assert then.events == ["7 WorkflowExecutionUnpaused"]
    assert then.timers == [
        f"SUSPENSION 5 +{24 * 3_600}s",
        f"RUN_TIMEOUT 0 +{(90 - 24) * 3_600}s",
        f"EXECUTION_TIMEOUT 0 +{(91 - 24) * 3_600}s",
        f"SCHEDULE_TO_CLOSE 5 +{(92 - 24) * 3_600}s",
    ]
    assert describe(run.state).execution_deadline_us == run.now_us + (91 - 24) * HOUR_US
    run.reload()
    assert run.fire(TimerKind.RUN_TIMEOUT).events == ["8 WorkflowExecutionTimedOut"]


def test_an_attempt_that_fails_meanwhile_may_be_tried_again() -> None:
    """No schedule-to-close passes while time stands still."""
    run = Scenario(start())
    run.turn(activity("a"), activity("b", schedule_to_close_timeout_ms=30 * 3_600_000))
    token = run.hand_out("b")
    crash_for_a_day(run)
    run.wait(10 * 3_600)

    assert run.when(failed(token)).timers == ["ACTIVITY_RETRY 6 +1s"]
    run.when(resume())
    assert run.state.timer_rows[TimerKind.SCHEDULE_TO_CLOSE, 6].due_us == run.now_us + 6 * HOUR_US


def test_options_that_are_changed_meanwhile_count_from_when_it_goes_on() -> None:
    run = suspended()
    run.wait(10 * 3_600)
    assert run.when(update_options(schedule_to_close_timeout_ms=30 * 3_600_000)).timers == []
    run.when(resume())

    assert run.state.timer_rows[TimerKind.SCHEDULE_TO_CLOSE, 5].due_us == run.now_us + 6 * HOUR_US


@pytest.mark.parametrize("how", ["continue_as_new", "retry", "cron"])
def test_the_run_that_follows_has_the_rest_of_the_chains_time(how: str) -> None:
    chain: dict[str, Any] = {"execution_timeout_ms": 91 * 3_600_000}
    if how == "retry":
        chain["retry_policy"] = RetryPolicy(2_000)
    if how == "cron":
        chain["cron_schedule"] = "hourly"
    run = Scenario(start(**chain))
    if how == "cron":
        run.fire(TimerKind.CRON_OR_RETRY_BACKOFF)
    run.turn(activity("a"))
    crash_for_a_day(run)
    left_us = run.last(ev.WorkflowExecutionPaused).execution_timeout_left_us
    run.wait(500 * 3_600)
    run.when(resume())
    deadline_us = run.now_us + left_us
    run.when(completed(run.hand_out("a")))
    ends: dict[str, cmd.Command] = {
        "continue_as_new": continue_as_new(),
        "retry": FAIL,
        "cron": COMPLETE,
    }
    run.turn(ends[how])

    assert run.next.started.execution_deadline_us == deadline_us
    assert run.next.state.timer_rows[TimerKind.EXECUTION_TIMEOUT, 0].due_us == deadline_us


# ---- it goes on


@GOES_ON
def test_all_that_is_poisoned_is_ready_at_once_in_the_surgical_pool(go_on: intents.Intent) -> None:
    """With 24 hours before it is suspended again. What is not poisoned is ready for all."""
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    poison(run, "b")
    run.wait(10)
    crash_for_a_day(run)
    run.when(signal())
    run.wait(3_600)
    run.when(go_on)

    for name in ("a", "b"):
        record = run.task(name)
        assert (record.state, record.pool) == (TaskState.READY, SURGICAL)
        assert record.crashes is not None
        assert record.crashes.first_us == run.now_us
    assert (run.task().state, run.task().pool) == (TaskState.READY, "")
    run.when(died(run.hand_out("a")))
    assert run.task("a").next_attempt_us == run.now_us + 30 * 60 * SECOND_US


def test_to_go_on_is_said_once() -> None:
    run = suspended()
    (entry,) = entries(run, resume())
    assert (entry.action, entry.reason, entry.identity) == ("workflow.resume", "it is mended", "me")
    assert entries(run, resume()) == []
    assert run.when(resume(body_hash=b"other")).refused == "INVALID_ARGUMENT REQUEST_ID_REUSED"
    assert run.when(unpause()).refused == "FAILED_PRECONDITION WORKFLOW_NOT_PAUSED"
    assert crash_again(run) == ["8 WorkflowExecutionPaused"], "and it is suspended again"
    (entry,) = entries(run, unpause(331))
    assert entry.action == "workflow.unpause"


def crash_again(run: Scenario) -> list[str]:
    run.wait(24 * 3_600)
    return run.when(died(run.hand_out("a"))).events


def test_what_waits_for_its_time_is_ready_at_once() -> None:
    """Of a run that is not suspended. The repeat of a request changes nothing, and nothing is poisoned of another."""
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    assert run.when(resume()).refused == "FAILED_PRECONDITION WORKFLOW_NOT_POISONED"
    poison(run)
    run.wait(5)

    (entry,) = entries(run, resume())
    assert (entry.before, entry.after) == ("RUNNING, 1 poisoned", "RUNNING")
    record = run.task("a")
    assert (record.state, record.pool) == (TaskState.READY, SURGICAL)
    assert record.crashes is not None
    assert record.crashes.first_us == run.now_us
    assert (TimerKind.ACTIVITY_RETRY, 5) not in run.state.timer_rows
    run.reload()
    assert run.when(resume()) == NOTHING
    run.when(died(run.hand_out("a")))
    assert run.when(resume()) == NOTHING, "a repeat does not take its next delay away"
    run.when(resume(341))
    token = run.hand_out("a")
    run.when(resume(342))
    assert run.when(completed(token)).tasks[0] == "workflow ready 1"
    assert run.when(resume(343)).refused == "FAILED_PRECONDITION WORKFLOW_NOT_POISONED"


def test_a_run_that_an_operator_paused_stays_paused() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    poison(run)
    run.when(pause())

    assert run.when(resume()) == Then(
        tasks=["activity 5 paused 1", "activity 5 gone"], timers=["ACTIVITY_RETRY 5 gone"]
    )
    run.when(unpause())
    assert run.task("a").pool == SURGICAL


# ---- what else becomes of it


def test_a_reset_begins_a_run_without_crashes() -> None:
    run = Scenario(start(**TIMEOUTS))
    run.turn(activity("a", schedule_to_close_timeout_ms=92 * 3_600_000))
    run.when(signal())
    run.turn()
    crash_for_a_day(run)
    begun = run.reset(reset())
    assert begun.old.events == ["11 WorkflowExecutionTerminated"]

    assert begun.new.state.folded.status is Status.RUNNING
    record = begun.new.task("a")
    assert (record.state, record.crashes, record.pool) == (TaskState.READY, None, "")
    timers = begun.new.state.timer_rows
    assert timers[TimerKind.RUN_TIMEOUT, 0].due_us == run.now_us + 90 * HOUR_US
    assert timers[TimerKind.EXECUTION_TIMEOUT, 0].due_us == run.now_us + 91 * HOUR_US
    assert timers[TimerKind.SCHEDULE_TO_CLOSE, 5].due_us == run.now_us + 92 * HOUR_US


def test_a_reset_of_a_run_that_was_suspended_once_counts_its_time_from_now_on() -> None:
    run = suspended()
    run.wait(50 * 3_600)
    run.when(resume())
    run.when(completed(run.hand_out("a")))
    run.turn(timer("t", 60))
    begun = run.reset(reset())

    assert begun.new.started.execution_deadline_us == run.now_us + 91 * HOUR_US
    due_us = begun.new.state.timer_rows[TimerKind.RUN_TIMEOUT, 0].due_us
    assert due_us == run.now_us + 90 * HOUR_US


def test_its_end_wins() -> None:
    run = suspended()
    assert run.when(terminate()).events == ["7 WorkflowExecutionTerminated"]
    assert run.when(resume()) == CLOSED
    assert run.when(unpause()) == CLOSED


def test_what_comes_in_waits() -> None:
    run = suspended()
    run.when(signal())
    run.when(cancel())
    assert run.task().state is TaskState.PAUSED
    run.when(resume())
    run.turn(COMPLETE)


def test_the_activity_can_be_reset() -> None:
    run = suspended()
    run.when(reset_activity())
    assert run.task("a").state is TaskState.PAUSED
    run.when(resume())
    assert (run.task("a").state, run.task("a").pool) == (TaskState.READY, "")


def test_a_worker_that_comes_back_leaves_it_to_the_operator() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    tokens = []
    for _ in range(3):
        tokens.append(run.hand_out("a"))
        run.when(died(tokens[-1]))
    run.wait(24 * 3_600)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)

    assert run.when(came_back(tokens[0])).tasks == ["activity 5 paused 1", "activity 5 gone"]
    for token in tokens[1:]:
        run.when(came_back(token))
    assert describe(run.state).suspended
    run.when(resume())
    assert (run.task("a").state, run.task("a").crashes) == (TaskState.READY, None)


def test_describe_and_why_say_that_it_is_suspended() -> None:
    run = suspended()
    said = describe(run.state)
    assert said.info.status is Status.PAUSED
    assert (said.suspended, said.pause_us, said.pause_identity) == (
        True,
        START_US + 24 * HOUR_US,
        "perdure",
    )
    first, second = explain(run.state).reasons
    assert (first.kind, first.worker_identity, first.until_us) == (WaitKind.PAUSED, "perdure", 0)
    assert first.subject == said.pause_reason
    assert (second.kind, second.subject, second.until_us) == (WaitKind.POISONED, "a", 0)
