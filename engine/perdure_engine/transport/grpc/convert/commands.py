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
    )


def _request_cancel_activity(
    _: str, message: pb.RequestCancelActivity
) -> core.RequestCancelActivity:
    return core.RequestCancelActivity(message.scheduled_event_id)


def _start_timer(_: str, message: pb.StartTimer) -> core.StartTimer:
    return core.StartTimer(message.timer_id, message.start_to_fire_ms)


def _cancel_timer(_: str, message: pb.CancelTimer) -> core.CancelTimer:
    return core.CancelTimer(message.timer_id)


def _complete_workflow(_: str, message: pb.CompleteWorkflow) -> core.CompleteWorkflow:
    return core.CompleteWorkflow(message.result)


def _fail_workflow(field: str, message: pb.FailWorkflow) -> core.FailWorkflow:
    return core.FailWorkflow(failure_of(f"{field}.fail_workflow.failure", message.failure))


def _cancel_workflow(_: str, message: pb.CancelWorkflow) -> core.CancelWorkflow:
    return core.CancelWorkflow(message.details)


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
    "upsert_search_attributes": _upsert_search_attributes,
}
