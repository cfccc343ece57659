"""Events of children and other runs, towards the wire. `events` has the table of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_engine.core import outside_events as core
from perdure_engine.core.events import Event
from perdure_engine.core.ids import uuid_text
from perdure_engine.transport.grpc.convert.failures import failure_fields
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.retries import policy_fields
from perdure_engine.transport.grpc.convert.search_attributes import attribute_fields


def _optional_id(raw: bytes) -> str:
    return uuid_text(raw) if raw else ""


def _start_initiated(e: core.StartChildWorkflowExecutionInitiated) -> Fields:
    return {
        "workflow_id": e.workflow_id,
        "workflow_type": e.workflow_type,
        "task_queue": e.task_queue,
        "input": e.input,
        "header": e.header,
        "execution_timeout_ms": e.execution_timeout_ms,
        "run_timeout_ms": e.run_timeout_ms,
        "task_timeout_ms": e.task_timeout_ms,
        "retry_policy": policy_fields(e.retry_policy),
        "parent_close_policy": e.parent_close_policy,
        "id_reuse_policy": e.id_reuse_policy,
        "cron_schedule": e.cron_schedule,
        "memo": e.memo,
        "search_attributes": attribute_fields(e.search_attributes),
        "priority": e.priority,
        "static_summary": e.static_summary,
        "static_details": e.static_details,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _start_failed(e: core.StartChildWorkflowExecutionFailed) -> Fields:
    return {
        "initiated_event_id": e.initiated_event_id,
        "workflow_id": e.workflow_id,
        "workflow_type": e.workflow_type,
        "cause": e.cause,
    }


def _child_started(e: core.ChildWorkflowExecutionStarted) -> Fields:
    return {
        "initiated_event_id": e.initiated_event_id,
        "workflow_id": e.workflow_id,
        "run_id": uuid_text(e.run_id),
        "workflow_type": e.workflow_type,
    }


def _child_closed(e: core.ChildClosedEvent) -> Fields:
    return {
        "initiated_event_id": e.initiated_event_id,
        "started_event_id": e.started_event_id,
        "workflow_id": e.workflow_id,
        "run_id": _optional_id(e.run_id),
        "workflow_type": e.workflow_type,
    }


def _child_completed(e: core.ChildWorkflowExecutionCompleted) -> Fields:
    return {**_child_closed(e), "result": e.result}


def _child_failed(e: core.ChildWorkflowExecutionFailed) -> Fields:
    return {
        **_child_closed(e),
        "failure": failure_fields(e.failure),
        "retry_state": e.retry_state,
    }


def _child_canceled(e: core.ChildWorkflowExecutionCanceled) -> Fields:
    return {**_child_closed(e), "details": e.details}


def _child_timed_out(e: core.ChildWorkflowExecutionTimedOut) -> Fields:
    return {**_child_closed(e), "retry_state": e.retry_state}


def _signal_initiated(e: core.SignalExternalWorkflowExecutionInitiated) -> Fields:
    return {
        "workflow_id": e.workflow_id,
        "run_id": _optional_id(e.run_id),
        "signal_name": e.signal_name,
        "input": e.input,
        "header": e.header,
        "child_workflow_only": e.child_workflow_only,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _cancel_initiated(e: core.RequestCancelExternalWorkflowExecutionInitiated) -> Fields:
    return {
        "workflow_id": e.workflow_id,
        "run_id": _optional_id(e.run_id),
        "child_workflow_only": e.child_workflow_only,
        "reason": e.reason,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _external_failed(
    e: core.SignalExternalWorkflowExecutionFailed
    | core.RequestCancelExternalWorkflowExecutionFailed,
) -> Fields:
    return {**_external_reached(e), "cause": e.cause}


def _external_reached(
    e: core.ExternalWorkflowExecutionSignaled
    | core.ExternalWorkflowExecutionCancelRequested
    | core.SignalExternalWorkflowExecutionFailed
    | core.RequestCancelExternalWorkflowExecutionFailed,
) -> Fields:
    return {
        "initiated_event_id": e.initiated_event_id,
        "workflow_id": e.workflow_id,
        "run_id": _optional_id(e.run_id),
    }


OUTSIDE: dict[type[Event], tuple[str, Callable[[Any], Fields]]] = {
    core.StartChildWorkflowExecutionInitiated: (
        "start_child_workflow_execution_initiated",
        _start_initiated,
    ),
    core.StartChildWorkflowExecutionFailed: (
        "start_child_workflow_execution_failed",
        _start_failed,
    ),
    core.ChildWorkflowExecutionStarted: ("child_workflow_execution_started", _child_started),
    core.ChildWorkflowExecutionCompleted: (
        "child_workflow_execution_completed",
        _child_completed,
    ),
    core.ChildWorkflowExecutionFailed: ("child_workflow_execution_failed", _child_failed),
    core.ChildWorkflowExecutionCanceled: ("child_workflow_execution_canceled", _child_canceled),
    core.ChildWorkflowExecutionTimedOut: (
        "child_workflow_execution_timed_out",
        _child_timed_out,
    ),
    core.ChildWorkflowExecutionTerminated: ("child_workflow_execution_terminated", _child_closed),
    core.SignalExternalWorkflowExecutionInitiated: (
        "signal_external_workflow_execution_initiated",
        _signal_initiated,
    ),
    core.SignalExternalWorkflowExecutionFailed: (
        "signal_external_workflow_execution_failed",
        _external_failed,
    ),
    core.ExternalWorkflowExecutionSignaled: (
        "external_workflow_execution_signaled",
        _external_reached,
    ),
    core.RequestCancelExternalWorkflowExecutionInitiated: (
        "request_cancel_external_workflow_execution_initiated",
        _cancel_initiated,
    ),
    core.RequestCancelExternalWorkflowExecutionFailed: (
        "request_cancel_external_workflow_execution_failed",
        _external_failed,
    ),
    core.ExternalWorkflowExecutionCancelRequested: (
        "external_workflow_execution_cancel_requested",
        _external_reached,
    ),
}
