"""Code that does not do what the history says: what is found, and what the error names."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow
from perdure._replay.messages import ActivityTaskScheduled, TaskFailure
from perdure.errors import NondeterminismError

LIMIT = timedelta(seconds=10)


@activity.defn
async def charge() -> None: ...


@activity.defn
async def refund() -> None: ...


async def do_charge() -> None:
    await workflow.execute_activity(charge, start_to_close_timeout=LIMIT)


async def do_refund() -> None:
    await workflow.execute_activity(refund, start_to_close_timeout=LIMIT)


async def do_named_charge() -> None:
    await workflow.execute_activity(charge, activity_id="mine", start_to_close_timeout=LIMIT)


async def do_sleep() -> None:
    await workflow.sleep(5)


async def do_sleep_longer() -> None:
    await workflow.sleep(50)


async def do_nothing() -> None:
    pass


async def do_wait() -> None:
    await workflow.wait_condition(lambda: False)


async def do_fail() -> None:
    raise ValueError("no")


async def do_child() -> None:
    await workflow.execute_child_workflow("Pack", id="c")


async def do_child_of_another_type() -> None:
    await workflow.execute_child_workflow("Unpack", id="c")


async def do_child_with_another_id() -> None:
    await workflow.execute_child_workflow("Pack", id="d")


async def do_child_with_other_options() -> None:
    await workflow.execute_child_workflow("Pack", id="c", task_queue="q", memo={"a": 1})


async def do_signal() -> None:
    await workflow.get_external_workflow_handle("o").signal("hello")


async def do_other_signal() -> None:
    await workflow.get_external_workflow_handle("o").signal("goodbye")


async def do_cancel() -> None:
    await workflow.get_external_workflow_handle("o").cancel()


async def do_cancel_another() -> None:
    await workflow.get_external_workflow_handle("p").cancel()


def flow(*steps: Callable[[], Any]) -> type:
    @workflow.defn(name="Flow")
    class Flow:
        @workflow.run
        async def run(self) -> None:
            for step in steps:
                await step()

    return Flow


def line_of(function: Callable[..., Any]) -> int:
    """Of the only statement of a function."""
    return inspect.getsourcelines(function)[1] + 1


def history_of(*steps: Callable[[], Any]) -> PocketEngine:
    """Up to the completion: each activity succeeds, each timer fires."""
    run = PocketEngine(flow(*steps))
    for _ in range(10):
        commands = run.task()
        for name in names(commands):
            kind, *ids = name.split()
            if kind == "ScheduleActivity":
                run.complete(ids[0])
            elif kind == "StartTimer":
                run.fire(ids[0])
            elif kind == "StartChildWorkflow":
                run.child_started(ids[0])
                run.child_completed(ids[0])
            elif kind == "SignalExternalWorkflow":
                run.signal_delivered(ids[0])
            elif kind == "RequestCancelExternalWorkflow":
                run.cancel_delivered(ids[0])
            elif kind in ("CompleteWorkflow", "FailWorkflow"):
                return run
    raise AssertionError("it does not end")


CASES = [
    pytest.param(
        [do_charge], [do_refund],
        "history event 5 is ActivityTaskScheduled(activity_id='1', activity_type='charge'), but "
        "the workflow's code did ScheduleActivity(activity_id='1', activity_type='refund') at ",
        do_refund, id="another activity",
    ),
    pytest.param(
        [do_charge], [do_named_charge],
        "but the workflow's code did ScheduleActivity(activity_id='mine', activity_type='charge')",
        do_named_charge, id="another activity id",
    ),
    pytest.param(
        [do_charge], [do_sleep],
        "history event 5 is ActivityTaskScheduled(activity_id='1', activity_type='charge'), but "
        "the workflow's code did StartTimer(timer_id='1') at ",
        do_sleep, id="another command",
    ),
    pytest.param(
        [do_charge, do_sleep], [do_charge, do_nothing],
        "history event 10 is TimerStarted(timer_id='1'), but the workflow's code did "
        "CompleteWorkflow at ",
        None, id="ended early",
    ),
    pytest.param(
        [do_charge], [do_wait],
        "history event 5 is ActivityTaskScheduled(activity_id='1', activity_type='charge'), but "
        "the workflow's code did nothing more; it waits at ",
        None, id="did nothing",
    ),
    pytest.param(
        [do_charge], [do_charge, do_sleep],
        "history event 10 is WorkflowExecutionCompleted, but the workflow's code did "
        "StartTimer(timer_id='1') at ",
        do_sleep, id="more after the end",
    ),
    pytest.param(
        [do_charge], [do_charge, do_fail],
        "history event 10 is WorkflowExecutionCompleted, but the workflow's code did FailWorkflow",
        do_fail, id="failed instead",
    ),
    pytest.param(
        [do_child], [do_child_of_another_type],
        "history event 5 is StartChildWorkflowExecutionInitiated(workflow_id='c', "
        "workflow_type='Pack'), but the workflow's code did "
        "StartChildWorkflow(workflow_id='c', workflow_type='Unpack') at ",
        do_child_of_another_type, id="another type of child",
    ),
    pytest.param(
        [do_child], [do_child_with_another_id],
        "but the workflow's code did StartChildWorkflow(workflow_id='d', workflow_type='Pack') at ",
        do_child_with_another_id, id="another child",
    ),
    pytest.param(
        [do_child], [do_charge],
        "history event 5 is StartChildWorkflowExecutionInitiated(workflow_id='c', "
        "workflow_type='Pack'), but the workflow's code did ScheduleActivity(activity_id='1', "
        "activity_type='charge') at ",
        do_charge, id="an activity instead of a child",
    ),
    pytest.param(
        [do_child], [do_wait],
        "history event 5 is StartChildWorkflowExecutionInitiated(workflow_id='c', "
        "workflow_type='Pack'), but the workflow's code did nothing more; it waits at ",
        None, id="no child",
    ),
    pytest.param(
        [do_charge], [do_child],
        "history event 5 is ActivityTaskScheduled(activity_id='1', activity_type='charge'), but "
        "the workflow's code did StartChildWorkflow(workflow_id='c', workflow_type='Pack') at ",
        do_child, id="a child instead of an activity",
    ),
    pytest.param(
        [do_signal], [do_other_signal],
        "history event 5 is SignalExternalWorkflowExecutionInitiated(workflow_id='o', "
        "signal_name='hello'), but the workflow's code did "
        "SignalExternalWorkflow(workflow_id='o', signal_name='goodbye') at ",
        do_other_signal, id="another signal",
    ),
    pytest.param(
        [do_cancel], [do_cancel_another],
        "history event 5 is RequestCancelExternalWorkflowExecutionInitiated(workflow_id='o'), but "
        "the workflow's code did RequestCancelExternalWorkflow(workflow_id='p') at ",
        do_cancel_another, id="another run is cancelled",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said", "line"), CASES)
def test_what_the_error_names(
    old: list[Any], new: list[Any], said: str, line: Callable[..., Any] | None
) -> None:
    run = history_of(*old)

    outcome = run.replay_all(flow(*new))

    assert isinstance(outcome, TaskFailure)
    assert outcome.cause.name == "NON_DETERMINISM"
    assert said in outcome.failure.message
    assert __file__ in outcome.failure.message
    if line is not None:
        assert f"{__file__}:{line_of(line)} in {line.__name__}" in outcome.failure.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param([do_charge, do_sleep], [do_charge, do_sleep], id="the same"),
        pytest.param([do_sleep], [do_sleep_longer], id="another duration"),
        pytest.param([do_child, do_signal], [do_child, do_signal], id="the same, of others"),
        pytest.param([do_child], [do_child_with_other_options], id="other options of a child"),
    ],
)
def test_what_is_no_deviation(old: list[Any], new: list[Any]) -> None:
    run = history_of(*old)

    assert not isinstance(run.replay_all(flow(*new)), TaskFailure)


def test_a_command_too_many_is_found_at_the_next_event() -> None:
    run = PocketEngine(flow(do_charge))
    run.task()
    run.signal("anything")

    async def both() -> None:
        workflow.start_activity(charge, start_to_close_timeout=LIMIT)
        workflow.start_activity(refund, start_to_close_timeout=LIMIT)

    run.begin_task()
    outcome = run.replay_outcome(flow(both, do_wait))
    assert isinstance(outcome, TaskFailure)
    assert "but the workflow's code did ScheduleActivity(activity_id='2'" in outcome.failure.message


def test_a_cached_run_is_checked_as_well() -> None:
    run = PocketEngine(flow(do_charge, do_wait))
    run.task()
    # What the engine wrote is not what we said.
    run.events.pop()
    run.add(ActivityTaskScheduled, activity_id="1", activity_type="other")

    failure = run.failed_task()

    assert failure.cause.name == "NON_DETERMINISM"


def test_a_user_may_have_deviations_fail_the_run() -> None:
    """Only what the code itself raises; what replay finds cannot be told to the code."""

    @workflow.defn(failure_exception_types=[NondeterminismError])
    class Strict:
        @workflow.run
        async def run(self) -> None:
            raise NondeterminismError("I can tell")

    assert names(PocketEngine(Strict).task()) == ["FailWorkflow I can tell"]
