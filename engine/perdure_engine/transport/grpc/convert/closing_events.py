"""The end of an archived run, from the contract's event to the core's: what is told of an end is told of the core's."""

from __future__ import annotations

from perdure_api.v1 import event_pb2
from perdure_engine.core import events
from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import RetryState
from perdure_engine.frontend.checks import uuid_bytes_or_none
from perdure_engine.ports.archive import ArchiveCorrupt
from perdure_engine.transport.grpc.convert.failures import failure_of


def closing_event(message: event_pb2.HistoryEvent) -> events.ClosingEvent:
    """Raises ArchiveCorrupt for an event that ends no run, as far as this version knows, or holds what none does."""
    try:
        return _closing_event(message)
    except (
        Rejected,
        ValueError,
    ) as error:  # said of what was put there, not of what the caller asks for
        raise ArchiveCorrupt(f"event {message.event_id} does not read back: {error}") from error


def _closing_event(message: event_pb2.HistoryEvent) -> events.ClosingEvent:
    end, at = message, (message.event_id, message.time_us)
    match message.WhichOneof("attributes"):
        case "workflow_execution_completed":
            done = end.workflow_execution_completed
            task = done.workflow_task_completed_event_id
            return events.WorkflowExecutionCompleted(*at, done.result, task, _id(done.new_run_id))
        case "workflow_execution_failed":
            return _failed(at, end.workflow_execution_failed)
        case "workflow_execution_timed_out":
            late = end.workflow_execution_timed_out
            state, following = RetryState(late.retry_state), _id(late.new_run_id)
            return events.WorkflowExecutionTimedOut(*at, state, following)
        case "workflow_execution_canceled":
            canceled = end.workflow_execution_canceled
            task = canceled.workflow_task_completed_event_id
            return events.WorkflowExecutionCanceled(*at, canceled.details, task)
        case "workflow_execution_terminated":
            return _terminated(at, end.workflow_execution_terminated)
        case "workflow_execution_continued_as_new":
            return _continued(at, end.workflow_execution_continued_as_new)
        case _:
            raise ArchiveCorrupt(f"event {message.event_id} is no end that this version knows")


def _failed(
    at: tuple[int, int], failed: event_pb2.WorkflowExecutionFailed
) -> events.WorkflowExecutionFailed:
    return events.WorkflowExecutionFailed(
        *at,
        failure_of("failure", failed.failure),
        RetryState(failed.retry_state),
        failed.workflow_task_completed_event_id,
        _id(failed.new_run_id),
    )


def _terminated(
    at: tuple[int, int], ended: event_pb2.WorkflowExecutionTerminated
) -> events.WorkflowExecutionTerminated:
    """Without the hash of the request: the contract has none."""
    request_id, reset_run_id = _id(ended.request_id), _id(ended.reset_run_id)
    return events.WorkflowExecutionTerminated(
        *at, ended.reason, ended.details, ended.identity, request_id, b"", reset_run_id
    )


def _continued(
    at: tuple[int, int], goes_on: event_pb2.WorkflowExecutionContinuedAsNew
) -> events.WorkflowExecutionContinuedAsNew:
    return events.WorkflowExecutionContinuedAsNew(
        *at,
        _id(goes_on.new_run_id),
        goes_on.workflow_type,
        goes_on.task_queue,
        goes_on.input,
        goes_on.header,
        goes_on.memo,
        goes_on.run_timeout_ms,
        goes_on.task_timeout_ms,
        goes_on.workflow_task_completed_event_id,
        events.Initiator(goes_on.initiator),
    )


def _id(text: str) -> bytes:
    return uuid_bytes_or_none("new_run_id", text)
