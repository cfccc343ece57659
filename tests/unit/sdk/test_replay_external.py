"""What workflow code does to other runs: signals and requests to cancel, and their answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, value_of

from perdure import workflow
from perdure._replay.external_messages import (
    ExternalWorkflowExecutionCancelRequested,
    ExternalWorkflowExecutionSignaled,
    RequestCancelExternalWorkflow,
    SignalExternalWorkflow,
)
from perdure.errors import ApplicationError, CancelledError

SIGNAL, CANCEL = "SignalExternalWorkflow o hello", "RequestCancelExternalWorkflow o"


@workflow.defn
class Other:
    @workflow.run
    async def run(self) -> None: ...

    @workflow.signal
    def hello(self, name: str) -> None: ...


@workflow.defn
class Caller:
    """Signals or cancels another run, and tells how it went."""

    @workflow.run
    async def run(self, what: str) -> Any:
        handle = workflow.get_external_workflow_handle_for(Other.run, "o", run_id="r")
        assert (handle.id, handle.run_id) == ("o", "r")
        try:
            if what == "signal":
                await handle.signal(Other.hello, "Ada")
            else:
                await handle.cancel(reason="enough")
        except ApplicationError as error:
            return [error.message, error.type]
        except CancelledError as error:
            return error.message
        return "done"


def step(run: PocketEngine) -> list[str]:
    """One workflow task; on replay the code does the same."""
    commands = names(run.task())
    assert names(run.replay()) == commands
    return commands


def test_a_signal_goes_out_and_is_waited_for() -> None:
    run = PocketEngine(Caller, "signal")
    (command,) = run.task()
    assert isinstance(command, SignalExternalWorkflow)
    assert (command.workflow_id, command.run_id, command.signal_name) == ("o", "r", "hello")
    assert not command.child_workflow_only
    assert value_of(command.input) == "Ada"
    run.signal_delivered("o")
    assert step(run) == ["CompleteWorkflow done"]
    run.replay_all()


def test_a_request_to_cancel_goes_out_and_is_waited_for() -> None:
    run = PocketEngine(Caller, "cancel")
    (command,) = run.task()
    assert isinstance(command, RequestCancelExternalWorkflow)
    assert (command.workflow_id, command.run_id, command.reason) == ("o", "r", "enough")
    assert not command.child_workflow_only
    run.cancel_delivered("o")
    assert step(run) == ["CompleteWorkflow done"]


@pytest.mark.parametrize(
    ("what", "cause", "said"),
    [
        ("signal", "NOT_FOUND",
         ["Unable to signal external workflow because it was not found",
          "ExternalWorkflowExecutionNotFound"]),
        ("signal", "LIMIT",
         ["Unable to signal external workflow because The per-workflow signal limit was exceeded",
          "SignalCountLimitExceeded"]),
        ("signal", "77", ["Unable to signal external workflow because unknown", "77"]),
        ("cancel", "NOT_FOUND",
         ["Unable to cancel external workflow because not found",
          "ExternalWorkflowExecutionNotFound"]),
        ("cancel", "77", ["Unable to cancel external workflow because unknown", "77"]),
    ],
)  # fmt: skip
def test_what_is_refused_raises(what: str, cause: str, said: list[str]) -> None:
    run = PocketEngine(Caller, what)
    step(run)
    if what == "signal":
        run.signal_refused("o", cause)
    else:
        run.cancel_refused("o", cause)
    assert step(run) == [f"CompleteWorkflow {said}"]


def test_a_signal_that_was_cancelled_before_it_was_sent_is_never_sent() -> None:
    run = PocketEngine(Caller, "signal")
    run.cancel()
    assert step(run) == ["CompleteWorkflow Signal was cancelled before being sent"]


def test_a_signal_that_is_on_its_way_cannot_be_called_back() -> None:
    run = PocketEngine(Caller, "signal")
    step(run)
    run.cancel()
    assert step(run) == []
    run.signal_delivered("o")
    assert step(run) == ["CompleteWorkflow done"]


def test_a_time_limit_around_a_signal_that_was_not_sent() -> None:
    @workflow.defn
    class Hasty:
        @workflow.run
        async def run(self) -> str:
            try:
                async with asyncio.timeout(0):
                    await workflow.get_external_workflow_handle("o").signal("hello")
            except TimeoutError:
                return "took too long"
            return "done"

    assert step(PocketEngine(Hasty)) == ["CompleteWorkflow took too long"]


@pytest.mark.parametrize("answer", ["cancel_delivered", "cancel_refused"])
def test_a_request_to_cancel_goes_out_although_nobody_waits_for_it_any_more(answer: str) -> None:
    @workflow.defn
    class Impatient:
        @workflow.run
        async def run(self) -> str:
            task = asyncio.ensure_future(workflow.get_external_workflow_handle("o").cancel())
            await asyncio.sleep(0)  # noqa: TID251 - to let it begin
            task.cancel()
            await asyncio.wait([task])
            await workflow.sleep(1)
            return "gone on" if task.cancelled() else "waited"

    run = PocketEngine(Impatient)
    assert step(run) == [CANCEL, "StartTimer 1 1000"]
    getattr(run, answer)("o")
    run.fire("1")
    assert step(run) == ["CompleteWorkflow gone on"]


def test_several_at_once_are_answered_in_any_order() -> None:
    @workflow.defn
    class Busy:
        @workflow.run
        async def run(self) -> list[str]:
            order: list[str] = []

            async def tell(id: str) -> None:
                await workflow.get_external_workflow_handle(id).signal("hello")
                order.append(id)

            await asyncio.gather(*(tell(id) for id in "abc"))
            return order

    run = PocketEngine(Busy)
    assert len(step(run)) == 3
    for id in "bca":
        run.signal_delivered(id)
    assert step(run) == ["CompleteWorkflow ['b', 'c', 'a']"]


def test_handles_are_for_workflow_code_and_ids_are_not_empty() -> None:
    with pytest.raises(RuntimeError, match="not in workflow code"):
        workflow.get_external_workflow_handle("o")

    @workflow.defn
    class Nobody:
        @workflow.run
        async def run(self) -> str:
            try:
                workflow.get_external_workflow_handle("")
            except ValueError as error:
                return str(error)
            return "not reached"

    (name,) = step(PocketEngine(Nobody))
    assert "a workflow id must not be empty" in name


def test_what_is_no_signal_is_refused() -> None:
    @workflow.defn
    class Confused:
        @workflow.run
        async def run(self) -> str:
            handle = workflow.get_external_workflow_handle("o")
            try:
                await handle.signal(Other.run)
            except TypeError as error:
                return str(error)
            return "not reached"

    (name,) = step(PocketEngine(Confused))
    assert "is not a signal: decorate it with @workflow.signal" in name


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ExternalWorkflowExecutionSignaled, "no signal was initiated, or is open, by event 99"),
        (
            ExternalWorkflowExecutionCancelRequested,
            "no request to cancel was initiated, or is open, by event 99",
        ),
    ],
)
def test_an_answer_to_nothing_fails_the_task(kind: Any, words: str) -> None:
    run = PocketEngine(Caller, "signal")
    run.add(kind, initiated_event_id=99)
    assert words in run.failed_task().failure.message
