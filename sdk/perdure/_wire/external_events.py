"""Events of a run's children, and of what it does to other runs, as replay reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure._replay import external_messages as external
from perdure._replay import messages as replay
from perdure._wire.failures import failure_from_message, retry_state_from_number
from perdure._wire.payloads import payloads_from_bytes
from perdure_api.v1 import event_pb2 as pb

_CAUSE_PREFIX = "EXTERNAL_FAILED_CAUSE_"


def parents_from_message(started: Any) -> replay.Parents:
    return replay.Parents(
        parent_workflow_id=started.parent_workflow_id,
        parent_run_id=started.parent_run_id,
        root_workflow_id=started.root_workflow_id,
        root_run_id=started.root_run_id,
    )


def _child_initiated(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.StartChildWorkflowExecutionInitiated(
        event_id=event_id,
        time_us=time_us,
        workflow_id=message.workflow_id,
        workflow_type=message.workflow_type,
    )


def _child_start_failed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.StartChildWorkflowExecutionFailed(
        event_id=event_id, time_us=time_us, initiated_event_id=message.initiated_event_id
    )


def _child_started(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ChildWorkflowExecutionStarted(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        run_id=message.run_id,
    )


def _child_completed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ChildWorkflowExecutionCompleted(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        result=payloads_from_bytes(message.result),
    )


def _child_failed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ChildWorkflowExecutionFailed(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        started_event_id=message.started_event_id,
        run_id=message.run_id,
        failure=failure_from_message(message.failure),
        retry_state=retry_state_from_number(message.retry_state),
    )


def _child_canceled(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ChildWorkflowExecutionCanceled(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        started_event_id=message.started_event_id,
        run_id=message.run_id,
        details=payloads_from_bytes(message.details),
    )


def _child_timed_out(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ChildWorkflowExecutionTimedOut(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        started_event_id=message.started_event_id,
        run_id=message.run_id,
        retry_state=retry_state_from_number(message.retry_state),
    )


def _child_terminated(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ChildWorkflowExecutionTerminated(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        started_event_id=message.started_event_id,
        run_id=message.run_id,
    )


def _signal_initiated(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.SignalExternalWorkflowExecutionInitiated(
        event_id=event_id,
        time_us=time_us,
        workflow_id=message.workflow_id,
        signal_name=message.signal_name,
    )


def _signal_failed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.SignalExternalWorkflowExecutionFailed(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        cause=_cause(message.cause),
    )


def _signaled(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ExternalWorkflowExecutionSignaled(
        event_id=event_id, time_us=time_us, initiated_event_id=message.initiated_event_id
    )


def _cancel_initiated(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.RequestCancelExternalWorkflowExecutionInitiated(
        event_id=event_id, time_us=time_us, workflow_id=message.workflow_id
    )


def _cancel_failed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.RequestCancelExternalWorkflowExecutionFailed(
        event_id=event_id,
        time_us=time_us,
        initiated_event_id=message.initiated_event_id,
        cause=_cause(message.cause),
    )


def _cancel_requested(event_id: int, time_us: int, message: Any) -> replay.Event:
    return external.ExternalWorkflowExecutionCancelRequested(
        event_id=event_id, time_us=time_us, initiated_event_id=message.initiated_event_id
    )


def _cause(number: int) -> str:
    """One of a later engine is named by its number."""
    known = pb.ExternalFailedCause.DESCRIPTOR.values_by_number.get(number)
    return str(number) if known is None else known.name.removeprefix(_CAUSE_PREFIX)


EXTERNAL_READERS: dict[str, Callable[[int, int, Any], replay.Event]] = {
    "start_child_workflow_execution_initiated": _child_initiated,
    "start_child_workflow_execution_failed": _child_start_failed,
    "child_workflow_execution_started": _child_started,
    "child_workflow_execution_completed": _child_completed,
    "child_workflow_execution_failed": _child_failed,
    "child_workflow_execution_canceled": _child_canceled,
    "child_workflow_execution_timed_out": _child_timed_out,
    "child_workflow_execution_terminated": _child_terminated,
    "signal_external_workflow_execution_initiated": _signal_initiated,
    "signal_external_workflow_execution_failed": _signal_failed,
    "external_workflow_execution_signaled": _signaled,
    "request_cancel_external_workflow_execution_initiated": _cancel_initiated,
    "request_cancel_external_workflow_execution_failed": _cancel_failed,
    "external_workflow_execution_cancel_requested": _cancel_requested,
}
