"""A hand-out is written into its row, once, while it is the one that holds (design §6)."""

from __future__ import annotations

from tests.unit.core.scenario import (
    IDENTITY,
    NOTHING,
    START_US,
    WORKER,
    Scenario,
    Then,
    activity,
    completed,
    failed,
    put_back,
    save_start,
    signal,
    start,
)

from perdure_engine.core import intents
from perdure_engine.core.tasks import TaskState


def test_a_start_is_saved_with_who_has_it_since_when() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")

    assert run.when(save_start(token)) == Then(tasks=["activity 5 started 1"])
    run.reload()
    record = run.task("a")
    assert record.state is TaskState.STARTED
    assert (record.start_no, record.worker_id, record.identity, record.started_us) == (
        token.start_no,
        WORKER,
        IDENTITY,
        START_US,
    )


def test_the_start_of_a_workflow_task_is_saved() -> None:
    run = Scenario(start())

    assert run.when(save_start(run.hand_out())) == Then(tasks=["workflow started 1"])
    run.reload()
    assert run.state.workflow_task_out


def test_a_start_is_saved_once() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(save_start(token))

    assert run.when(save_start(token)) == NOTHING


def test_a_start_that_is_over_is_not_saved() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"), activity("c"))
    a, b, c = (run.hand_out(name) for name in "abc")
    run.when(completed(a))
    run.when(failed(b))
    run.when(put_back(c))

    for token in (a, b, c):
        assert run.when(save_start(token)) == NOTHING


def test_a_start_of_before_a_take_over_is_not_saved() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.reload()

    assert run.when(save_start(token)) == NOTHING


def test_an_older_start_does_not_save_a_newer_one() -> None:
    run = Scenario(start())
    first = run.hand_out()
    run.when(put_back(first))
    run.hand_out()

    assert run.when(save_start(first)) == NOTHING
    assert run.when(intents.SaveStart(run.state.run_id, 99, 1)) == NOTHING


def test_a_saved_start_still_buffers_what_arrives() -> None:
    run = Scenario(start())
    run.when(save_start(run.hand_out()))
    run.reload()

    assert run.when(signal()) == Then(buffered=["WorkflowExecutionSignaled"])
