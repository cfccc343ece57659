"""A workflow task fails (semantics §3): the first failure is written, further attempts only count, with back-off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    IDENTITY,
    NOTHING,
    SECOND_US,
    STALE,
    START_US,
    WORKER,
    Scenario,
    Then,
    activity,
    application,
    done,
    put_back,
    signal,
    start,
    task_failed,
    timed_out,
)

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.decide.fail_workflow_task import backoff_ms
from perdure_engine.core.describe import describe
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.tasks import TimerKind
from perdure_engine.core.tokens import TaskToken

Ending = Callable[[TaskToken], intents.Intent]

FIRST_FAILURE = Then(
    events=["3 WorkflowTaskStarted", "4 WorkflowTaskFailed"],
    tasks=["workflow backoff 2"],
    timers=["WORKFLOW_TASK_BACKOFF 0 +1s"],
)


def fail_again(run: Scenario, message: str = "boom") -> Then:
    """The back-off ends, a worker takes the task and fails it."""
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    return run.when(task_failed(run.hand_out(), message=message))


# ---- the first failure


@pytest.mark.parametrize("cause", WorkflowTaskFailedCause, ids=lambda c: c.name)
def test_the_first_failure_is_written_with_its_cause(cause: WorkflowTaskFailedCause) -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.wait(1)

    assert run.when(task_failed(token, cause)) == FIRST_FAILURE
    assert run.last(ev.WorkflowTaskFailed) == ev.WorkflowTaskFailed(
        4, START_US + SECOND_US, 2, 3, cause, application(), IDENTITY
    )
    assert run.state.open


def test_the_first_time_out_is_written() -> None:
    run = Scenario(start())
    token = run.hand_out()

    assert run.when(timed_out(token)) == Then(
        events=["3 WorkflowTaskStarted", "4 WorkflowTaskTimedOut"],
        tasks=FIRST_FAILURE.tasks,
        timers=FIRST_FAILURE.timers,
    )
    assert run.last(ev.WorkflowTaskTimedOut) == ev.WorkflowTaskTimedOut(
        4, START_US, 2, 3, TimeoutType.START_TO_CLOSE
    )


def test_the_worker_that_failed_is_no_longer_preferred() -> None:
    run = Scenario(start())
    run.turn(cached=True)
    run.when(signal())
    assert run.state.sticky_worker_id == WORKER

    run.when(task_failed(run.hand_out()))
    assert run.state.sticky_worker_id == b""


def test_what_waited_is_numbered_after_the_failure() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    assert run.when(task_failed(token)).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskFailed",
        "5 WorkflowExecutionSignaled",
    ]


# ---- further attempts


@pytest.mark.parametrize("ending", [task_failed, timed_out])
def test_further_failures_only_count(ending: Ending) -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))

    assert run.fire(TimerKind.WORKFLOW_TASK_BACKOFF) == Then(
        tasks=["workflow ready 2", "workflow gone"], timers=["WORKFLOW_TASK_BACKOFF 0 gone"]
    )
    assert run.when(ending(run.hand_out())) == Then(
        tasks=["workflow backoff 3"], timers=["WORKFLOW_TASK_BACKOFF 0 +2s"]
    )


def test_the_back_off_doubles_from_one_second_to_ten_minutes() -> None:
    run = Scenario(start())
    delays = [run.when(task_failed(run.hand_out())).timers[-1]]
    for _ in range(11):
        delays += fail_again(run).timers

    assert [delay.split("+")[1] for delay in delays] == [
        f"{seconds}s" for seconds in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600)
    ]
    assert run.names.count("WorkflowTaskFailed") == 1
    assert run.task().attempt == 13


def test_the_back_off_of_any_attempt_is_bounded() -> None:
    assert [backoff_ms(attempt) for attempt in (1, 10, 11, 1_000_000)] == [
        1_000,
        512_000,
        600_000,
        600_000,
    ]


def test_what_arrives_during_the_back_off_is_numbered_and_waits_for_the_next_attempt() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    assert run.when(signal()) == Then(events=["5 WorkflowExecutionSignaled"])
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)

    token = run.hand_out()
    assert token.started_event_id == 7
    assert run.when(done(token)).events == [
        "6 WorkflowTaskScheduled",
        "7 WorkflowTaskStarted",
        "8 WorkflowTaskCompleted",
    ]


def test_a_success_ends_the_row_of_failures() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.turn()
    run.when(signal())

    assert run.when(task_failed(run.hand_out())) == Then(
        events=["10 WorkflowTaskStarted", "11 WorkflowTaskFailed"],
        tasks=["workflow backoff 2"],
        timers=["WORKFLOW_TASK_BACKOFF 0 +1s"],
    )


def test_attempts_survive_a_take_over() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    fail_again(run, "second")
    run.reload()

    assert fail_again(run).tasks == ["workflow backoff 4"]
    run.reload()
    assert run.task().attempt == 4


# ---- stuck


def test_a_run_shows_as_stuck_after_five_failures_in_a_row() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    for _ in range(3):
        fail_again(run)
    assert not describe(run.state).info.stuck
    assert run.saved.visibility[run.state.run_id].attrs == "{}"

    fail_again(run, "still broken")

    info = describe(run.state).info
    assert (info.stuck, info.stuck_reason) == (True, "still broken")
    assert run.saved.visibility[run.state.run_id].attrs == '{"stuck": "still broken"}'
    fail_again(run)
    assert describe(run.state).info.stuck


def test_a_stuck_run_that_ends_is_stuck_no_more() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    for _ in range(5):
        fail_again(run)
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.turn(COMPLETE)

    assert not describe(run.state).info.stuck
    assert run.saved.visibility[run.state.run_id].attrs == "{}"


# ---- duplicates and stale tokens


def test_a_failure_counts_once() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(task_failed(token))

    assert run.when(task_failed(token)) == STALE
    assert run.when(done(token)) == STALE


@pytest.mark.parametrize("first", [task_failed, timed_out])
@pytest.mark.parametrize("second", [timed_out, put_back])
@pytest.mark.parametrize("batches", ["one batch", "two batches"])
def test_invariant_24_a_start_that_has_ended_does_not_end_again(
    first: Ending, second: Ending, batches: str
) -> None:
    """The lease book may have asked for the time-out, or the put-back, of a start whose failure came in first."""
    run = Scenario(start())
    token = run.hand_out()
    run.decide(first(token))
    if batches == "two batches":
        run.commit()
    run.decide(second(token))
    run.commit()

    assert run.task().attempt == 2
    assert run.task().state.name == "BACKOFF"
    assert run.task().next_attempt_us == START_US + SECOND_US
    assert [row.due_us for row in run.state.timer_rows.values()] == [START_US + SECOND_US]


def test_invariant_24_a_start_that_has_ended_does_not_end_the_next_attempt_before_its_hand_out() -> (
    None
):
    run = Scenario(start())
    token = run.hand_out()
    run.when(task_failed(token))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)

    assert run.when(timed_out(token)) == NOTHING


def test_a_failure_with_the_token_of_an_earlier_hand_out_is_stale() -> None:
    run = Scenario(start())
    first = run.hand_out()
    run.when(put_back(first))
    run.hand_out()

    assert run.when(task_failed(first)) == STALE


def test_a_failure_of_a_task_that_the_history_has_left_behind_is_stale() -> None:
    """As for a completion: the token names the history it was handed out for (design §6)."""
    run = Scenario(start())
    token = run.hand_out()
    run.reload()
    run.when(signal())

    assert run.when(done(token)) == STALE
    assert run.when(task_failed(token)) == STALE


def test_a_failure_for_a_run_without_a_workflow_task_is_stale() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(done(token, activity("a")))

    assert run.when(task_failed(token)) == STALE
