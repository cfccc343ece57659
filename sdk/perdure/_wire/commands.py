"""What workflow code asked for, as the engine reads it.

The fields of messages are handed over as dicts: protobuf makes a nested message of them in a third
of the time that it takes to build and to copy one message for each level.
"""

from __future__ import annotations

from typing import Any, assert_never

from perdure._replay import messages as replay
from perdure._wire.failures import failure_to_message
from perdure._wire.payloads import fields_to_bytes, payloads_to_bytes
from perdure._wire.policies import retry_policy_to_message
from perdure._wire.search_attributes import updates_to_fields

Fields = dict[str, Any]

_KnownCommand = (
    replay.ScheduleActivity
    | replay.RequestCancelActivity
    | replay.StartTimer
    | replay.CancelTimer
    | replay.CompleteWorkflow
    | replay.FailWorkflow
    | replay.CancelWorkflow
    | replay.UpsertSearchAttributes
)


def command_fields(command: replay.Command) -> Fields:
    assert isinstance(command, _KnownCommand), command
    match command:
        case replay.ScheduleActivity():
            return {"schedule_activity": _schedule_activity(command)}
        case replay.RequestCancelActivity(scheduled_event_id=scheduled_event_id):
            return {"request_cancel_activity": {"scheduled_event_id": scheduled_event_id}}
        case replay.StartTimer(timer_id=timer_id, start_to_fire_ms=start_to_fire_ms):
            return {"start_timer": {"timer_id": timer_id, "start_to_fire_ms": start_to_fire_ms}}
        case replay.CancelTimer(timer_id=timer_id):
            return {"cancel_timer": {"timer_id": timer_id}}
        case replay.CompleteWorkflow(result=result):
            return {"complete_workflow": {"result": payloads_to_bytes(result)}}
        case replay.FailWorkflow(failure=failure):
            return {"fail_workflow": {"failure": failure_to_message(failure)}}
        case replay.CancelWorkflow(details=details):
            return {"cancel_workflow": {"details": payloads_to_bytes(details)}}
        case replay.UpsertSearchAttributes(updates=updates):
            fields = {"search_attributes": updates_to_fields(updates)}
            return {"upsert_search_attributes": fields}
        case _:
            assert_never(command)


def _schedule_activity(command: replay.ScheduleActivity) -> Fields:
    return {
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
    }


def closes_workflow(command: replay.Command) -> bool:
    return isinstance(
        command, replay.CompleteWorkflow | replay.FailWorkflow | replay.CancelWorkflow
    )
