"""Signals and requests to cancel that a run has carried to other runs."""

from __future__ import annotations

import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    NAMESPACE,
    Scenario,
    Then,
    cancel_other,
    run_id,
    signal,
    signal_other,
    start,
    terminate,
)
from tests.unit.core.test_children import check

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core import outside_events as out
from perdure_engine.core.explain import WaitKind, explain
from perdure_engine.core.ids import message_request_id
from perdure_engine.core.intents import MessageOutcome
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.parents import ChildOf

REQUEST = message_request_id(run_id(1), 5)


def sender(command: cmd.Command) -> Scenario:
    run = Scenario(start())
    run.turn(command)
    check(run)
    return run


def test_a_signal_is_initiated_with_its_message() -> None:
    """Invariant 5."""
    run = Scenario(start())

    assert run.turn(signal_other()) == Then(
        events=[
            "3 WorkflowTaskStarted",
            "4 WorkflowTaskCompleted",
            "5 SignalExternalWorkflowExecutionInitiated",
        ],
        tasks=["message 5 to other to_send 1", "workflow gone"],
    )
    message = run.message(5)
    assert message is not None
    assert message.intent == intents.SignalWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="other",
        run_id=b"",
        signal_name="paid",
        request_id=REQUEST,
        body_hash=REQUEST,
        input=b"input",
        identity="perdure-engine",
    )


def test_a_request_to_cancel_names_the_run_that_was_named() -> None:
    run = sender(cancel_other(run_id=run_id(8), reason="unwanted"))

    message = run.message(5)

    assert message is not None
    assert message.intent == intents.CancelWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="other",
        run_id=run_id(8),
        request_id=REQUEST,
        body_hash=REQUEST,
        identity="perdure-engine",
        reason="unwanted",
    )


@pytest.mark.parametrize("make", [signal_other, cancel_other])
def test_a_child_is_meant_whichever_run_of_its_chain_is_current(
    make: type[cmd.Command],
) -> None:
    run = sender(make(run_id=run_id(8), child_workflow_only=True))

    message = run.message(5)

    assert message is not None
    assert isinstance(message.intent, intents.SignalWorkflow | intents.CancelWorkflow)
    assert (message.intent.run_id, message.intent.child_of) == (b"", ChildOf(run_id(1)))


ANSWERS = [
    (signal_other(), MessageOutcome.DONE, "ExternalWorkflowExecutionSignaled", None),
    (
        signal_other(),
        MessageOutcome.NOT_FOUND,
        "SignalExternalWorkflowExecutionFailed",
        out.ExternalFailedCause.NOT_FOUND,
    ),
    (
        signal_other(),
        MessageOutcome.LIMIT,
        "SignalExternalWorkflowExecutionFailed",
        out.ExternalFailedCause.LIMIT,
    ),
    (cancel_other(), MessageOutcome.DONE, "ExternalWorkflowExecutionCancelRequested", None),
    (
        cancel_other(),
        MessageOutcome.NOT_FOUND,
        "RequestCancelExternalWorkflowExecutionFailed",
        out.ExternalFailedCause.NOT_FOUND,
    ),
    (
        cancel_other(),
        MessageOutcome.REFUSED,
        "RequestCancelExternalWorkflowExecutionFailed",
        out.ExternalFailedCause.UNSPECIFIED,
    ),
]


@pytest.mark.parametrize(("command", "outcome", "event", "cause"), ANSWERS)
def test_the_answer_is_written_with_the_end_of_the_message(
    command: cmd.Command,
    outcome: MessageOutcome,
    event: str,
    cause: out.ExternalFailedCause | None,
) -> None:
    """Invariants 5, 6."""
    run = sender(command)

    assert run.answer(5, outcome) == Then(
        events=[f"6 {event}", "7 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "message 5 to other gone"],
    )
    assert getattr(run.events[-2], "cause", None) is cause
    assert run.state.folded.externals is None
    check(run)


def test_what_was_initiated_is_said_though_the_run_has_closed() -> None:
    """Invariant 14: a message goes when it has its answer, not before."""
    run = Scenario(start())

    assert run.turn(signal_other(), COMPLETE).tasks == [
        "message 5 to other to_send 1",
        "workflow gone",
    ]
    run.reload()
    assert run.message(5) is not None
    check(run)
    assert run.answer(5) == Then(tasks=["message 5 to other gone"])


def test_terminate_keeps_what_was_initiated() -> None:
    run = sender(signal_other())

    run.when(terminate())

    assert run.message(5) is not None
    check(run)


def test_a_signal_that_is_repeated_is_taken_once() -> None:
    """Invariant 41: the receiver knows it by the sender's event."""
    message = sender(signal_other("order-17")).message(5)
    assert message is not None
    receiver = Scenario(start(2))

    assert receiver.when(message.intent).events == ["3 WorkflowExecutionSignaled"]
    assert receiver.when(message.intent) == Then()


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (signal_other(), ev.WorkflowTaskFailedCause.PENDING_SIGNALS_LIMIT_EXCEEDED),
        (cancel_other(), ev.WorkflowTaskFailedCause.PENDING_REQUEST_CANCEL_LIMIT_EXCEEDED),
    ],
)
def test_too_many_fail_the_task_with_the_cause_named(
    command: cmd.Command, cause: ev.WorkflowTaskFailedCause
) -> None:
    """B36."""
    most = RunLimits(pending_external_signals_max=2, pending_external_cancels_max=2)
    run = Scenario(start(), limits=most)
    run.turn(signal_other(), signal_other(), cancel_other(), cancel_other())
    run.when(signal())

    run.turn(command)

    assert run.last(ev.WorkflowTaskFailed).cause is cause
    assert len(run.state.folded.externals or ()) == 4


def test_the_reasons_name_whom_it_goes_to() -> None:
    run = sender(signal_other())

    (reason,) = explain(run.state).reasons

    assert (reason.kind, reason.subject) == (WaitKind.EXTERNAL_WORKFLOW, "other")
