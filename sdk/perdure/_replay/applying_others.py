"""What the events of children and of other runs do to a run: two tables, as in applying.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure._failure_info import FailureInfo, TerminatedInfo, TimeoutInfo
from perdure._replay.children import Children
from perdure._replay.external import External, cancel_error, signal_error
from perdure._replay.external_messages import (
    ChildWorkflowExecutionCanceled,
    ChildWorkflowExecutionCompleted,
    ChildWorkflowExecutionFailed,
    ChildWorkflowExecutionStarted,
    ChildWorkflowExecutionTerminated,
    ChildWorkflowExecutionTimedOut,
    ExternalWorkflowExecutionCancelRequested,
    ExternalWorkflowExecutionSignaled,
    RequestCancelExternalWorkflowExecutionFailed,
    RequestCancelExternalWorkflowExecutionInitiated,
    SignalExternalWorkflowExecutionFailed,
    SignalExternalWorkflowExecutionInitiated,
    StartChildWorkflowExecutionFailed,
    StartChildWorkflowExecutionInitiated,
)
from perdure._replay.machines.child import (
    ChildMachine,
    ChildMove,
    ChildWorkflowCancellationType,
)
from perdure._replay.machines.external_cancel import ExternalCancelMachine, ExternalCancelMove
from perdure._replay.machines.external_signal import ExternalSignalMachine, ExternalSignalMove
from perdure._replay.messages import (
    Event,
)
from perdure._replay.run import WorkflowRun
from perdure.errors import (
    HistoryError,
    PayloadDecodeError,
    RetryState,
    TimeoutType,
    WorkflowAlreadyStartedError,
)

# --- children: what happened ----------------------------------------------------------------------


def _child_started(run: WorkflowRun, event: ChildWorkflowExecutionStarted) -> None:
    _, machine = _child(run, event.initiated_event_id)
    machine.move(ChildMove.STARTED)
    machine.started_event_id = event.event_id
    machine.run_id = event.run_id
    if not machine.started.done():
        machine.started.set_result(None)


def _child_start_failed(run: WorkflowRun, event: StartChildWorkflowExecutionFailed) -> None:
    children, machine = _child(run, event.initiated_event_id)
    machine.move(ChildMove.START_FAILED)
    del children.open[event.initiated_event_id]
    machine.handle.give_up()  # which nobody has
    if not machine.started.done():
        machine.started.fail(
            WorkflowAlreadyStartedError(machine.workflow_id, machine.workflow_type)
        )


def _child_completed(run: WorkflowRun, event: ChildWorkflowExecutionCompleted) -> None:
    _, machine = _resolve(run, event.initiated_event_id)
    if machine.handle.done():  # cancelled, and not waited for
        return
    value = None
    if event.result:
        try:
            value = run.converter.from_payload(event.result[0], machine.result_hint)
        except PayloadDecodeError as error:
            raise error.at(
                f"event {event.event_id}, the result of {machine.describe()}"
            ) from error.__cause__
    machine.handle.set_result(value)


def _child_failed(run: WorkflowRun, event: ChildWorkflowExecutionFailed) -> None:
    children, machine = _resolve(run, event.initiated_event_id)
    _fail(
        machine,
        children.error(machine, "failed", event.failure, event.retry_state, event.run_id),
    )


def _child_timed_out(run: WorkflowRun, event: ChildWorkflowExecutionTimedOut) -> None:
    children, machine = _resolve(run, event.initiated_event_id)
    cause = FailureInfo(
        message="Timed out", info=TimeoutInfo(timeout_type=TimeoutType.START_TO_CLOSE)
    )
    _fail(machine, children.error(machine, "timed out", cause, event.retry_state, event.run_id))


def _child_terminated(run: WorkflowRun, event: ChildWorkflowExecutionTerminated) -> None:
    children, machine = _resolve(run, event.initiated_event_id)
    cause = FailureInfo(message="Terminated", info=TerminatedInfo())
    retry_state = RetryState.NON_RETRYABLE_FAILURE
    _fail(machine, children.error(machine, "terminated", cause, retry_state, event.run_id))


def _child_canceled(run: WorkflowRun, event: ChildWorkflowExecutionCanceled) -> None:
    if event.started_event_id:
        children, machine = _resolve(run, event.initiated_event_id)
    else:
        children, machine = _child(run, event.initiated_event_id)
        machine.move(ChildMove.TAKEN_BACK)
        del children.open[event.initiated_event_id]
    children.end_cancelled(machine, event.details)


def _fail(machine: ChildMachine, error: BaseException) -> None:
    if not machine.handle.done():
        machine.handle.set_exception(error)


def _resolve(run: WorkflowRun, initiated_event_id: int) -> tuple[Children, ChildMachine]:
    children, machine = _child(run, initiated_event_id)
    machine.move(ChildMove.RESOLVED)
    del children.open[initiated_event_id]
    return children, machine


def _child(run: WorkflowRun, initiated_event_id: int) -> tuple[Children, ChildMachine]:
    children = run.children
    machine = None if children is None else children.open.get(initiated_event_id)
    if children is None or machine is None:
        raise HistoryError(
            f"no child workflow was initiated, or is open, by event {initiated_event_id}"
        )
    return children, machine


# --- other runs: what happened --------------------------------------------------------------------


def _signaled(run: WorkflowRun, event: ExternalWorkflowExecutionSignaled) -> None:
    future = _signal(run, event.initiated_event_id).future
    if not future.done():
        future.set_result(None)


def _signal_failed(run: WorkflowRun, event: SignalExternalWorkflowExecutionFailed) -> None:
    future = _signal(run, event.initiated_event_id).future
    if not future.done():
        future.set_exception(signal_error(event.cause))


def _signal(run: WorkflowRun, initiated_event_id: int) -> ExternalSignalMachine:
    machine = None if run.external is None else run.external.signals.pop(initiated_event_id, None)
    if machine is None:
        raise HistoryError(f"no signal was initiated, or is open, by event {initiated_event_id}")
    machine.move(ExternalSignalMove.RESOLVED)
    return machine


def _cancel_requested(run: WorkflowRun, event: ExternalWorkflowExecutionCancelRequested) -> None:
    machine = _cancel(run, event.initiated_event_id)
    child = machine.child
    if child is None:
        assert machine.future is not None
        if not machine.future.done():
            machine.future.set_result(None)
    elif child.cancellation is ChildWorkflowCancellationType.WAIT_CANCELLATION_REQUESTED:
        assert run.children is not None
        run.children.end_cancelled(child)


def _cancel_failed(run: WorkflowRun, event: RequestCancelExternalWorkflowExecutionFailed) -> None:
    # A child that is not found has closed: its end is on its way, and that is what its parent hears.
    future = _cancel(run, event.initiated_event_id).future
    if future is not None and not future.done():
        future.set_exception(cancel_error(event.cause))


def _cancel(run: WorkflowRun, initiated_event_id: int) -> ExternalCancelMachine:
    machine = None if run.external is None else run.external.cancels.pop(initiated_event_id, None)
    if machine is None:
        raise HistoryError(
            f"no request to cancel was initiated, or is open, by event {initiated_event_id}"
        )
    machine.move(ExternalCancelMove.RESOLVED)
    return machine


# --- what became of the commands ------------------------------------------------------------------


def _child_initiated(run: WorkflowRun, event: StartChildWorkflowExecutionInitiated) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, ChildMachine)
    assert isinstance(run.children, Children)
    machine.move(ChildMove.RECORDED)
    machine.entry = None
    machine.initiated_event_id = event.event_id
    run.children.open[event.event_id] = machine


def _signal_initiated(run: WorkflowRun, event: SignalExternalWorkflowExecutionInitiated) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, ExternalSignalMachine)
    assert isinstance(run.external, External)
    machine.move(ExternalSignalMove.RECORDED)
    machine.entry = None
    run.external.signals[event.event_id] = machine


def _cancel_initiated(
    run: WorkflowRun, event: RequestCancelExternalWorkflowExecutionInitiated
) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, ExternalCancelMachine)
    assert isinstance(run.external, External)
    machine.move(ExternalCancelMove.RECORDED)
    run.external.cancels[event.event_id] = machine


OTHERS_HAPPENED: dict[type[Event], Callable[[WorkflowRun, Any], None]] = {
    ChildWorkflowExecutionStarted: _child_started,
    StartChildWorkflowExecutionFailed: _child_start_failed,
    ChildWorkflowExecutionCompleted: _child_completed,
    ChildWorkflowExecutionFailed: _child_failed,
    ChildWorkflowExecutionCanceled: _child_canceled,
    ChildWorkflowExecutionTimedOut: _child_timed_out,
    ChildWorkflowExecutionTerminated: _child_terminated,
    ExternalWorkflowExecutionSignaled: _signaled,
    SignalExternalWorkflowExecutionFailed: _signal_failed,
    ExternalWorkflowExecutionCancelRequested: _cancel_requested,
    RequestCancelExternalWorkflowExecutionFailed: _cancel_failed,
}
OTHERS_RECORDED: dict[type[Event], Callable[[WorkflowRun, Any], None]] = {
    StartChildWorkflowExecutionInitiated: _child_initiated,
    SignalExternalWorkflowExecutionInitiated: _signal_initiated,
    RequestCancelExternalWorkflowExecutionInitiated: _cancel_initiated,
}
