"""What workflow code asked for, as the engine reads it.

The fields of messages are handed over as dicts: protobuf makes a nested message of them in a third
of the time that it takes to build and to copy one message for each level.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

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

_KnownCommand = (
    replay.ScheduleActivity
    | replay.RequestCancelActivity
    | replay.StartTimer
    | replay.CancelTimer
    | replay.CompleteWorkflow
    | replay.FailWorkflow
    | replay.CancelWorkflow
    | replay.ContinueAsNew
    | replay.AcceptUpdate
    | replay.RejectUpdate
    | replay.CompleteUpdate
    | replay.RecordMarker
    | replay.ModifyProperties
    | replay.UpsertSearchAttributes
    | external.StartChildWorkflow
    | external.SignalExternalWorkflow
    | external.RequestCancelExternalWorkflow
)


def command_fields(command: replay.Command) -> Fields:  # noqa: C901 - one case for each command
    assert isinstance(command, _KnownCommand), command
    match command:
        case replay.ScheduleActivity():
            return {"schedule_activity": _schedule_activity(command)}
        case replay.RequestCancelActivity(scheduled_event_id=scheduled_event_id):
            return {"request_cancel_activity": {"scheduled_event_id": scheduled_event_id}}
        case replay.StartTimer():
            return {"start_timer": _start_timer(command)}
        case replay.CancelTimer(timer_id=timer_id):
            return {"cancel_timer": {"timer_id": timer_id}}
        case replay.CompleteWorkflow(result=result):
            return {"complete_workflow": {"result": payloads_to_bytes(result)}}
        case replay.FailWorkflow(failure=failure):
            return {"fail_workflow": {"failure": failure_to_message(failure)}}
        case replay.CancelWorkflow(details=details):
            return {"cancel_workflow": {"details": payloads_to_bytes(details)}}
        case replay.ContinueAsNew():
            return {"continue_as_new": _continue_as_new(command)}
        case replay.AcceptUpdate(update_id=update_id):
            return {"accept_update": {"update_id": update_id}}
        case replay.RejectUpdate() | replay.CompleteUpdate():
            return _update(command)
        case replay.RecordMarker() | replay.ModifyProperties():
            return _said(command)
        case replay.UpsertSearchAttributes(updates=updates):
            fields = {"search_attributes": updates_to_fields(updates)}
            return {"upsert_search_attributes": fields}
        case external.StartChildWorkflow():
            return {"start_child_workflow": _start_child_workflow(command)}
        case external.SignalExternalWorkflow():
            return {"signal_external_workflow": _signal_external_workflow(command)}
        case external.RequestCancelExternalWorkflow():
            return {"request_cancel_external_workflow": _request_cancel(command)}
        case _:
            assert_never(command)


def _update(command: replay.RejectUpdate | replay.CompleteUpdate) -> Fields:
    failure = None if command.failure is None else failure_to_message(command.failure)
    fields: Fields = {"update_id": command.update_id, "failure": failure}
    if isinstance(command, replay.RejectUpdate):
        return {"reject_update": fields}
    return {"complete_update": {**fields, "result": payloads_to_bytes(command.result)}}


def _said(command: replay.RecordMarker | replay.ModifyProperties) -> Fields:
    if isinstance(command, replay.ModifyProperties):
        return {"modify_properties": {"upserted_memo": upsert_to_bytes(command.upserted_memo)}}
    failure = command.failure
    note = command.compensation
    marker: Fields = {
        "marker_name": command.marker_name,
        "details": payloads_to_bytes(command.details),
        "failure": None if failure is None else failure_to_message(failure),
        "compensation": None if note is None else msgspec.structs.asdict(note),
    }
    return {"record_marker": marker}


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
