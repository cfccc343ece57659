"""Events of a history, towards the wire. One table: the event's type, its field, its attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure_api.v1 import event_pb2
from perdure_engine.core import events as core
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.parents import Parent
from perdure_engine.transport.grpc.convert.failures import failure_fields
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.outside_events import OUTSIDE
from perdure_engine.transport.grpc.convert.retries import policy_fields
from perdure_engine.transport.grpc.convert.search_attributes import attribute_fields
from perdure_engine.transport.grpc.convert.versions import versioning_fields


def event_message(event: core.Event) -> event_pb2.HistoryEvent:
    return event_pb2.HistoryEvent(**event_fields(event))


def event_fields(event: core.Event) -> Fields:
    name, attributes = ATTRIBUTES[type(event)]
    return {"event_id": event.event_id, "time_us": event.time_us, name: attributes(event)}


def _request_id(raw: bytes) -> str:
    """Empty when the engine itself acted: it terminates a run at its history limit, for one."""
    return _optional_id(raw)


def _optional_id(raw: bytes) -> str:
    return uuid_text(raw) if raw else ""


def _workflow_execution_started(e: core.WorkflowExecutionStarted) -> Fields:
    return {
        "workflow_type": e.workflow_type,
        "task_queue": e.task_queue,
        "input": e.input,
        "header": e.header,
        "execution_timeout_ms": e.execution_timeout_ms,
        "run_timeout_ms": e.run_timeout_ms,
        "task_timeout_ms": e.task_timeout_ms,
        "retry_policy": policy_fields(e.retry_policy),
        "attempt": e.attempt,
        "memo": e.memo,
        "identity": e.identity,
        "request_id": _request_id(e.request_id),
        "workflow_id": e.workflow_id,
        "run_id": uuid_text(e.run_id),
        "first_run_id": uuid_text(e.first_run_id),
        "start_delay_ms": e.start_delay_ms,
        "priority": e.priority,
        "static_summary": e.static_summary,
        "static_details": e.static_details,
        "search_attributes": attribute_fields(e.search_attributes) if e.search_attributes else (),
        "versioning_override": versioning_fields(e.versioning_override),
        "inherited_version": versioning_fields(e.inherited_version),
        **(_continued(e) if e.execution_deadline_us or e.cron_schedule or e.initiator else {}),
        **(_parent(e.parent) if e.parent is not None else {}),
        **(_reset(e) if e.reset_from_run_id else {}),
    }


def _parent(parent: Parent) -> Fields:
    return {
        "parent_workflow_id": parent.workflow_id,
        "parent_run_id": uuid_text(parent.run_id),
        "parent_initiated_event_id": parent.initiated_event_id,
        "root_workflow_id": parent.root_workflow_id,
        "root_run_id": uuid_text(parent.root_run_id),
    }


def _reset(e: core.WorkflowExecutionStarted) -> Fields:
    return {
        "original_run_id": _optional_id(e.original_run_id),
        "reset_from_run_id": uuid_text(e.reset_from_run_id),
    }


def _continued(e: core.WorkflowExecutionStarted) -> Fields:
    """What only the runs of a chain have."""
    return {
        "continued_from_run_id": _optional_id(e.continued_from_run_id),
        "initiator": e.initiator,
        "last_failure": failure_fields(e.last_failure),
        "last_completion_result": e.last_completion_result,
        "cron_schedule": e.cron_schedule,
        "execution_deadline_us": e.execution_deadline_us,
        "first_task_backoff_ms": e.first_task_backoff_ms,
    }


def _workflow_execution_completed(e: core.WorkflowExecutionCompleted) -> Fields:
    return {
        "result": e.result,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "new_run_id": _optional_id(e.new_run_id),
    }


def _workflow_execution_failed(e: core.WorkflowExecutionFailed) -> Fields:
    return {
        "failure": failure_fields(e.failure),
        "retry_state": e.retry_state,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "new_run_id": _optional_id(e.new_run_id),
    }


def _workflow_execution_timed_out(e: core.WorkflowExecutionTimedOut) -> Fields:
    return {"retry_state": e.retry_state, "new_run_id": _optional_id(e.new_run_id)}


def _workflow_task_scheduled(e: core.WorkflowTaskScheduled) -> Fields:
    return {
        "task_queue": e.task_queue,
        "task_timeout_ms": e.task_timeout_ms,
        "attempt": e.attempt,
    }


def _workflow_task_started(e: core.WorkflowTaskStarted) -> Fields:
    return {
        "scheduled_event_id": e.scheduled_event_id,
        "identity": e.identity,
        "history_size_bytes": e.history_bytes,
        "suggest_continue_as_new": e.suggest_continue_as_new,
    }


def _workflow_task_completed(e: core.WorkflowTaskCompleted) -> Fields:
    return {
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "identity": e.identity,
        "build_id": e.build_id,
        "wake_rules": [msgspec.structs.asdict(rule) for rule in e.wake_rules],
        "deployment_name": e.deployment_name,
        "versioning_behavior": e.behavior,
    }


def _workflow_task_timed_out(e: core.WorkflowTaskTimedOut) -> Fields:
    return {
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "timeout_type": e.timeout_type,
    }


def _workflow_task_failed(e: core.WorkflowTaskFailed) -> Fields:
    return {
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "cause": e.cause,
        "failure": failure_fields(e.failure),
        "identity": e.identity,
        "base_run_id": _optional_id(e.base_run_id),
        "new_run_id": _optional_id(e.new_run_id),
        "fork_event_id": e.fork_event_id,
    }


def _activity_task_scheduled(e: core.ActivityTaskScheduled) -> Fields:
    return {
        "activity_id": e.activity_id,
        "activity_type": e.activity_type,
        "task_queue": e.task_queue,
        "input": e.input,
        "header": e.header,
        "schedule_to_close_timeout_ms": e.schedule_to_close_timeout_ms,
        "schedule_to_start_timeout_ms": e.schedule_to_start_timeout_ms,
        "start_to_close_timeout_ms": e.start_to_close_timeout_ms,
        "heartbeat_timeout_ms": e.heartbeat_timeout_ms,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "retry_policy": policy_fields(e.retry_policy),
        "priority": e.priority,
        "summary": e.summary,
        "version": e.version,
    }


def _activity_task_started(e: core.ActivityTaskStarted) -> Fields:
    return {
        "scheduled_event_id": e.scheduled_event_id,
        "identity": e.identity,
        "attempt": e.attempt,
        "last_failure": failure_fields(e.last_failure),
    }


def _activity_task_completed(e: core.ActivityTaskCompleted) -> Fields:
    return {
        "result": e.result,
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "identity": e.identity,
    }


def _activity_task_failed(e: core.ActivityTaskFailed) -> Fields:
    return {
        "failure": failure_fields(e.failure),
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "identity": e.identity,
        "retry_state": e.retry_state,
    }


def _activity_task_timed_out(e: core.ActivityTaskTimedOut) -> Fields:
    return {
        "failure": failure_fields(e.failure),
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "retry_state": e.retry_state,
    }


def _activity_task_cancel_requested(e: core.ActivityTaskCancelRequested) -> Fields:
    return {
        "scheduled_event_id": e.scheduled_event_id,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _activity_task_canceled(e: core.ActivityTaskCanceled) -> Fields:
    return {
        "details": e.details,
        "latest_cancel_requested_event_id": e.latest_cancel_requested_event_id,
        "scheduled_event_id": e.scheduled_event_id,
        "started_event_id": e.started_event_id,
        "identity": e.identity,
    }


def _timer_started(e: core.TimerStarted) -> Fields:
    return {
        "timer_id": e.timer_id,
        "start_to_fire_ms": e.start_to_fire_ms,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "summary": e.summary,
    }


def _timer_fired(e: core.TimerFired) -> Fields:
    return {"timer_id": e.timer_id, "started_event_id": e.started_event_id}


def _timer_canceled(e: core.TimerCanceled) -> Fields:
    return {
        "timer_id": e.timer_id,
        "started_event_id": e.started_event_id,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "identity": e.identity,
    }


def _workflow_execution_cancel_requested(
    e: core.WorkflowExecutionCancelRequested,
) -> Fields:
    return {
        "reason": e.reason,
        "identity": e.identity,
        "request_id": _request_id(e.request_id),
    }


def _workflow_execution_canceled(e: core.WorkflowExecutionCanceled) -> Fields:
    return {
        "details": e.details,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _workflow_execution_signaled(e: core.WorkflowExecutionSignaled) -> Fields:
    return {
        "signal_name": e.signal_name,
        "input": e.input,
        "identity": e.identity,
        "header": e.header,
        "request_id": _request_id(e.request_id),
    }


def _workflow_execution_terminated(e: core.WorkflowExecutionTerminated) -> Fields:
    return {
        "reason": e.reason,
        "details": e.details,
        "identity": e.identity,
        "request_id": _request_id(e.request_id),
        "reset_run_id": _optional_id(e.reset_run_id),
    }


def _workflow_execution_continued_as_new(e: core.WorkflowExecutionContinuedAsNew) -> Fields:
    return {
        "new_run_id": uuid_text(e.new_run_id),
        "workflow_type": e.workflow_type,
        "task_queue": e.task_queue,
        "input": e.input,
        "header": e.header,
        "memo": e.memo,
        "run_timeout_ms": e.run_timeout_ms,
        "task_timeout_ms": e.task_timeout_ms,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "initiator": e.initiator,
    }


def _workflow_execution_update_accepted(e: core.WorkflowExecutionUpdateAccepted) -> Fields:
    return {
        "update_id": e.update_id,
        "update_name": e.update_name,
        "input": e.input,
        "header": e.header,
        "identity": e.identity,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _workflow_execution_update_completed(e: core.WorkflowExecutionUpdateCompleted) -> Fields:
    return {
        "update_id": e.update_id,
        "accepted_event_id": e.accepted_event_id,
        "result": e.result,
        "failure": failure_fields(e.failure),
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _workflow_execution_update_admitted(e: core.WorkflowExecutionUpdateAdmitted) -> Fields:
    return {
        "update_id": e.update_id,
        "update_name": e.update_name,
        "input": e.input,
        "header": e.header,
        "identity": e.identity,
    }


def _marker_recorded(e: core.MarkerRecorded) -> Fields:
    return {
        "marker_name": e.marker_name,
        "details": e.details,
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "header": e.header,
        "failure": failure_fields(e.failure),
    }


def _workflow_properties_modified(e: core.WorkflowPropertiesModified) -> Fields:
    return {
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
        "upserted_memo": e.upserted_memo,
    }


def _upsert_workflow_search_attributes(e: core.UpsertWorkflowSearchAttributes) -> Fields:
    return {
        "search_attributes": attribute_fields(e.search_attributes),
        "workflow_task_completed_event_id": e.workflow_task_completed_event_id,
    }


def _held_back(e: core.WorkflowExecutionPaused | core.WorkflowExecutionUnpaused) -> Fields:
    return {
        "reason": e.reason,
        "identity": e.identity,
        "request_id": _request_id(e.request_id),
    }


def _paused(e: core.WorkflowExecutionPaused) -> Fields:
    fields = _held_back(e)
    if e.suspended:
        fields["suspended"] = True
    return fields


def _workflow_execution_options_updated(e: core.WorkflowExecutionOptionsUpdated) -> Fields:
    return {
        "versioning_override": versioning_fields(e.versioning_override),
        "identity": e.identity,
        "request_id": _optional_id(e.request_id),
    }


ATTRIBUTES: dict[type[core.Event], tuple[str, Callable[[Any], Fields]]] = {
    core.WorkflowExecutionStarted: ("workflow_execution_started", _workflow_execution_started),
    core.WorkflowExecutionCompleted: (
        "workflow_execution_completed",
        _workflow_execution_completed,
    ),
    core.WorkflowExecutionFailed: ("workflow_execution_failed", _workflow_execution_failed),
    core.WorkflowExecutionTimedOut: (
        "workflow_execution_timed_out",
        _workflow_execution_timed_out,
    ),
    core.WorkflowTaskScheduled: ("workflow_task_scheduled", _workflow_task_scheduled),
    core.WorkflowTaskStarted: ("workflow_task_started", _workflow_task_started),
    core.WorkflowTaskCompleted: ("workflow_task_completed", _workflow_task_completed),
    core.WorkflowTaskTimedOut: ("workflow_task_timed_out", _workflow_task_timed_out),
    core.WorkflowTaskFailed: ("workflow_task_failed", _workflow_task_failed),
    core.ActivityTaskScheduled: ("activity_task_scheduled", _activity_task_scheduled),
    core.ActivityTaskStarted: ("activity_task_started", _activity_task_started),
    core.ActivityTaskCompleted: ("activity_task_completed", _activity_task_completed),
    core.ActivityTaskFailed: ("activity_task_failed", _activity_task_failed),
    core.ActivityTaskTimedOut: ("activity_task_timed_out", _activity_task_timed_out),
    core.ActivityTaskCancelRequested: (
        "activity_task_cancel_requested",
        _activity_task_cancel_requested,
    ),
    core.ActivityTaskCanceled: ("activity_task_canceled", _activity_task_canceled),
    core.TimerStarted: ("timer_started", _timer_started),
    core.TimerFired: ("timer_fired", _timer_fired),
    core.TimerCanceled: ("timer_canceled", _timer_canceled),
    core.WorkflowExecutionCancelRequested: (
        "workflow_execution_cancel_requested",
        _workflow_execution_cancel_requested,
    ),
    core.WorkflowExecutionCanceled: ("workflow_execution_canceled", _workflow_execution_canceled),
    core.WorkflowExecutionSignaled: ("workflow_execution_signaled", _workflow_execution_signaled),
    core.WorkflowExecutionTerminated: (
        "workflow_execution_terminated",
        _workflow_execution_terminated,
    ),
    core.WorkflowExecutionContinuedAsNew: (
        "workflow_execution_continued_as_new",
        _workflow_execution_continued_as_new,
    ),
    core.WorkflowExecutionUpdateAccepted: (
        "workflow_execution_update_accepted",
        _workflow_execution_update_accepted,
    ),
    core.WorkflowExecutionUpdateCompleted: (
        "workflow_execution_update_completed",
        _workflow_execution_update_completed,
    ),
    core.WorkflowExecutionUpdateAdmitted: (
        "workflow_execution_update_admitted",
        _workflow_execution_update_admitted,
    ),
    core.MarkerRecorded: ("marker_recorded", _marker_recorded),
    core.WorkflowPropertiesModified: (
        "workflow_properties_modified",
        _workflow_properties_modified,
    ),
    core.UpsertWorkflowSearchAttributes: (
        "upsert_workflow_search_attributes",
        _upsert_workflow_search_attributes,
    ),
    **OUTSIDE,
    core.WorkflowExecutionPaused: ("workflow_execution_paused", _paused),
    core.WorkflowExecutionUnpaused: ("workflow_execution_unpaused", _held_back),
    core.WorkflowExecutionOptionsUpdated: (
        "workflow_execution_options_updated",
        _workflow_execution_options_updated,
    ),
}
