"""Commands that reach other runs, refused by value with the field named (the bad input rows B9 to B60)."""

from __future__ import annotations

import pytest

from perdure_engine.core import limits
from perdure_engine.core.commands import (
    Command,
    RequestCancelExternalWorkflow,
    SignalExternalWorkflow,
    StartChildWorkflow,
)
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.frontend.commands import check_command

LARGE = bytes(limits.PAYLOAD_BYTES_MAX + 1)
HALF = bytes(limits.PAYLOAD_BYTES_MAX)


def fault(schedule: str) -> str:
    return "" if schedule == "0 * * * *" else "is not a schedule"


def child(**changes: object) -> StartChildWorkflow:
    fields: dict[str, object] = {"workflow_id": "child-1", "workflow_type": "Ship"}
    return StartChildWorkflow(**(fields | changes))  # type: ignore[arg-type]  # by name


def signal(**changes: object) -> SignalExternalWorkflow:
    fields: dict[str, object] = {"workflow_id": "order-1", "signal_name": "paid"}
    return SignalExternalWorkflow(**(fields | changes))  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    "command",
    [
        child(),
        child(task_queue="ships", cron_schedule="0 * * * *", priority=5, memo=HALF),
        signal(),
        signal(child_workflow_only=True),
        RequestCancelExternalWorkflow(workflow_id="order-1", reason="unwanted"),
    ],
)
def test_what_is_well_formed_passes(command: Command) -> None:
    check_command(0, command, fault)


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (child(workflow_id=""), "start_child_workflow.workflow_id"),
        (child(workflow_id="x" * 1_001), "start_child_workflow.workflow_id"),
        (child(workflow_id="a\nb"), "start_child_workflow.workflow_id"),
        (child(workflow_type="../etc"), "start_child_workflow.workflow_type"),
        (child(task_queue="__own"), "start_child_workflow.task_queue"),
        (child(input=LARGE), "start_child_workflow.input"),
        (child(header=LARGE), "start_child_workflow.header"),
        (child(memo=LARGE), "start_child_workflow.memo"),
        (child(input=HALF, memo=HALF), "start_child_workflow"),
        (child(static_summary=LARGE), "start_child_workflow.static_summary"),
        (child(static_details=LARGE), "start_child_workflow.static_details"),
        (child(execution_timeout_ms=-1), "start_child_workflow.execution_timeout_ms"),
        (child(run_timeout_ms=1 << 60), "start_child_workflow.run_timeout_ms"),
        (child(task_timeout_ms=120_001), "start_child_workflow.task_timeout_ms"),
        (child(priority=6), "start_child_workflow.priority"),
        (
            child(retry_policy=RetryPolicy(0)),
            "start_child_workflow.retry_policy.initial_interval_ms",
        ),
        (child(cron_schedule="never"), "start_child_workflow.cron_schedule"),
        (
            child(search_attributes=(SearchAttribute("", AttributeType.INT, 1),)),
            "start_child_workflow.search_attributes[0].name",
        ),
        (signal(workflow_id=""), "signal_external_workflow.workflow_id"),
        (signal(signal_name="__reserved"), "signal_external_workflow.signal_name"),
        (signal(input=LARGE), "signal_external_workflow.input"),
        (signal(header=LARGE), "signal_external_workflow.header"),
        (
            RequestCancelExternalWorkflow(workflow_id=""),
            "request_cancel_external_workflow.workflow_id",
        ),
        (
            RequestCancelExternalWorkflow(workflow_id="w", reason="x" * 5_000),
            "request_cancel_external_workflow.reason",
        ),
    ],
)
def test_what_is_not_is_refused_with_its_field(command: Command, field: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_command(2, command, fault)

    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.field == f"commands[2].{field}"
