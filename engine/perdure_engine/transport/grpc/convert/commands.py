"""Workers' commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core import commands as core
from perdure_engine.core.errors import invalid
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.frontend.checks import uuid_bytes_or_none
from perdure_engine.transport.grpc.convert.failures import failure_of
from perdure_engine.transport.grpc.convert.intents import PRIORITY_DEFAULT, REUSE_POLICIES
from perdure_engine.transport.grpc.convert.retries import policy_of
from perdure_engine.transport.grpc.convert.search_attributes import attributes_of

CLOSE_POLICIES = {0: ParentClosePolicy.TERMINATE, **{int(p): p for p in ParentClosePolicy}}


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


def _start_child_workflow(field: str, message: pb.StartChildWorkflow) -> core.StartChildWorkflow:
    at = f"{field}.start_child_workflow"
    policy = CLOSE_POLICIES.get(message.parent_close_policy)
    if policy is None:
        raise invalid(f"{at}.parent_close_policy", "is not a policy")
    reuse = REUSE_POLICIES.get(message.id_reuse_policy)
    if reuse is None:
        raise invalid(f"{at}.id_reuse_policy", "is not a policy")
    return core.StartChildWorkflow(
        workflow_id=message.workflow_id,
        workflow_type=message.workflow_type,
        task_queue=message.task_queue,
        input=message.input,
        header=message.header,
        execution_timeout_ms=message.execution_timeout_ms,
        run_timeout_ms=message.run_timeout_ms,
        task_timeout_ms=message.task_timeout_ms,
        retry_policy=policy_of(message.retry_policy) if message.HasField("retry_policy") else None,
        parent_close_policy=policy,
        id_reuse_policy=reuse,
        cron_schedule=message.cron_schedule,
        memo=message.memo,
        search_attributes=attributes_of(f"{at}.search_attributes", message.search_attributes),
        priority=message.priority,
        static_summary=message.static_summary,
        static_details=message.static_details,
    )


def _signal_external_workflow(
    field: str, message: pb.SignalExternalWorkflow
) -> core.SignalExternalWorkflow:
    return core.SignalExternalWorkflow(
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none(f"{field}.signal_external_workflow.run_id", message.run_id),
        signal_name=message.signal_name,
        input=message.input,
        header=message.header,
        child_workflow_only=message.child_workflow_only,
    )


def _request_cancel_external_workflow(
    field: str, message: pb.RequestCancelExternalWorkflow
) -> core.RequestCancelExternalWorkflow:
    at = f"{field}.request_cancel_external_workflow"
    return core.RequestCancelExternalWorkflow(
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none(f"{at}.run_id", message.run_id),
        child_workflow_only=message.child_workflow_only,
        reason=message.reason,
    )


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
    "start_child_workflow": _start_child_workflow,
    "signal_external_workflow": _signal_external_workflow,
    "request_cancel_external_workflow": _request_cancel_external_workflow,
}
