"""What the code that waits hears of a cancellation: by what it waits for, its type, and who cancels.

Who begins it decides. What the run's client or its code cancels is heard as an error whose cause is
a CancelledError, however asyncio hands it on; what asyncio begins is heard as asyncio's own.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import CONVERTER, PocketEngine, names, new_instance

from perdure import activity, workflow
from perdure._failures import exception_to_failure
from perdure._replay.messages import TaskSuccess
from perdure.errors import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
)
from perdure.workflow import ActivityCancellationType, ChildWorkflowCancellationType

LIMIT = timedelta(seconds=10)
KINDS = ["activity", "local", "child"]
TYPES = ["TRY_CANCEL", "WAIT_CANCELLATION_COMPLETED", "ABANDON"]
ERRORS = {
    "activity": "ActivityError of CancelledError",
    "local": "ActivityError of CancelledError",
    "child": "ChildWorkflowError of CancelledError",
}
ASYNCIO = "asyncio's CancelledError"


@activity.defn
async def work() -> str:
    return "done"


def begin(kind: str, how: str) -> Awaitable[Any]:
    if kind == "child":
        return workflow.execute_child_workflow(
            "Child", id="c", cancellation_type=ChildWorkflowCancellationType[how]
        )
    cancellation = ActivityCancellationType[how]
    if kind == "local":
        return workflow.start_local_activity(
            work, start_to_close_timeout=LIMIT, cancellation_type=cancellation
        )
    return workflow.start_activity(
        work, start_to_close_timeout=LIMIT, cancellation_type=cancellation
    )


async def handle_of(kind: str, how: str) -> asyncio.Future[Any]:
    if kind == "child":
        return await workflow.start_child_workflow(
            "Child", id="c", cancellation_type=ChildWorkflowCancellationType[how]
        )
    handle = begin(kind, how)
    assert isinstance(handle, asyncio.Future)
    return handle


class Listener:
    """Notes what is heard where `listen` waits."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.enough = False

    async def listen(self, awaited: Awaitable[Any]) -> Any:
        try:
            value = await awaited
        except asyncio.CancelledError:
            self.heard.append(ASYNCIO)
            raise
        except (ActivityError, ChildWorkflowError) as error:
            details = error.cause.details if isinstance(error.cause, CancelledError) else ()
            told = "".join(f": {one}" for one in details)
            self.heard.append(f"{type(error).__name__} of {type(error.cause).__name__}{told}")
            raise
        self.heard.append(f"{value}")
        return value

    @workflow.signal
    def stop(self) -> None:
        self.enough = True


class Play:
    """One run of a workflow that waits for one activity, local activity or child; each step replayed."""

    def __init__(self, cls: type, kind: str, how: str, *, is_started: bool = True) -> None:
        self.kind, self.how = kind, how
        self.run = PocketEngine(cls, kind, how)
        self.local_cancels: list[str] = []
        self.step()
        if kind == "child" and is_started:
            self.run.child_started("c")
            self.step()

    @property
    def waits(self) -> bool:
        return self.how == "WAIT_CANCELLATION_COMPLETED"

    @property
    def heard(self) -> list[str]:
        heard: list[str] = self.run.instance._run.workflow.heard
        return heard

    def step(self) -> list[str]:
        """One workflow task, for as long as it goes without the local activity's outcome."""
        outcome = self.run.run_task()
        assert isinstance(outcome, TaskSuccess), outcome.failure
        commands = names(outcome.commands)
        if outcome.local is not None:
            self.local_cancels += outcome.local.cancel
            if outcome.local.waits:
                commands = names(self.run.yield_task())
        if self.kind != "local":
            assert names(self.run.replay()) == commands
        self._replay()
        return commands

    def end(self) -> list[str]:
        """What the code asks for when it has been told, or when what it waits for has obeyed."""
        commands = [name for name in self.step() if not name.startswith("Request")]
        if self.waits:
            assert self.heard == []
            assert commands == []
            commands = self.obey()
        asked = {type(one).__name__ for one in self.run.events} & ASKED or self.local_cancels
        assert bool(asked) is (self.how != "ABANDON")
        return commands

    def error(self) -> str:
        """How a cancellation is heard that was not asyncio's."""
        return ERRORS[self.kind] + (": obeyed" if self.waits else "")

    def come_to(self, outcome: str) -> None:
        """The end of it, as an event."""
        match self.kind, outcome:
            case "activity", "completed":
                self.run.complete("1", "early")
            case "activity", _:
                self.run.fail("1", ApplicationError("no"))
            case "child", "completed":
                self.run.child_completed("c", "early")
            case _:
                self.run.child_failed("c", ApplicationError("no"))

    def obey(self) -> list[str]:
        if self.kind == "activity":
            self.run.cancel_activity("1", "obeyed")
            return self.step()
        if self.kind == "child":
            self.run.cancel_delivered("c")
            self.run.child_canceled("c", "obeyed")
            return self.step()
        self.run.run_task()
        failure = exception_to_failure(CancelledError("Cancelled", "obeyed"), CONVERTER)
        commands = names(self.run.local("1", failure=failure).commands)
        self._replay()
        return [name for name in commands if not name.startswith("RecordMarker")]

    def _replay(self) -> None:
        """The whole history on a fresh instance: the code hears the same there."""
        instance = new_instance(self.run.cls)
        outcome = instance.activate(self.run.message(self.run.events, query_only=True))
        assert isinstance(outcome, TaskSuccess), outcome.failure
        assert instance._run.workflow.heard == self.heard


ASKED = {"ActivityTaskCancelRequested", "RequestCancelExternalWorkflowExecutionInitiated"}

every = pytest.mark.parametrize(
    ("kind", "how"), [pytest.param(kind, how) for kind in KINDS for how in TYPES]
)


# --- the run is cancelled -------------------------------------------------------------------------


@workflow.defn
class Plain(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        await self.listen(begin(kind, how))


@workflow.defn
class Gathering(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        await asyncio.gather(self.listen(begin(kind, how)))


@workflow.defn
class InATask(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        await asyncio.create_task(self.listen(begin(kind, how)))


@workflow.defn
class AtTheEndOfAGroup(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen(begin(kind, how)))


@workflow.defn
class InTheMiddleOfAGroup(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen(begin(kind, how)))
            await workflow.wait_condition(lambda: False)


@workflow.defn
class AtATaskOfAGroup(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        async with asyncio.TaskGroup() as group:
            await group.create_task(self.listen(begin(kind, how)))


@workflow.defn
class InAGroupOfAGroup(Listener):
    async def inner(self, kind: str, how: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen(begin(kind, how)))

    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.inner(kind, how))


@workflow.defn
class WithinATimeLimit(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        async with asyncio.timeout(60):
            await self.listen(begin(kind, how))


@workflow.defn
class WaitingFor(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        await asyncio.wait_for(self.listen(begin(kind, how)), 60)


PASSED_ON = [
    Plain,
    Gathering,
    InATask,
    AtTheEndOfAGroup,
    InTheMiddleOfAGroup,
    AtATaskOfAGroup,
    InAGroupOfAGroup,
    WithinATimeLimit,
    WaitingFor,
]


@every
@pytest.mark.parametrize("cls", PASSED_ON)
def test_a_cancelled_run_hears_it_as_an_error_and_ends_as_cancelled(
    cls: type, kind: str, how: str
) -> None:
    play = Play(cls, kind, how)
    play.run.cancel("enough")

    commands = play.end()

    assert play.heard == [play.error()]
    assert commands[-1] == "CancelWorkflow"


def test_a_group_in_which_something_else_failed_too_fails_the_run() -> None:
    @workflow.defn
    class Clumsy(Listener):
        async def undo(self, kind: str, how: str) -> None:
            try:
                await begin(kind, how)
            except ActivityError:
                raise ApplicationError("cannot undo it") from None

        @workflow.run
        async def run(self, kind: str, how: str) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.listen(begin(kind, how)))
                group.create_task(self.undo(kind, how))

    play = Play(Clumsy, "activity", "TRY_CANCEL")
    play.run.cancel()
    (end,) = [name for name in play.step() if not name.startswith("Request")]
    assert end.startswith("FailWorkflow unhandled errors in a TaskGroup (2 sub-exceptions)")


@every
def test_the_siblings_of_a_task_that_ends_by_the_cancellation_hear_the_same(
    kind: str, how: str
) -> None:
    @workflow.defn
    class Siblings(Listener):
        async def first(self) -> None:
            await workflow.execute_activity(
                work,
                start_to_close_timeout=LIMIT,
                activity_id="first",
                cancellation_type=ActivityCancellationType.ABANDON,
            )

        @workflow.run
        async def run(self, kind: str, how: str) -> None:
            async with asyncio.TaskGroup() as group:
                waits = self.listen(begin(kind, how))
                first = group.create_task(self.first())
                group.create_task(waits)
                await first

    play = Play(Siblings, kind, how)
    play.run.cancel()

    commands = play.end()

    assert play.heard == [play.error()]
    assert commands[-1] == "CancelWorkflow"


def test_timers_and_conditions_are_asyncios() -> None:
    @workflow.defn
    class Waiting(Listener):
        @workflow.run
        async def run(self, kind: str, how: str) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.listen(begin(kind, how)))
                group.create_task(self.listen(workflow.sleep(60)))
                await self.listen(workflow.wait_condition(lambda: self.enough))

    play = Play(Waiting, "activity", "TRY_CANCEL")
    play.run.cancel()
    assert play.step()[-1] == "CancelWorkflow"
    assert play.heard == [ASYNCIO, ERRORS["activity"], ASYNCIO]


# --- its code cancels -----------------------------------------------------------------------------


@workflow.defn
class ByTheHandle(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        handle = await handle_of(kind, how)
        await workflow.wait_condition(lambda: self.enough)
        handle.cancel()
        await self.listen(handle)


@workflow.defn
class ByTheTask(Listener):
    async def within(self, kind: str, how: str) -> None:
        await self.listen(begin(kind, how))

    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        task = asyncio.create_task(self.within(kind, how))
        await workflow.wait_condition(lambda: self.enough)
        task.cancel()
        await task


@workflow.defn
class ByTheTaskOfAGroup(ByTheTask):
    async def within(self, kind: str, how: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen(begin(kind, how)))

    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        await super().run(kind, how)


@every
@pytest.mark.parametrize("cls", [ByTheHandle, ByTheTask, ByTheTaskOfAGroup])
def test_what_the_code_cancels_is_heard_as_an_error(cls: type, kind: str, how: str) -> None:
    play = Play(cls, kind, how)
    play.run.signal("stop")

    commands = play.end()

    assert play.heard == [play.error()]
    assert commands[-1].startswith("FailWorkflow")  # nobody has cancelled the run


@workflow.defn
class ByItself(Listener):
    """Is told in the step in which it cancels itself, and when that is over no more."""

    @workflow.run
    async def run(self, kind: str, how: str) -> None:
        await workflow.wait_condition(lambda: self.enough)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await self.listen(begin("activity", "TRY_CANCEL"))


def test_code_that_cancels_itself_hears_of_it_at_its_next_wait() -> None:
    play = Play(ByItself, "activity", "TRY_CANCEL")
    play.run.signal("stop")
    assert play.step() == ["FailWorkflow Activity cancelled"]
    assert play.heard == [ERRORS["activity"]]


# --- asyncio cancels ------------------------------------------------------------------------------


@workflow.defn
class OverTime(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> str:
        try:
            async with asyncio.timeout(5):
                await self.listen(begin(kind, how))
        except TimeoutError:
            return "took too long"
        return "in time"


@workflow.defn
class OverTimeInAGroup(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> str:
        try:
            async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                group.create_task(self.listen(begin(kind, how)))
        except TimeoutError:
            return "took too long"
        return "in time"


@workflow.defn
class OverTimeOfWaitFor(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> str:
        try:
            await asyncio.wait_for(self.listen(begin(kind, how)), 5)
        except TimeoutError:
            return "took too long"
        return "in time"


@every
@pytest.mark.parametrize("cls", [OverTime, OverTimeInAGroup, OverTimeOfWaitFor])
def test_a_time_limit_ends_as_timeout_error(cls: type, kind: str, how: str) -> None:
    play = Play(cls, kind, how)
    play.run.fire("1")

    commands = play.end()

    assert play.heard == [ASYNCIO]
    assert commands[-1] == "CompleteWorkflow took too long"


@workflow.defn
class Siblings(Listener):
    @workflow.run
    async def run(self, kind: str, how: str) -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.listen(begin(kind, how)))
                group.create_task(self.fail())
        except ExceptionGroup as failed:
            return f"{[str(one) for one in failed.exceptions]}"
        return "all done"

    async def fail(self) -> None:
        await workflow.sleep(5)
        raise ApplicationError("broken")


@every
def test_a_failing_sibling_is_the_only_one_of_its_group_that_fails(kind: str, how: str) -> None:
    play = Play(Siblings, kind, how)
    play.run.fire("1")

    commands = play.end()

    assert play.heard == [ASYNCIO]
    assert commands[-1] == "CompleteWorkflow ['broken']"


# --- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run_first", [True, False])
def test_of_the_run_and_a_time_limit_the_run_is_heard(kind: str, run_first: bool) -> None:
    play = Play(OverTime, kind, "WAIT_CANCELLATION_COMPLETED")
    for by_run in (run_first, not run_first):
        if by_run:
            play.run.cancel()
        else:
            play.run.fire("1")
        play.step()
    assert play.end() == ["CancelWorkflow"]
    assert play.heard == [play.error()]


@every
@pytest.mark.parametrize("run_first", [True, False])
def test_of_the_run_and_a_time_limit_in_the_same_moment_the_run_is_heard(
    run_first: bool, kind: str, how: str
) -> None:
    play = Play(OverTime, kind, how)
    if run_first:
        play.run.cancel()
        play.run.fire("1")
    else:
        play.run.fire("1")
        play.run.cancel()
    assert play.end()[-1] == "CancelWorkflow"
    assert play.heard == [play.error()]


@pytest.mark.parametrize("kind", ["activity", "child"])
def test_what_a_time_limit_has_asked_for_and_the_run_in_the_same_moment(kind: str) -> None:
    """The answer stands behind the request to cancel the run, which is told first."""
    play = Play(OverTime, kind, "WAIT_CANCELLATION_COMPLETED")
    play.run.fire("1")
    play.step()
    play.run.cancel()
    assert play.obey() == ["CancelWorkflow"]
    assert play.heard == [ERRORS[kind]]


@workflow.defn
class Tidies(Listener):
    """Cleans up when it is cancelled, within a time limit of its own."""

    @workflow.run
    async def run(self, kind: str, how: str) -> str:
        try:
            await self.listen(begin(kind, how))
        except (ActivityError, ChildWorkflowError):
            try:
                async with asyncio.timeout(5):
                    await self.listen(workflow.execute_activity(work, start_to_close_timeout=LIMIT))
            except TimeoutError:
                return "did not get it tidy"
        return "tidy"


@workflow.defn
class TidiesWaitingFor(Tidies):
    @workflow.run
    async def run(self, kind: str, how: str) -> str:
        try:
            await self.listen(begin(kind, how))
        except (ActivityError, ChildWorkflowError):
            tidying = workflow.execute_activity(work, start_to_close_timeout=LIMIT)
            try:
                await asyncio.wait_for(self.listen(tidying), 5)
            except TimeoutError:
                return "did not get it tidy"
        return "tidy"


@every
@pytest.mark.parametrize("cls", [Tidies, TidiesWaitingFor])
def test_a_time_limit_around_the_cleaning_up_is_asyncios_again(
    cls: type, kind: str, how: str
) -> None:
    play = Play(cls, kind, how)
    play.run.cancel()
    play.end()
    play.run.fire("1")
    assert play.step()[-1] == "CompleteWorkflow did not get it tidy"
    assert play.heard == [play.error(), ASYNCIO]


# --- what it came to stands right behind the request ----------------------------------------------


@pytest.mark.parametrize("kind", ["activity", "child"])
@pytest.mark.parametrize("how", ["TRY_CANCEL", "ABANDON"])
@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_who_does_not_wait_hears_of_the_cancellation_alone(
    outcome: str, kind: str, how: str
) -> None:
    play = Play(Plain, kind, how)
    play.run.cancel()
    play.come_to(outcome)
    assert play.step() == ["CancelWorkflow"]
    assert play.heard == [ERRORS[kind]]


@pytest.mark.parametrize("kind", ["activity", "child"])
def test_who_waits_takes_no_success_for_a_cancellation_nor_loses_that(kind: str) -> None:
    play = Play(Plain, kind, "WAIT_CANCELLATION_COMPLETED")
    play.run.cancel()
    play.come_to("completed")
    assert play.step() == ["CancelWorkflow"]
    assert play.heard == [ASYNCIO]


@pytest.mark.parametrize("kind", ["activity", "child"])
def test_who_waits_hears_of_a_failure(kind: str) -> None:
    play = Play(Plain, kind, "WAIT_CANCELLATION_COMPLETED")
    play.run.cancel()
    play.come_to("failed")
    assert play.step()[-1].startswith("FailWorkflow")
    assert play.heard == [ERRORS[kind].replace("CancelledError", "ApplicationError")]


@pytest.mark.parametrize("kind", ["activity", "child"])
@pytest.mark.parametrize("how", TYPES)
def test_what_has_ended_before_the_request_has_ended(kind: str, how: str) -> None:
    play = Play(Plain, kind, how)
    play.come_to("completed")
    play.run.cancel()
    assert play.step() == ["CompleteWorkflow None"]
    assert play.heard == ["early"]


@pytest.mark.parametrize("how", TYPES)
def test_a_child_that_has_started_right_behind_the_request_is_cancelled(how: str) -> None:
    play = Play(Plain, "child", how, is_started=False)
    play.run.cancel()
    play.run.child_started("c")
    assert play.end() == ["CancelWorkflow"]
    assert play.heard == [play.error()]


def test_a_child_that_has_started_right_behind_a_time_limit_is_cancelled() -> None:
    play = Play(OverTime, "child", "TRY_CANCEL", is_started=False)
    play.run.fire("1")
    play.run.child_started("c")
    assert play.end() == ["CompleteWorkflow took too long"]
    assert play.heard == [ASYNCIO]


@pytest.mark.parametrize("how", TYPES)
def test_a_child_whose_id_is_found_taken_right_behind_the_request(how: str) -> None:
    @workflow.defn
    class Taken(Listener):
        @workflow.run
        async def run(self, kind: str, how: str) -> str:
            try:
                await begin(kind, how)
            except (WorkflowAlreadyStartedError, ChildWorkflowError) as error:
                return type(error).__name__
            return "none"

    play = Play(Taken, "child", how, is_started=False)
    play.run.cancel()
    play.run.child_id_taken("c")
    expected = "WorkflowAlreadyStartedError" if play.waits else "ChildWorkflowError"
    assert play.step() == [f"CompleteWorkflow {expected}"]


# --- what it is for -------------------------------------------------------------------------------


def test_each_task_of_a_group_undoes_what_it_has_done() -> None:
    """As with Temporal: the code looks for ActivityErrors only."""

    @workflow.defn
    class Ported(Listener):
        async def one(self, number: int) -> None:
            try:
                await workflow.execute_activity(work, start_to_close_timeout=LIMIT)
            except ActivityError:
                await workflow.execute_activity(
                    work, start_to_close_timeout=LIMIT, activity_id=f"undo-{number}"
                )
                raise

        @workflow.run
        async def run(self, kind: str, how: str) -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(self.one(number))

    play = Play(Ported, "activity", "TRY_CANCEL")
    play.run.cancel()
    undoing = [f"ScheduleActivity undo-{number} work" for number in range(3)]
    assert play.step()[3:] == undoing
    for number in range(3):
        play.run.complete(f"undo-{number}")
    assert play.step() == ["CancelWorkflow"]


def test_a_saga_undoes_and_cannot_be_reached() -> None:
    @workflow.defn
    class Careful(Listener):
        @workflow.run
        async def run(self, kind: str, how: str) -> None:
            async with workflow.saga() as saga:
                saga.add(workflow.execute_activity, work, start_to_close_timeout=LIMIT)
                await self.listen(begin(kind, how))

    play = Play(Careful, "activity", "WAIT_CANCELLATION_COMPLETED")
    play.run.fail("1", ApplicationError("broken"))
    assert play.step() == ["ScheduleActivity 2 work"]
    play.run.cancel()
    assert play.step() == []
    play.run.complete("2")
    assert play.step()[-1] == "CancelWorkflow"


def test_a_saga_around_a_group_undoes_what_the_group_has_done() -> None:
    """From Python 3.13 on a group that was cancelled cancels its task once more when it is left."""

    @workflow.defn
    class Careful(Listener):
        @workflow.run
        async def run(self, kind: str, how: str) -> None:
            async with workflow.saga() as saga:
                saga.add(workflow.execute_activity, work, start_to_close_timeout=LIMIT)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.listen(begin(kind, how)))

    play = Play(Careful, "activity", "TRY_CANCEL")
    play.run.cancel()
    assert play.step() == ["RequestCancelActivity 5", "ScheduleActivity 2 work"]
    play.run.complete("2")
    assert play.step()[-1] == "CancelWorkflow"
    assert play.heard == [ERRORS["activity"]]


def test_nothing_is_said_of_a_cancelled_task_that_nobody_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    play = Play(WaitingFor, "activity", "TRY_CANCEL")
    play.run.cancel()
    play.step()
    play.run.instance.evict()
    gc.collect()
    assert caplog.records == []


@pytest.mark.parametrize("cls", [*PASSED_ON, ByItself])
def test_nobody_is_being_told_for_longer_than_it_takes(cls: type) -> None:
    """Else what asyncio cancels later would be taken for the run's doing."""
    play = Play(cls, "activity", "TRY_CANCEL")
    if cls is ByItself:
        play.run.signal("stop")
    else:
        play.run.cancel()
    play.step()
    assert not play.run.instance._run.loop._being_told


# ---- what came with the cancellation, in one workflow task


@workflow.defn
class Stopped:
    """A handler cancels who waits for an activity, whose outcome is in the same workflow task."""

    def __init__(self) -> None:
        self.waiting: asyncio.Task[str] | None = None

    @workflow.signal
    def stop(self) -> None:
        assert self.waiting is not None
        self.waiting.cancel()

    @workflow.run
    async def run(self, how: str) -> str:
        self.waiting = asyncio.create_task(self.heard(how))
        return await self.waiting

    async def heard(self, how: str) -> str:
        try:
            return str(await begin("activity", how))
        except ActivityError as error:
            return f"ActivityError of {type(error.cause).__name__}"
        except asyncio.CancelledError:
            return ASYNCIO


@pytest.mark.parametrize(
    ("how", "heard"),
    [
        ("TRY_CANCEL", ERRORS["activity"]),
        ("ABANDON", ERRORS["activity"]),
        ("WAIT_CANCELLATION_COMPLETED", ASYNCIO),
    ],
)
@pytest.mark.parametrize("first", ["signal", "outcome"])
def test_who_is_cancelled_by_a_handler_hears_of_it_although_the_outcome_is_there(
    how: str, heard: str, first: str
) -> None:
    """The handler goes first, whatever the order of the events; its wake-up is held back meanwhile."""
    run = PocketEngine(Stopped, how)
    run.task()
    if first == "signal":
        run.signal("stop")
    run.complete("1", "done")
    if first == "outcome":
        run.signal("stop")

    commands = run.task()

    assert names(commands)[-1] == f"CompleteWorkflow {heard}"
    assert isinstance(run.replay_all(), TaskSuccess)
