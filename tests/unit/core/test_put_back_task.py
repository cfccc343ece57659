"""A worker is gone, or never got its task (semantics §4): the task is ready again, and no attempt is counted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    IDENTITY,
    NOTHING,
    Scenario,
    Then,
    activity,
    completed,
    done,
    failed,
    put_back,
    save_start,
    signal,
    start,
    task_failed,
)

from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.failures import FailureKind, RetryState
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind, TimerKind

ONCE = RetryPolicy(maximum_attempts=1)
how = pytest.mark.parametrize("worker_dead", [False, True], ids=["never got it", "worker dead"])
saved = pytest.mark.parametrize("saved", [False, True], ids=["start unsaved", "start saved"])


def with_activity(**options: Any) -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", **options))
    return run


# ---- activities


@how
@saved
def test_an_activity_is_ready_at_once_and_no_attempt_is_counted(
    worker_dead: bool, saved: bool
) -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=2))
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))

    assert run.when(put_back(token, worker_dead=worker_dead)) == Then(
        tasks=["activity 5 ready 1", "activity 5 gone"]
    )
    assert (run.task("a").worker_id, run.task("a").identity) == (b"", "")


def test_the_next_attempt_after_a_lost_worker_has_what_was_there() -> None:
    run = with_activity()
    run.when(failed(run.hand_out("a"), progress=b"half"))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    before = run.task("a")
    run.when(put_back(run.hand_out("a")))

    record = run.task("a")
    assert record.task_id != before.task_id
    assert record.attempt == 2
    assert record.last_failure == before.last_failure
    assert (record.progress, record.progress_version) == (b"half", 1)


def test_invariant_31_a_lost_worker_does_not_use_up_an_attempt() -> None:
    run = with_activity(retry_policy=RetryPolicy(maximum_attempts=2))
    for _ in range(5):
        run.when(put_back(run.hand_out("a")))
    run.when(failed(run.hand_out("a")))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    run.when(put_back(run.hand_out("a")))

    assert run.when(failed(run.hand_out("a"))).events[1] == "7 ActivityTaskFailed"
    assert run.last(ev.ActivityTaskStarted).attempt == 2


@saved
def test_an_activity_that_may_run_once_fails_as_worker_lost(saved: bool) -> None:
    run = with_activity(retry_policy=ONCE)
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))
        run.reload()

    assert run.when(put_back(token)) == Then(
        events=["6 ActivityTaskStarted", "7 ActivityTaskFailed", "8 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "activity 5 gone"],
    )
    event = run.last(ev.ActivityTaskFailed)
    assert event.retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert event.failure.cause is not None
    assert (event.failure.cause.kind, event.failure.cause.identity) == (
        FailureKind.WORKER_LOST,
        IDENTITY,
    )
    assert event.identity == IDENTITY


def test_an_activity_that_may_run_once_and_never_reached_its_worker_is_ready_again() -> None:
    run = with_activity(retry_policy=ONCE)

    assert run.when(put_back(run.hand_out("a"), worker_dead=False)).tasks[0] == "activity 5 ready 1"


def test_the_timers_of_the_activity_go_on() -> None:
    run = with_activity(schedule_to_close_timeout_ms=60_000)

    assert run.when(put_back(run.hand_out("a"))).timers == []


# ---- the workflow task


@how
@saved
def test_a_workflow_task_is_ready_at_once_for_any_worker(worker_dead: bool, saved: bool) -> None:
    run = Scenario(start())
    run.turn(cached=True)
    run.when(signal())
    token = run.hand_out()
    if saved:
        run.when(save_start(token))

    assert run.when(put_back(token, worker_dead=worker_dead)) == Then(
        tasks=["workflow ready 1", "workflow gone"]
    )
    assert run.state.sticky_worker_id == b""
    assert run.when(done(run.hand_out())).events == [
        "7 WorkflowTaskStarted",
        "8 WorkflowTaskCompleted",
    ]


def test_what_waited_for_the_workflow_task_is_numbered() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    assert run.when(put_back(token)) == Then(
        events=["3 WorkflowExecutionSignaled"], tasks=["workflow ready 1", "workflow gone"]
    )
    assert run.hand_out().started_event_id == 4


def test_a_transient_workflow_task_keeps_its_attempt() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)

    assert run.when(put_back(run.hand_out())).tasks == ["workflow ready 2", "workflow gone"]


def test_events_that_wait_for_a_task_nobody_claimed_are_numbered_before_its_next_start() -> None:
    """After a take-over the unsaved start is forgotten; history.handout puts the task back by its row's number."""
    run = Scenario(start())
    run.hand_out()
    run.when(signal())
    run.reload()
    record = run.task()

    then = run.when(
        intents.PutBackTask(
            run.state.run_id,
            TaskKind.WORKFLOW,
            record.scheduled_event_id,
            record.start_no,
            worker_dead=False,
        )
    )

    assert then.events == ["3 WorkflowExecutionSignaled"]
    assert run.turn().events == ["4 WorkflowTaskStarted", "5 WorkflowTaskCompleted"]


def test_a_saved_start_that_nobody_claimed_is_put_back() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(save_start(token))
    run.reload()

    assert run.when(put_back(token)).tasks == ["activity 5 ready 1", "activity 5 gone"]


# ---- stale


def test_a_put_back_is_for_the_start_it_names() -> None:
    run = with_activity()
    first = run.hand_out("a")
    run.when(put_back(first))
    second = run.hand_out("a")

    assert run.when(put_back(first)) == NOTHING
    assert run.when(completed(second)).events[1] == "7 ActivityTaskCompleted"
    assert run.when(put_back(second)) == NOTHING


def test_a_put_back_in_the_batch_of_the_outcome_changes_nothing() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.decide(completed(token))
    run.decide(put_back(token))

    assert run.commit().events == [
        "6 ActivityTaskStarted",
        "7 ActivityTaskCompleted",
        "8 WorkflowTaskScheduled",
    ]


def test_a_put_back_of_what_never_was_changes_nothing() -> None:
    run = Scenario(start())

    for kind, key in ((TaskKind.ACTIVITY, 5), (TaskKind.WORKFLOW, 2)):
        assert (
            run.when(intents.PutBackTask(run.state.run_id, kind, key, 99, worker_dead=True))
            == NOTHING
        )
