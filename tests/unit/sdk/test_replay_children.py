"""Child workflows in workflow code: commands out, what becomes of them in, live and replayed alike."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, value_of

from perdure import workflow
from perdure._failure_info import ChildWorkflowInfo
from perdure._replay.external_messages import (
    ChildWorkflowExecutionCompleted,
    ParentClosePolicy,
    SignalExternalWorkflow,
    StartChildWorkflow,
)
from perdure._replay.messages import FailWorkflow, Parents
from perdure.common import (
    Priority,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIdReusePolicy,
)
from perdure.errors import (
    ApplicationError,
    ChildWorkflowError,
    RetryState,
    TerminatedError,
    TimeoutError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)


@dataclass
class Parcel:
    weight: int


@workflow.defn(name="pack")
class Pack:
    @workflow.run
    async def run(self, what: str) -> Parcel:
        return Parcel(len(what))

    @workflow.signal
    def hurry(self, why: str) -> None: ...

    @workflow.signal(name="stop at once")
    def stop(self) -> None: ...


@workflow.defn
class Ordering:
    """Packs, and tells the weight."""

    @workflow.run
    async def run(self) -> int:
        parcel = await workflow.execute_child_workflow(Pack.run, "book", id="c")
        return parcel.weight


@workflow.defn
class Telling:
    """Tells what the error says that its child raised."""

    @workflow.run
    async def run(self) -> list[Any]:
        try:
            await workflow.execute_child_workflow(Pack.run, "book", id="c")
        except ChildWorkflowError as error:
            cause = error.cause
            kind = cause.type if isinstance(cause, ApplicationError | TimeoutError) else None
            return [
                error.message,
                [error.namespace, error.workflow_id, error.run_id, error.workflow_type],
                [error.initiated_event_id, error.started_event_id],
                None if error.retry_state is None else error.retry_state.name,
                [type(cause).__name__, str(cause), kind],
            ]
        except WorkflowAlreadyStartedError as error:
            return [error.message, error.workflow_id, error.workflow_type, error.run_id]
        return []


def started(cls: type, *args: Any) -> PocketEngine:
    """Its child has started, and it knows."""
    run = PocketEngine(cls, *args)
    run.task()
    run.child_started("c")
    assert run.task() == []
    return run


def said(run: PocketEngine) -> Any:
    """The run's result, which it must have now; the same when it is replayed."""
    (command,) = run.task()
    assert names([command])[0].startswith("CompleteWorkflow"), names([command])
    assert names(run.replay()) == names([command])
    assert run.replay_all().query_results == []
    result: Any = value_of(command.result)  # type: ignore[attr-defined]
    return result


# --- starting -------------------------------------------------------------------------------------


def test_a_child_is_started_and_its_result_decoded_by_its_hint() -> None:
    run = PocketEngine(Ordering)
    (command,) = run.task()
    assert isinstance(command, StartChildWorkflow)
    assert (command.workflow_id, command.workflow_type) == ("c", "pack")
    assert value_of(command.input) == "book"
    assert command.task_queue == ""  # the parent's

    run.child_started("c")
    assert run.task() == []
    assert run.replay() == []
    run.child_completed("c", Parcel(4))
    assert said(run) == 4


def test_a_child_that_started_and_ended_between_two_tasks() -> None:
    run = PocketEngine(Ordering)
    run.task()
    run.child_started("c")
    run.child_completed("c", Parcel(4))
    assert said(run) == 4


def test_every_option_travels() -> None:
    city = SearchAttributePair(SearchAttributeKey.for_keyword("city"), "Rome")
    policy = RetryPolicy(maximum_attempts=3)

    @workflow.defn
    class Detailed:
        @workflow.run
        async def run(self) -> None:
            await workflow.execute_child_workflow(
                "other",
                args=[1, "two"],
                id="mine",
                task_queue="mail",
                parent_close_policy=ParentClosePolicy.ABANDON,
                execution_timeout=timedelta(hours=1),
                run_timeout=timedelta(minutes=1),
                task_timeout=timedelta(microseconds=1),
                id_reuse_policy=WorkflowIdReusePolicy.REJECT_DUPLICATE,
                retry_policy=policy,
                cron_schedule="@daily",
                memo={"note": "fragile"},
                search_attributes=[city],
                priority=Priority(priority_key=2),
                static_summary="in short",
                static_details="at length",
            )

    (command,) = PocketEngine(Detailed).task()

    assert isinstance(command, StartChildWorkflow)
    assert [value_of([one]) for one in command.input] == [1, "two"]
    assert value_of([command.memo["note"]]) == "fragile"
    assert command.static_summary is not None
    assert value_of([command.static_summary]) == "in short"
    assert command.static_details is not None
    assert value_of([command.static_details]) == "at length"
    assert (command.workflow_id, command.task_queue) == ("mine", "mail")
    assert command.parent_close_policy is ParentClosePolicy.ABANDON
    assert command.execution_timeout_ms == 3_600_000
    assert command.run_timeout_ms == 60_000
    assert command.task_timeout_ms == 1  # never 0, which is the default
    assert command.id_reuse_policy is WorkflowIdReusePolicy.REJECT_DUPLICATE
    assert command.retry_policy is policy
    assert command.cron_schedule == "@daily"
    assert list(command.search_attributes) == [city]
    assert command.priority == 2


def test_without_options_the_defaults_of_the_contract_are_said() -> None:
    (command,) = PocketEngine(Ordering).task()
    assert isinstance(command, StartChildWorkflow)
    assert command.parent_close_policy is ParentClosePolicy.TERMINATE
    assert command.id_reuse_policy is WorkflowIdReusePolicy.ALLOW_DUPLICATE
    assert command.search_attributes is TypedSearchAttributes.empty
    assert command.retry_policy is None
    assert command.execution_timeout_ms == 0


def test_an_id_that_is_not_given_is_a_uuid_and_the_same_on_replay() -> None:
    @workflow.defn
    class Nameless:
        @workflow.run
        async def run(self) -> None:
            await asyncio.gather(
                workflow.execute_child_workflow("one"), workflow.execute_child_workflow("two")
            )

    run = PocketEngine(Nameless)
    first, second = run.task()
    assert isinstance(first, StartChildWorkflow)
    assert isinstance(second, StartChildWorkflow)
    assert UUID(first.workflow_id).version == 4
    assert first.workflow_id != second.workflow_id
    assert names(run.replay()) == names([first, second])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"id": ""}, "an id must not be empty"),
        ({"run_timeout": timedelta(seconds=-1)}, "must not be negative"),
        ({"args": [1]}, "one argument or args=, not both"),
    ],
)
def test_options_that_make_no_sense_are_refused_and_nothing_is_started(
    options: dict[str, Any], words: str
) -> None:
    @workflow.defn
    class Wrong:
        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.execute_child_workflow("other", 1, **options)
            except ValueError as error:
                return str(error)
            return "not reached"

    (name,) = names(PocketEngine(Wrong).task())
    assert words in name


def test_what_is_no_workflow_is_no_child() -> None:
    @workflow.defn
    class Confused:
        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.execute_child_workflow(asyncio.sleep, 1)  # noqa: TID251
            except TypeError as error:
                return str(error)
            return "not reached"

    (name,) = names(PocketEngine(Confused).task())
    assert "is not a workflow: decorate its class with @workflow.defn" in name


# --- what it comes to -----------------------------------------------------------------------------


def test_a_child_that_failed_raises_child_workflow_error_with_its_cause() -> None:
    run = started(Telling)
    run.child_failed("c", ApplicationError("no paper", type="Empty"), RetryState.TIMEOUT)
    assert said(run) == [
        "Child Workflow execution failed",
        ["default", "c", "last run of c", "pack"],
        [5, 6],
        "TIMEOUT",
        ["ApplicationError", "Empty: no paper", "Empty"],
    ]


def test_a_child_that_took_too_long_has_a_timeout_for_a_cause() -> None:
    run = started(Telling)
    run.child_timed_out("c")
    message, *_, retry_state, cause = said(run)
    assert message == "Child Workflow execution timed out"
    assert retry_state == "TIMEOUT"
    assert cause == ["TimeoutError", "Timed out", TimeoutType.START_TO_CLOSE]


def test_a_child_that_was_terminated_has_that_for_a_cause() -> None:
    run = started(Telling)
    run.child_terminated("c")
    message, *_, retry_state, cause = said(run)
    assert message == "Child Workflow execution terminated"
    assert retry_state == "NON_RETRYABLE_FAILURE"
    assert cause == [TerminatedError.__name__, "Terminated", None]


def test_a_child_that_others_cancelled_raises_too() -> None:
    run = started(Telling)
    run.child_canceled("c")
    message, *_, cause = said(run)
    assert message == "Child Workflow execution cancelled"
    assert cause == ["CancelledError", "Cancelled", None]


def test_an_id_that_is_taken() -> None:
    run = PocketEngine(Telling)
    run.task()
    run.child_id_taken("c")
    assert said(run) == ["workflow 'c' has already been started", "c", "pack", None]


def test_an_error_of_a_child_that_nobody_catches_fails_the_run_with_its_causes() -> None:
    run = started(Ordering)
    run.child_failed("c", ApplicationError("no paper"))

    (command,) = run.task()

    assert isinstance(command, FailWorkflow)
    assert command.failure.message == "Child Workflow execution failed"
    assert isinstance(command.failure.info, ChildWorkflowInfo)
    assert command.failure.info.workflow_id == "c"
    assert command.failure.cause is not None
    assert command.failure.cause.message == "no paper"


def test_a_result_that_does_not_decode_fails_the_task_and_names_event_and_child() -> None:
    run = started(Ordering)
    run.child_completed("c", "no parcel")
    failure = run.failed_task()
    assert failure.cause.name == "PAYLOAD_DECODE"
    assert "event 10, the result of child workflow 'c' (pack)" in failure.failure.message


def test_an_event_of_no_child_fails_the_task() -> None:
    run = PocketEngine(Ordering)
    run.add(ChildWorkflowExecutionCompleted, initiated_event_id=99, result=[])
    failure = run.failed_task()
    assert "no child workflow was initiated, or is open, by event 99" in failure.failure.message


# --- the handle -----------------------------------------------------------------------------------


@workflow.defn
class Holding:
    """Tells what it knows of its child, signals it, and waits for it twice."""

    @workflow.run
    async def run(self) -> list[Any]:
        handle = await workflow.start_child_workflow(Pack.run, "book", id="c")
        known = [handle.id, handle.first_execution_run_id, handle.done()]
        await handle.signal(Pack.hurry, "late")
        await handle.signal(Pack.stop)
        await handle.signal("anything", args=[1, 2])
        return [*known, (await handle).weight, (await handle).weight]


def test_the_handle_knows_its_child_and_signals_it() -> None:
    run = PocketEngine(Holding)
    assert names(run.task()) == ["StartChildWorkflow c pack"]
    run.child_started("c")
    for name, values in (("hurry", ["late"]), ("stop at once", []), ("anything", [1, 2])):
        (command,) = run.task()
        assert isinstance(command, SignalExternalWorkflow)
        assert (command.workflow_id, command.run_id, command.signal_name) == ("c", "", name)
        assert command.child_workflow_only
        assert [value_of([one]) for one in command.input] == values
        assert names(run.replay()) == names([command])
        run.signal_delivered("c")
    assert run.task() == []
    run.child_completed("c", Parcel(4))
    assert said(run) == ["c", "run of c", False, 4, 4]


def test_a_signal_to_a_child_that_has_closed_raises() -> None:
    @workflow.defn
    class Late:
        @workflow.run
        async def run(self) -> list[Any]:
            handle = await workflow.start_child_workflow(Pack.run, "book", id="c")
            try:
                await handle.signal(Pack.stop)
            except ApplicationError as error:
                return [error.message, error.type]
            return []

    run = PocketEngine(Late)
    run.task()
    run.child_started("c")
    run.task()
    run.signal_refused("c")
    assert said(run) == [
        "Unable to signal external workflow because it was not found",
        "ExternalWorkflowExecutionNotFound",
    ]


def test_many_children_end_in_any_order() -> None:
    @workflow.defn
    class Many:
        @workflow.run
        async def run(self) -> list[int]:
            handles = [
                await workflow.start_child_workflow(Pack.run, "x", id=f"c{number}")
                for number in range(3)
            ]
            done, _ = await asyncio.wait(handles)
            assert done == set(handles)
            return [one.result().weight for one in handles]

    run = PocketEngine(Many)
    for number in range(3):
        assert names(run.task()) == [f"StartChildWorkflow c{number} pack"]
        run.child_started(f"c{number}")
    run.task()
    for number in (2, 0, 1):
        run.child_completed(f"c{number}", Parcel(number))
    assert said(run) == [0, 1, 2]


def test_sets_of_handles_are_in_the_order_in_which_the_children_began() -> None:
    """asyncio keeps what it waits for in sets: their order must be the same on each replay."""

    @workflow.defn
    class Sets:
        @workflow.run
        async def run(self) -> list[str]:
            starts = [workflow.start_child_workflow("Child", id=f"c{one:02}") for one in range(20)]
            done, _ = await asyncio.wait(await asyncio.gather(*starts))
            return [handle.id for handle in done]  # type: ignore[attr-defined]

    run = PocketEngine(Sets)
    run.task()
    for one in range(20):
        run.child_started(f"c{one:02}")
    run.task()
    for one in reversed(range(20)):
        run.child_completed(f"c{one:02}")
    assert said(run) == [f"c{one:02}" for one in range(20)]


def test_a_child_that_nobody_waits_for_may_go_on() -> None:
    @workflow.defn
    class Abandoning:
        @workflow.run
        async def run(self) -> str:
            handle = await workflow.start_child_workflow(
                Pack.run, "book", id="c", parent_close_policy=ParentClosePolicy.ABANDON
            )
            return handle.id

    run = PocketEngine(Abandoning)
    run.task()
    run.child_started("c")
    assert said(run) == "c"


# --- who can see and do what ----------------------------------------------------------------------


def test_a_child_knows_its_parent_and_the_first_above() -> None:
    @workflow.defn
    class Curious:
        @workflow.run
        async def run(self) -> list[str] | None:
            parent, root = workflow.info().parent, workflow.info().root
            if parent is None or root is None:
                assert parent is None
                assert root is None
                return None
            return [
                parent.namespace, parent.workflow_id, parent.run_id, root.workflow_id, root.run_id
            ]  # fmt: skip

    assert names(PocketEngine(Curious).task()) == ["CompleteWorkflow None"]
    parents = Parents(
        parent_workflow_id="p", parent_run_id="pr", root_workflow_id="r", root_run_id="rr"
    )
    run = PocketEngine(Curious, started={"parents": parents})
    assert said(run) == ["default", "p", "pr", "r", "rr"]


@workflow.defn
class Guarded:
    def __init__(self) -> None:
        self.trying = False

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_child_workflow(Pack.run, "book", id="c")

    @workflow.query
    def start_one(self) -> None:
        self.child = asyncio.ensure_future(workflow.execute_child_workflow("other"))

    @workflow.query
    def step_into_one(self) -> None:
        workflow.execute_child_workflow("other").send(None)

    @workflow.query
    def signal_one(self) -> None:
        workflow.get_external_workflow_handle("o").signal("hello").send(None)

    @workflow.query
    def cancel_one(self) -> None:
        workflow.get_external_workflow_handle("o").cancel().send(None)

    @workflow.update
    def change(self) -> None: ...

    @change.validator
    def check(self) -> None:
        workflow.execute_child_workflow("other").send(None)


@pytest.mark.parametrize("query", ["start_one", "step_into_one", "signal_one", "cancel_one"])
def test_queries_start_signal_and_cancel_nothing(query: str) -> None:
    run = started(Guarded)
    result = run.query(query)
    assert result.failure is not None
    assert f"query '{query}' must not change the workflow" in result.failure.message
    run.child_completed("c", Parcel(1))
    assert names(run.task()) == ["CompleteWorkflow None"]


def test_validators_start_nothing() -> None:
    run = started(Guarded)
    run.update("u-1", "change")
    run.run_task()
    assert "must not change the workflow" in run.rejected["u-1"].message


def test_the_stack_shows_where_a_child_is_waited_for() -> None:
    run = started(Ordering)
    text = value_of(run.query("__stack_trace").result)
    assert f"{__file__}:" in text
    assert "in Ordering.run" in text
