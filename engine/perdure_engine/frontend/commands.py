"""What workflow code asks for, checked by value before it comes near a shard.

What depends on the run (an unknown timer, an id used twice, too many pending) is the core's to
refuse.
"""

from __future__ import annotations

from typing import assert_never

from perdure_engine.core import limits
from perdure_engine.core.commands import (
    CancelTimer,
    CancelWorkflow,
    Command,
    CompleteWorkflow,
    FailWorkflow,
    RequestCancelActivity,
    ScheduleActivity,
    StartTimer,
    UpsertSearchAttributes,
)
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.frontend import checks


def check_command(index: int, command: Command) -> None:
    """Raises INVALID_ARGUMENT with a field path from `commands` on."""
    try:
        _check(command)
    except Rejected as rejected:
        raise checks.under(f"commands[{index}]", rejected) from None


def _check(command: Command) -> None:  # noqa: C901 - an arm for each kind of command
    match command:
        case ScheduleActivity():
            _check_activity(command)
        case StartTimer():
            checks.name("start_timer.timer_id", command.timer_id)
            checks.duration("start_timer.start_to_fire_ms", command.start_to_fire_ms)
        case CompleteWorkflow():
            checks.size("complete_workflow.result", command.result)
        case CancelWorkflow():
            checks.size("cancel_workflow.details", command.details)
        case CancelTimer():
            checks.name("cancel_timer.timer_id", command.timer_id)
        case RequestCancelActivity():
            if command.scheduled_event_id <= 0:
                raise invalid("request_cancel_activity.scheduled_event_id", "must be positive")
        case FailWorkflow():
            pass
        case UpsertSearchAttributes():
            at = "upsert_search_attributes.search_attributes"
            if not command.search_attributes:
                raise invalid(at, "is empty")
            checks.search_attributes(at, command.search_attributes, may_unset=True)
        case _:
            assert_never(command)


def _check_activity(command: ScheduleActivity) -> None:
    at = "schedule_activity"
    checks.name(f"{at}.activity_id", command.activity_id)
    checks.type_name(f"{at}.activity_type", command.activity_type)
    if command.task_queue:
        checks.name(f"{at}.task_queue", command.task_queue)
    checks.size(f"{at}.input", command.input)
    checks.size(f"{at}.header", command.header, limits.HEADER_BYTES_MAX)
    checks.duration(f"{at}.schedule_to_close_timeout_ms", command.schedule_to_close_timeout_ms)
    checks.duration(f"{at}.schedule_to_start_timeout_ms", command.schedule_to_start_timeout_ms)
    checks.duration(f"{at}.start_to_close_timeout_ms", command.start_to_close_timeout_ms)
    checks.duration(f"{at}.heartbeat_timeout_ms", command.heartbeat_timeout_ms)
    if not command.schedule_to_close_timeout_ms and not command.start_to_close_timeout_ms:
        raise invalid(
            f"{at}.start_to_close_timeout_ms", "this or schedule_to_close_timeout_ms is required"
        )
    checks.retry_policy(f"{at}.retry_policy", command.retry_policy)
    checks.priority(f"{at}.priority", command.priority)
