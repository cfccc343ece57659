"""What people are told of a run."""

from __future__ import annotations

import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    IDENTITY,
    SECOND_US,
    START_US,
    WORKFLOW_ID,
    Scenario,
    activity,
    application,
    cancel,
    completed,
    failed,
    run_id,
    save_start,
    signal,
    start,
    task_failed,
    timer,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core.describe import closed_reply, describe, run_info
from perdure_engine.core.replies import (
    Closed,
    PendingActivity,
    PendingTimer,
    PendingWorkflowTask,
    RunInfo,
)
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status


def pending(run: Scenario) -> PendingActivity:
    [one] = describe(run.state).activities
    return one


def with_activity() -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", retry_policy=RetryPolicy(maximum_attempts=7), task_queue="cards"))
    return run


def test_a_run_that_just_began() -> None:
    run = Scenario(
        start(memo=b"memo", run_timeout_ms=1_000, execution_timeout_ms=2_000, task_timeout_ms=3_000)
    )
    description = describe(run.state)

    assert description.info == RunInfo(
        WORKFLOW_ID,
        run_id(1),
        "Order",
        "orders",
        Status.RUNNING,
        START_US,
        0,
        2,
        run.state.history_bytes,
        b"memo",
    )
    assert (
        description.execution_timeout_ms,
        description.run_timeout_ms,
        description.task_timeout_ms,
    ) == (2_000, 1_000, 3_000)
    assert (description.activities, description.timers) == ([], [])
    assert description.workflow_task == PendingWorkflowTask(1, START_US, 0, "", None)
    assert not description.cancel_requested
    assert description.buffered_events == 0


def test_a_run_that_has_closed() -> None:
    run = Scenario(start())
    run.turn(activity("a"), timer("t"))
    run.when(signal())
    run.wait(5)
    run.turn(COMPLETE)
    description = describe(run.state)

    assert (description.info.status, description.info.close_us) == (
        Status.COMPLETED,
        START_US + 5 * SECOND_US,
    )
    assert (description.activities, description.timers) == ([], [])
    assert description.workflow_task is None
    assert closed_reply(run.state) == Closed(run_id(1), Status.COMPLETED, run.events[-1])  # type: ignore[arg-type]


def test_an_activity_that_waits() -> None:
    assert pending(with_activity()) == PendingActivity(
        "a", "charge", "cards", "SCHEDULED", 1, 7, START_US, 0, 0, "", None, b""
    )


@pytest.mark.parametrize("saved", [False, True], ids=["start unsaved", "start saved"])
def test_an_activity_that_runs(saved: bool) -> None:
    run = with_activity()
    run.wait(2)
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))
        run.reload()

    assert pending(run) == PendingActivity(
        "a",
        "charge",
        "cards",
        "STARTED",
        1,
        7,
        START_US,
        START_US + 2 * SECOND_US,
        0,
        IDENTITY,
        None,
        b"",
    )


def test_an_activity_that_backs_off() -> None:
    run = with_activity()
    run.when(failed(run.hand_out("a"), progress=b"half"))

    assert pending(run) == PendingActivity(
        "a",
        "charge",
        "cards",
        "BACKING_OFF",
        2,
        7,
        START_US,
        0,
        START_US + SECOND_US,
        "",
        application(),
        b"half",
    )


def test_an_activity_that_was_asked_to_cancel() -> None:
    run = with_activity()
    run.hand_out("a")
    run.when(signal())
    run.turn(cmd.RequestCancelActivity(5))

    assert pending(run).state == "CANCEL_REQUESTED"


def test_an_activity_whose_outcome_waits_in_the_inbox_still_counts_as_started() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(signal(1))
    run.hand_out()
    run.when(completed(token))

    assert pending(run).state == "STARTED"
    assert describe(run.state).buffered_events == 2


def test_timers_that_are_pending() -> None:
    run = Scenario(start())
    run.turn(timer("t", 1), timer("u", 2))

    assert describe(run.state).timers == [
        PendingTimer("t", START_US + SECOND_US),
        PendingTimer("u", START_US + 2 * SECOND_US),
    ]


def test_a_cancellation_that_was_asked_for() -> None:
    run = Scenario(start())
    run.when(cancel())

    assert describe(run.state).cancel_requested


def test_a_workflow_task_that_is_out() -> None:
    run = Scenario(start())
    run.wait(1)
    run.hand_out()

    assert describe(run.state).workflow_task == PendingWorkflowTask(
        1, START_US, START_US + SECOND_US, IDENTITY, None
    )


def test_a_workflow_task_that_failed() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out(), message="no such type"))

    task = describe(run.state).workflow_task
    assert task is not None
    assert (task.attempt, task.last_failure) == (2, application("no such type"))


def test_describing_changes_nothing() -> None:
    run = with_activity()
    before = run.state.version, run.state.history_bytes, len(run.events)
    describe(run.state)
    run_info(run.state)

    assert (run.state.version, run.state.history_bytes, len(run.events)) == before
