"""Cancelling the wait for a child: in every state of it, for each cancellation type, by whomever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import workflow
from perdure._replay.external_messages import RequestCancelExternalWorkflow
from perdure.errors import ApplicationError, CancelledError, ChildWorkflowError
from perdure.workflow import ChildWorkflowCancellationType as Type

ALL = list(Type)
ASKING = [one for one in Type if one is not Type.ABANDON]
WAITING = [Type.WAIT_CANCELLATION_COMPLETED, Type.WAIT_CANCELLATION_REQUESTED]
START, ASK = "StartChildWorkflow c Child", "RequestCancelExternalWorkflow c"
CANCELLED = "CompleteWorkflow cancelled"


@workflow.defn
class Parent:
    """Waits for its child, and says how it heard of a cancellation."""

    @workflow.run
    async def run(self, how: Type) -> Any:
        try:
            return await workflow.execute_child_workflow("Child", id="c", cancellation_type=how)
        except ChildWorkflowError as error:
            return "cancelled" if isinstance(error.cause, CancelledError) else "failed"


@workflow.defn
class Limited:
    """As Parent, with asyncio's own time limit around it."""

    @workflow.run
    async def run(self, how: Type) -> Any:
        try:
            async with asyncio.timeout(5):
                return await workflow.execute_child_workflow("Child", id="c", cancellation_type=how)
        except TimeoutError:
            return "took too long"
        except ChildWorkflowError:
            return "heard as an error"


def step(run: PocketEngine) -> list[str]:
    """One workflow task; on replay the code does the same."""
    commands = names(run.task())
    assert names(run.replay()) == commands
    return commands


def initiated(how: Type, cls: type = Parent) -> PocketEngine:
    run = PocketEngine(cls, how)
    step(run)
    return run


def started(how: Type, cls: type = Parent) -> PocketEngine:
    run = initiated(how, cls)
    run.child_started("c")
    step(run)
    return run


# --- before the start was sent --------------------------------------------------------------------


@pytest.mark.parametrize("how", ALL)
def test_a_start_that_was_not_sent_is_never_sent(how: Type) -> None:
    run = PocketEngine(Parent, how)
    run.cancel()
    assert step(run) == [CANCELLED]


# --- before it has started ------------------------------------------------------------------------


def test_abandoned_before_it_has_started_it_starts_and_ends_unheard() -> None:
    run = initiated(Type.ABANDON)
    run.cancel()
    assert step(run) == [CANCELLED]


def test_asked_before_it_has_started_without_waiting() -> None:
    run = initiated(Type.TRY_CANCEL)
    run.cancel()
    assert step(run) == [ASK, CANCELLED]


@pytest.mark.parametrize("how", WAITING)
def test_a_start_that_is_taken_back(how: Type) -> None:
    """The engine had not delivered it yet: the child is cancelled without ever having started."""
    run = initiated(how)
    run.cancel()
    assert step(run) == [ASK]
    run.child_canceled("c")
    run.cancel_delivered("c")
    assert step(run) == [CANCELLED]


@pytest.mark.parametrize("how", WAITING)
def test_asked_before_it_has_started_it_is_told_when_it_has(how: Type) -> None:
    run = initiated(how)
    run.cancel()
    assert step(run) == [ASK]
    run.child_started("c")
    assert step(run) == []  # and still waits
    run.cancel_delivered("c")
    if how is Type.WAIT_CANCELLATION_REQUESTED:
        assert step(run) == [CANCELLED]
        return
    assert step(run) == []
    run.child_canceled("c")
    assert step(run) == [CANCELLED]


@pytest.mark.parametrize("how", ASKING)
def test_asked_before_it_turns_out_that_its_id_is_taken(how: Type) -> None:
    @workflow.defn
    class Waits:
        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.execute_child_workflow("Child", id="c", cancellation_type=how)
            except Exception as error:
                told = type(error).__name__
                await workflow.sleep(1)
                return told
            return "done"

    run = PocketEngine(Waits)
    step(run)
    run.cancel()
    step(run)
    run.child_id_taken("c")
    run.cancel_refused("c")
    at_once = how is Type.TRY_CANCEL
    assert step(run) == ([] if at_once else ["StartTimer 1 1000"])
    run.fire("1")
    error = "ChildWorkflowError" if at_once else "WorkflowAlreadyStartedError"
    assert step(run) == [f"CompleteWorkflow {error}"]


def test_taken_back_at_the_wish_of_others() -> None:
    """The code's own request, by an external handle, say: its wait was not cancelled."""
    run = initiated(Type.WAIT_CANCELLATION_COMPLETED)
    run.child_canceled("c")
    assert step(run) == [CANCELLED]


# --- after it has started -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "commands"),
    [
        (Type.ABANDON, [CANCELLED]),
        (Type.TRY_CANCEL, [ASK, CANCELLED]),
        (Type.WAIT_CANCELLATION_COMPLETED, [ASK]),
        (Type.WAIT_CANCELLATION_REQUESTED, [ASK]),
    ],
)
def test_what_cancelling_the_run_does_to_its_child(how: Type, commands: list[str]) -> None:
    run = started(how)
    run.cancel("enough")
    assert step(run) == commands


@pytest.mark.parametrize("how", ASKING)
def test_the_request_goes_to_the_child_whichever_run_of_it_is_the_current_one(how: Type) -> None:
    run = started(how)
    run.cancel("enough")
    request = run.task()[0]
    assert isinstance(request, RequestCancelExternalWorkflow)
    assert (request.workflow_id, request.run_id) == ("c", "")
    assert request.child_workflow_only
    assert request.reason == "enough"


def test_waiting_for_the_request_ends_when_the_child_has_been_told() -> None:
    run = started(Type.WAIT_CANCELLATION_REQUESTED)
    run.cancel()
    step(run)
    run.cancel_delivered("c")
    assert step(run) == [CANCELLED]


@pytest.mark.parametrize("how", WAITING)
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [("cancelled", "cancelled"), ("completed", "late result"), ("failed", "failed")],
)
def test_an_outcome_before_the_request_is_answered_is_what_counts(
    how: Type, outcome: str, expected: str
) -> None:
    run = started(how)
    run.cancel()
    step(run)
    if outcome == "cancelled":
        run.child_canceled("c")
    elif outcome == "completed":
        run.child_completed("c", "late result")
    else:
        run.child_failed("c", ApplicationError("no"))
    run.cancel_delivered("c")  # too late to matter
    assert step(run) == [f"CompleteWorkflow {expected}"]


@pytest.mark.parametrize("how", WAITING)
def test_a_child_that_is_not_found_has_closed_and_its_end_is_waited_for(how: Type) -> None:
    run = started(how)
    run.cancel()
    step(run)
    run.cancel_refused("c")
    assert step(run) == []
    run.child_completed("c", "in time")
    assert step(run) == ["CompleteWorkflow in time"]


def test_waiting_for_its_end_takes_what_it_comes_to() -> None:
    run = started(Type.WAIT_CANCELLATION_COMPLETED)
    run.cancel()
    step(run)
    run.cancel_delivered("c")
    assert step(run) == []
    run.child_completed("c", "all the same")
    assert step(run) == ["CompleteWorkflow all the same"]


# --- what it comes to when nobody waits -----------------------------------------------------------


@workflow.defn
class LivesOn:
    """Cancels the wait by the handle, on a signal, and goes on for a second."""

    def __init__(self) -> None:
        self.stop = False

    @workflow.signal
    def halt(self) -> None:
        self.stop = True

    @workflow.run
    async def run(self, how: Type) -> str:
        handle = await workflow.start_child_workflow("Child", id="c", cancellation_type=how)
        await workflow.wait_condition(lambda: self.stop)
        assert handle.cancel()
        assert not handle.cancel()
        try:
            await handle
        except ChildWorkflowError as error:
            await workflow.sleep(1)
            return f"{error.run_id}: {type(error.cause).__name__}"
        return "done"


@pytest.mark.parametrize("how", [Type.ABANDON, Type.TRY_CANCEL])
@pytest.mark.parametrize(
    "outcome", ["completes", "fails", "is cancelled", "times out", "is terminated"]
)
def test_what_it_comes_to_after_its_cancellation_is_not_looked_at(how: Type, outcome: str) -> None:
    run = PocketEngine(LivesOn, how)
    step(run)
    run.child_started("c")
    step(run)
    run.signal("halt")
    asked = [ASK] if how is Type.TRY_CANCEL else []
    assert step(run) == [*asked, "StartTimer 1 1000"]
    if asked:
        run.cancel_delivered("c")
    match outcome:
        case "completes":
            run.child_completed("c", {"not": "even decoded"})
        case "fails":
            run.child_failed("c", ApplicationError("late"))
        case "is cancelled":
            run.child_canceled("c")
        case "times out":
            run.child_timed_out("c")
        case _:
            run.child_terminated("c")
    run.fire("1")
    assert step(run) == ["CompleteWorkflow run of c: CancelledError"]


@pytest.mark.parametrize("how", [Type.ABANDON, Type.TRY_CANCEL])
def test_one_that_was_cancelled_while_it_started_goes_its_way_unheard(how: Type) -> None:
    @workflow.defn
    class LetsGo:
        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.execute_child_workflow(
                    "Child", id="c", cancellation_type=how, result_type=int
                )
            except ChildWorkflowError as error:
                await workflow.sleep(1)
                return f"{error.started_event_id} {error.message}"
            return "done"

    run = PocketEngine(LetsGo)
    step(run)
    run.cancel()
    step(run)
    run.child_started("c")
    assert step(run) == []
    run.child_completed("c", "not even decoded")
    assert step(run) == []
    run.fire("1")
    assert step(run) == ["CompleteWorkflow 0 Child Workflow execution cancelled"]


@pytest.mark.parametrize("how", ASKING)
def test_it_is_asked_once(how: Type) -> None:
    run = started(how, LetsNotGo)
    run.signal("halt")
    assert step(run) == [ASK]
    run.signal("halt")
    assert step(run) == []


@workflow.defn
class LetsNotGo:
    """Cancels the wait again and again, and waits all the same."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None

    @workflow.signal
    def halt(self) -> None:
        assert self.task is not None
        self.task.cancel()

    @workflow.run
    async def run(self, how: Type) -> None:
        self.task = asyncio.create_task(
            workflow.execute_child_workflow("Child", id="c", cancellation_type=how)
        )
        await asyncio.Event().wait()


@pytest.mark.parametrize("end", ["child_completed", "child_canceled", "child_id_taken"])
def test_what_has_ended_is_forgotten(end: str) -> None:
    run = PocketEngine(LetsNotGo, Type.WAIT_CANCELLATION_COMPLETED)
    step(run)
    if end == "child_completed":
        run.child_started("c")
    run.signal("halt")
    assert step(run) == [ASK]
    getattr(run, end)("c")
    run.cancel_delivered("c")
    step(run)
    inside = run.instance._run
    assert inside.children is not None
    assert inside.external is not None
    assert inside.children.open == {}
    assert inside.external.cancels == {}


# --- by whom --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ALL)
@pytest.mark.parametrize("state", ["initiated", "started"])
def test_a_time_limit_around_a_child_ends_as_timeout_error(how: Type, state: str) -> None:
    run = initiated(how, Limited) if state == "initiated" else started(how, Limited)
    run.fire("1")
    asked = [] if how is Type.ABANDON else [ASK]
    late = "CompleteWorkflow took too long"
    if how not in WAITING:
        assert step(run) == [*asked, late]
        return
    assert step(run) == asked
    if state == "initiated":
        run.child_started("c")
        assert step(run) == []
    run.cancel_delivered("c")
    if how is Type.WAIT_CANCELLATION_COMPLETED:
        assert step(run) == []
        run.child_canceled("c")
    assert step(run) == [late]


@pytest.mark.parametrize("how", ALL)
def test_a_time_limit_that_is_over_at_once_sends_nothing(how: Type) -> None:
    @workflow.defn
    class Hopeless:
        @workflow.run
        async def run(self) -> str:
            try:
                async with asyncio.timeout(0):
                    await workflow.execute_child_workflow("Child", id="c", cancellation_type=how)
            except TimeoutError:
                return "took too long"
            return "done"

    run = PocketEngine(Hopeless)
    assert step(run) == ["CompleteWorkflow took too long"]


def test_the_run_or_its_code_says_how_it_ends_whoever_cancelled_first() -> None:
    run = started(Type.WAIT_CANCELLATION_COMPLETED, Limited)
    run.fire("1")
    assert step(run) == [ASK]
    run.cancel()
    assert step(run) == []
    run.child_canceled("c")
    assert step(run) == ["CompleteWorkflow heard as an error"]


def test_a_shielded_child_lives_on() -> None:
    @workflow.defn
    class Shielding:
        @workflow.run
        async def run(self) -> str:
            handle = await workflow.start_child_workflow("Child", id="c")
            try:
                return await asyncio.shield(handle)
            except asyncio.CancelledError:
                return "after all: " + await handle

    run = PocketEngine(Shielding)
    step(run)
    run.child_started("c")
    step(run)
    run.cancel()
    assert step(run) == []
    run.child_completed("c", "done")
    assert step(run) == ["CompleteWorkflow after all: done"]


def test_a_run_that_lets_the_cancellation_through_ends_as_cancelled() -> None:
    @workflow.defn
    class Plain:
        @workflow.run
        async def run(self) -> None:
            await workflow.execute_child_workflow("Child", id="c")

    run = PocketEngine(Plain)
    step(run)
    run.child_started("c")
    run.cancel()
    assert step(run) == [ASK]
    run.child_canceled("c", "cleaned up")
    assert step(run) == ["CancelWorkflow"]


def test_a_task_group_cancels_its_children_in_the_order_in_which_they_began() -> None:
    @workflow.defn
    class Group:
        async def one(self, number: int) -> None:
            await workflow.execute_child_workflow(
                "Child", id=f"c{number:02}", cancellation_type=Type.TRY_CANCEL
            )

        @workflow.run
        async def run(self) -> str:
            try:
                async with asyncio.TaskGroup() as group:
                    for number in range(40):
                        group.create_task(self.one(number))
            except ExceptionGroup as failed:
                return f"{len(failed.exceptions)} failed"
            return "all done"

    run = PocketEngine(Group)
    step(run)
    for number in range(40):
        run.child_started(f"c{number:02}")
    run.child_failed("c19", ApplicationError("broken"))

    live = step(run)
    asked = [name.split()[1] for name in live if name.startswith("Request")]
    assert len(asked) == 39
    assert asked == sorted(asked)
    assert live[-1] == "CompleteWorkflow 1 failed"
