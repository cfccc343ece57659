"""Commands that reach other runs, checked by value like what a client asks for (`frontend.commands`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from perdure_engine.core import limits
from perdure_engine.core.commands import (
    OutsideCommand,
    RequestCancelExternalWorkflow,
    SignalExternalWorkflow,
    StartChildWorkflow,
)
from perdure_engine.core.errors import invalid
from perdure_engine.frontend import checks


def check_outside(command: OutsideCommand, cron_fault: Callable[[str], str]) -> None:
    match command:
        case StartChildWorkflow():
            _check_start(command, cron_fault)
        case SignalExternalWorkflow():
            at = "signal_external_workflow"
            checks.workflow_id(f"{at}.workflow_id", command.workflow_id)
            checks.signal_name(f"{at}.signal_name", command.signal_name)
            checks.size(f"{at}.input", command.input)
            checks.size(f"{at}.header", command.header, limits.HEADER_BYTES_MAX)
        case RequestCancelExternalWorkflow():
            at = "request_cancel_external_workflow"
            checks.workflow_id(f"{at}.workflow_id", command.workflow_id)
            checks.prose(f"{at}.reason", command.reason)
        case _:
            assert_never(command)


def _check_start(command: StartChildWorkflow, cron_fault: Callable[[str], str]) -> None:
    at = "start_child_workflow"
    checks.workflow_id(f"{at}.workflow_id", command.workflow_id)
    checks.type_name(f"{at}.workflow_type", command.workflow_type)
    if command.task_queue:
        checks.name(f"{at}.task_queue", command.task_queue)
    checks.size(f"{at}.input", command.input)
    checks.size(f"{at}.header", command.header, limits.HEADER_BYTES_MAX)
    checks.size(f"{at}.memo", command.memo, limits.MEMO_BYTES_MAX)
    checks.size(f"{at}.static_summary", command.static_summary, limits.REASON_BYTES_MAX)
    checks.size(f"{at}.static_details", command.static_details, limits.HEADER_BYTES_MAX)
    together = len(command.input) + len(command.header) + len(command.memo)
    together += len(command.static_summary) + len(command.static_details)
    if together > limits.CHILD_START_BYTES_MAX:
        most = limits.CHILD_START_BYTES_MAX
        raise invalid(at, f"holds {together} bytes of payloads together, the limit is {most}")
    checks.duration(f"{at}.execution_timeout_ms", command.execution_timeout_ms)
    checks.duration(f"{at}.run_timeout_ms", command.run_timeout_ms)
    checks.duration(f"{at}.task_timeout_ms", command.task_timeout_ms, limits.TASK_TIMEOUT_MS_MAX)
    if command.priority:  # 0: the parent's
        checks.priority(f"{at}.priority", command.priority)
    checks.retry_policy(f"{at}.retry_policy", command.retry_policy)
    if command.cron_schedule:
        fault = cron_fault(command.cron_schedule)
        if fault:
            raise invalid(f"{at}.cron_schedule", fault)
    if command.search_attributes:
        checks.search_attributes(f"{at}.search_attributes", command.search_attributes)
