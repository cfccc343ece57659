"""What workflow code asks for, checked by value before it comes near a shard.

What depends on the run (an unknown timer, an id used twice, too many pending) is the core's to
refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from perdure_engine.core import limits, memo
from perdure_engine.core.commands import (
    AcceptUpdate,
    CancelTimer,
    CancelWorkflow,
    Command,
    CompleteUpdate,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    ModifyProperties,
    RecordMarker,
    RejectUpdate,
    RequestCancelActivity,
    RequestCancelExternalWorkflow,
    ScheduleActivity,
    SignalExternalWorkflow,
    StartChildWorkflow,
    StartTimer,
    UpsertSearchAttributes,
)
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.frontend import checks
from perdure_engine.frontend.outside_commands import check_outside


def check_command(index: int, command: Command, cron_fault: Callable[[str], str]) -> None:
    """Raises INVALID_ARGUMENT with a field path from `commands` on. `cron_fault`: of ports.cron."""
    try:
        _check(command, cron_fault)
    except Rejected as rejected:
        raise checks.under(f"commands[{index}]", rejected) from None


def _check(command: Command, cron_fault: Callable[[str], str]) -> None:  # noqa: C901 - a closed union: one case for each of its members
    match command:
        case ScheduleActivity():
            _check_activity(command)
        case StartTimer() | CancelTimer():
            _check_timer(command)
        case CompleteWorkflow():
            checks.size("complete_workflow.result", command.result)
        case CancelWorkflow():
            checks.size("cancel_workflow.details", command.details)
        case RequestCancelActivity():
            if command.scheduled_event_id <= 0:
                raise invalid("request_cancel_activity.scheduled_event_id", "must be positive")
        case FailWorkflow():
            pass
        case ContinueAsNew():
            _check_continue_as_new(command)
        case AcceptUpdate() | RejectUpdate() | CompleteUpdate():
            _check_update(command)
        case RecordMarker() | ModifyProperties():
            _check_said(command)
        case UpsertSearchAttributes():
            at = "upsert_search_attributes.search_attributes"
            if not command.search_attributes:
                raise invalid(at, "is empty")
            checks.search_attributes(at, command.search_attributes, may_unset=True)
        case StartChildWorkflow() | SignalExternalWorkflow() | RequestCancelExternalWorkflow():
            check_outside(command, cron_fault)
        case _:
            assert_never(command)


def _check_timer(command: StartTimer | CancelTimer) -> None:
    if isinstance(command, CancelTimer):
        checks.name("cancel_timer.timer_id", command.timer_id)
        return
    checks.name("start_timer.timer_id", command.timer_id)
    checks.duration("start_timer.start_to_fire_ms", command.start_to_fire_ms)
    checks.size("start_timer.summary", command.summary)


def _check_continue_as_new(command: ContinueAsNew) -> None:
    at = "continue_as_new"
    if command.workflow_type:
        checks.type_name(f"{at}.workflow_type", command.workflow_type)
    if command.task_queue:
        checks.name(f"{at}.task_queue", command.task_queue)
    checks.size(f"{at}.input", command.input)
    checks.size(f"{at}.header", command.header, limits.HEADER_BYTES_MAX)
    checks.size(f"{at}.memo", command.memo, limits.MEMO_BYTES_MAX)
    checks.duration(f"{at}.run_timeout_ms", command.run_timeout_ms)
    checks.duration(f"{at}.task_timeout_ms", command.task_timeout_ms, limits.TASK_TIMEOUT_MS_MAX)
    checks.retry_policy(f"{at}.retry_policy", command.retry_policy)


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
    checks.size(f"{at}.summary", command.summary)
    if not 0 <= command.version <= limits.ACTIVITY_VERSION_MAX:
        raise invalid(f"{at}.version", f"must lie between 0 and {limits.ACTIVITY_VERSION_MAX}")


def _check_update(command: AcceptUpdate | RejectUpdate | CompleteUpdate) -> None:
    match command:
        case AcceptUpdate():
            checks.name("accept_update.update_id", command.update_id)
        case RejectUpdate():
            checks.name("reject_update.update_id", command.update_id)
        case CompleteUpdate():
            checks.name("complete_update.update_id", command.update_id)
            checks.size("complete_update.result", command.result)


def _check_said(command: RecordMarker | ModifyProperties) -> None:
    """What the workflow says of itself, for its worker and for people."""
    if isinstance(command, RecordMarker):
        checks.name("record_marker.marker_name", command.marker_name)
        checks.size("record_marker.details", command.details)
        checks.size("record_marker.header", command.header, limits.HEADER_BYTES_MAX)
        if command.compensation is not None:
            for name in ("name", "outcome", "reason"):
                checks.prose(
                    f"record_marker.compensation.{name}", getattr(command.compensation, name)
                )
        return
    field = "modify_properties.upserted_memo"
    checks.size(field, command.upserted_memo, limits.MEMO_BYTES_MAX)
    try:
        memo.check(command.upserted_memo)
    except memo.MalformedMemo as error:
        raise invalid(field, f"is not an encoded Memo: {error}") from None
