"""What workflow code asked for, as the engine reads it.

The fields of messages are handed over as dicts: protobuf makes a nested message of them in a third
of the time that it takes to build and to copy one message for each level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure._failure_info import FailureInfo
from perdure._replay import external_messages as external
from perdure._replay import messages as replay
from perdure._wire.failures import failure_to_message
from perdure._wire.payloads import (
    fields_to_bytes,
    payload_to_bytes,
    payloads_to_bytes,
    upsert_to_bytes,
)
from perdure._wire.policies import retry_policy_to_message
from perdure._wire.search_attributes import attributes_to_fields, updates_to_fields

Fields = dict[str, Any]


def command_fields(command: replay.Command) -> Fields:
    """The field of the oneof, and what is in it."""
    name, fields = _FIELDS[type(command)]
    return {name: fields(command)}


def _reject_update(command: replay.RejectUpdate) -> Fields:
    return {"update_id": command.update_id, "failure": _failure(command.failure)}


def _complete_update(command: replay.CompleteUpdate) -> Fields:
    return {
        "update_id": command.update_id,
        "failure": _failure(command.failure),
        "result": payloads_to_bytes(command.result),
    }


def _record_marker(command: replay.RecordMarker) -> Fields:
    note = command.compensation
    return {
        "marker_name": command.marker_name,
        "details": payloads_to_bytes(command.details),
        "failure": _failure(command.failure),
        "compensation": None if note is None else msgspec.structs.asdict(note),
    }


def _failure(failure: FailureInfo | None) -> Any:
    return None if failure is None else failure_to_message(failure)


def _start_timer(command: replay.StartTimer) -> Fields:
    fields: Fields = {
        "timer_id": command.timer_id,
        "start_to_fire_ms": command.start_to_fire_ms,
    }
    if command.summary is not None:
        fields["summary"] = payload_to_bytes(command.summary)
    return fields


def _schedule_activity(command: replay.ScheduleActivity) -> Fields:
    fields: Fields = {
        "activity_id": command.activity_id,
        "activity_type": command.activity_type,
        "task_queue": command.task_queue,
        "input": payloads_to_bytes(command.input),
        "header": fields_to_bytes(command.header),
        "schedule_to_close_timeout_ms": command.schedule_to_close_timeout_ms,
        "schedule_to_start_timeout_ms": command.schedule_to_start_timeout_ms,
        "start_to_close_timeout_ms": command.start_to_close_timeout_ms,
        "heartbeat_timeout_ms": command.heartbeat_timeout_ms,
        "retry_policy": retry_policy_to_message(command.retry_policy),
        "priority": command.priority,
        "version": command.version,
    }
    if command.summary is not None:
        fields["summary"] = payload_to_bytes(command.summary)
    return fields


def _continue_as_new(command: replay.ContinueAsNew) -> Fields:
    return {
        "workflow_type": command.workflow_type,
        "task_queue": command.task_queue,
        "input": payloads_to_bytes(command.input),
        "header": fields_to_bytes(command.header),
        "memo": fields_to_bytes(command.memo),
        "run_timeout_ms": command.run_timeout_ms,
        "task_timeout_ms": command.task_timeout_ms,
        "retry_policy": retry_policy_to_message(command.retry_policy),
    }


def _start_child_workflow(command: external.StartChildWorkflow) -> Fields:
    return {
        "workflow_id": command.workflow_id,
        "workflow_type": command.workflow_type,
        "task_queue": command.task_queue,
        "input": payloads_to_bytes(command.input),
        "header": fields_to_bytes(command.header),
        "execution_timeout_ms": command.execution_timeout_ms,
        "run_timeout_ms": command.run_timeout_ms,
        "task_timeout_ms": command.task_timeout_ms,
        "retry_policy": retry_policy_to_message(command.retry_policy),
        "parent_close_policy": int(command.parent_close_policy),
        "id_reuse_policy": int(command.id_reuse_policy),
        "cron_schedule": command.cron_schedule,
        "memo": fields_to_bytes(command.memo),
        "search_attributes": attributes_to_fields(command.search_attributes),
        "priority": command.priority,
        "static_summary": payload_to_bytes(command.static_summary),
        "static_details": payload_to_bytes(command.static_details),
    }


def _signal_external_workflow(command: external.SignalExternalWorkflow) -> Fields:
    return {
        "workflow_id": command.workflow_id,
        "run_id": command.run_id,
        "signal_name": command.signal_name,
        "input": payloads_to_bytes(command.input),
        "header": fields_to_bytes(command.header),
        "child_workflow_only": command.child_workflow_only,
    }


def _request_cancel(command: external.RequestCancelExternalWorkflow) -> Fields:
    return {
        "workflow_id": command.workflow_id,
        "run_id": command.run_id,
        "child_workflow_only": command.child_workflow_only,
        "reason": command.reason,
    }


_CLOSING = (
    replay.CompleteWorkflow,
    replay.FailWorkflow,
    replay.CancelWorkflow,
    replay.ContinueAsNew,
)


def closes_workflow(command: replay.Command) -> bool:
    return isinstance(command, _CLOSING)


_FIELDS: dict[type, tuple[str, Callable[[Any], Fields]]] = {
    replay.ScheduleActivity: ("schedule_activity", _schedule_activity),
    replay.RequestCancelActivity: (
        "request_cancel_activity",
        lambda command: {"scheduled_event_id": command.scheduled_event_id},
    ),
    replay.StartTimer: ("start_timer", _start_timer),
    replay.CancelTimer: ("cancel_timer", lambda command: {"timer_id": command.timer_id}),
    replay.CompleteWorkflow: (
        "complete_workflow",
        lambda command: {"result": payloads_to_bytes(command.result)},
    ),
    replay.FailWorkflow: (
        "fail_workflow",
        lambda command: {"failure": failure_to_message(command.failure)},
    ),
    replay.CancelWorkflow: (
        "cancel_workflow",
        lambda command: {"details": payloads_to_bytes(command.details)},
    ),
    replay.ContinueAsNew: ("continue_as_new", _continue_as_new),
    replay.AcceptUpdate: ("accept_update", lambda command: {"update_id": command.update_id}),
    replay.RejectUpdate: ("reject_update", _reject_update),
    replay.CompleteUpdate: ("complete_update", _complete_update),
    replay.RecordMarker: ("record_marker", _record_marker),
    replay.ModifyProperties: (
        "modify_properties",
        lambda command: {"upserted_memo": upsert_to_bytes(command.upserted_memo)},
    ),
    replay.UpsertSearchAttributes: (
        "upsert_search_attributes",
        lambda command: {"search_attributes": updates_to_fields(command.updates)},
    ),
    external.StartChildWorkflow: ("start_child_workflow", _start_child_workflow),
    external.SignalExternalWorkflow: ("signal_external_workflow", _signal_external_workflow),
    external.RequestCancelExternalWorkflow: (
        "request_cancel_external_workflow",
        _request_cancel,
    ),
}
"""By its type: the field of the oneof, and what makes its content."""
