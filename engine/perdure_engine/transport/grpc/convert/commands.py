"""Workers' commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core import commands as core
from perdure_engine.core.errors import invalid
from perdure_engine.transport.grpc.convert.failures import failure_of
from perdure_engine.transport.grpc.convert.intents import PRIORITY_DEFAULT
from perdure_engine.transport.grpc.convert.retries import policy_of
from perdure_engine.transport.grpc.convert.search_attributes import attributes_of


def commands_of(messages: Sequence[pb.Command]) -> list[core.Command]:
    """In their order. Raises INVALID_ARGUMENT for a kind that this version does not know."""
    found: list[core.Command] = []
    for index, message in enumerate(messages):
        which = message.WhichOneof("command")
        if which is None:
            raise invalid(f"commands[{index}]", "is not set, or of a kind unknown to this version")
        found.append(COMMANDS[which](f"commands[{index}]", getattr(message, which)))
    return found


def _schedule_activity(_: str, message: pb.ScheduleActivity) -> core.ScheduleActivity:
    return core.ScheduleActivity(
        message.activity_id,
        message.activity_type,
        message.task_queue,
        message.input,
        message.header,
        message.schedule_to_close_timeout_ms,
        message.schedule_to_start_timeout_ms,
        message.start_to_close_timeout_ms,
        message.heartbeat_timeout_ms,
        policy_of(message.retry_policy) if message.HasField("retry_policy") else None,
        message.priority or PRIORITY_DEFAULT,
        message.summary,
        message.version,
    )


def _request_cancel_activity(
    _: str, message: pb.RequestCancelActivity
) -> core.RequestCancelActivity:
    return core.RequestCancelActivity(message.scheduled_event_id)


def _start_timer(_: str, message: pb.StartTimer) -> core.StartTimer:
    return core.StartTimer(message.timer_id, message.start_to_fire_ms, message.summary)


def _cancel_timer(_: str, message: pb.CancelTimer) -> core.CancelTimer:
    return core.CancelTimer(message.timer_id)


def _complete_workflow(_: str, message: pb.CompleteWorkflow) -> core.CompleteWorkflow:
    return core.CompleteWorkflow(message.result)


def _fail_workflow(field: str, message: pb.FailWorkflow) -> core.FailWorkflow:
    return core.FailWorkflow(failure_of(f"{field}.fail_workflow.failure", message.failure))


def _cancel_workflow(_: str, message: pb.CancelWorkflow) -> core.CancelWorkflow:
    return core.CancelWorkflow(message.details)


def _continue_as_new(_: str, message: pb.ContinueAsNew) -> core.ContinueAsNew:
    return core.ContinueAsNew(
        message.workflow_type,
        message.task_queue,
        message.input,
        message.header,
        message.memo,
        message.run_timeout_ms,
        message.task_timeout_ms,
        policy_of(message.retry_policy) if message.HasField("retry_policy") else None,
    )


def _accept_update(_: str, message: pb.AcceptUpdate) -> core.AcceptUpdate:
    return core.AcceptUpdate(message.update_id)


def _reject_update(field: str, message: pb.RejectUpdate) -> core.RejectUpdate:
    failure = failure_of(f"{field}.reject_update.failure", message.failure)
    return core.RejectUpdate(message.update_id, failure)


def _complete_update(field: str, message: pb.CompleteUpdate) -> core.CompleteUpdate:
    failure = None
    if message.HasField("failure"):
        failure = failure_of(f"{field}.complete_update.failure", message.failure)
    return core.CompleteUpdate(message.update_id, message.result, failure)


def _record_marker(field: str, message: pb.RecordMarker) -> core.RecordMarker:
    failure = None
    if message.HasField("failure"):
        failure = failure_of(f"{field}.record_marker.failure", message.failure)
    note = None
    if message.HasField("compensation"):
        told = message.compensation
        note = core.CompensationNote(told.name, told.outcome, told.reason)
    return core.RecordMarker(message.marker_name, message.details, message.header, failure, note)


def _modify_properties(_: str, message: pb.ModifyProperties) -> core.ModifyProperties:
    return core.ModifyProperties(message.upserted_memo)


def _upsert_search_attributes(
    field: str, message: pb.UpsertSearchAttributes
) -> core.UpsertSearchAttributes:
    at = f"{field}.upsert_search_attributes.search_attributes"
    return core.UpsertSearchAttributes(attributes_of(at, message.search_attributes))


COMMANDS: dict[str, Callable[[str, Any], core.Command]] = {
    "schedule_activity": _schedule_activity,
    "request_cancel_activity": _request_cancel_activity,
    "start_timer": _start_timer,
    "cancel_timer": _cancel_timer,
    "complete_workflow": _complete_workflow,
    "fail_workflow": _fail_workflow,
    "cancel_workflow": _cancel_workflow,
    "continue_as_new": _continue_as_new,
    "accept_update": _accept_update,
    "reject_update": _reject_update,
    "complete_update": _complete_update,
    "record_marker": _record_marker,
    "modify_properties": _modify_properties,
    "upsert_search_attributes": _upsert_search_attributes,
}
