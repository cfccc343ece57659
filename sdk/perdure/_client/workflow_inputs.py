"""What interceptors of a client see of what it asks about workflows and activities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from perdure._payload import Payload
from perdure._wire.activity_service import AttemptAddress
from perdure._wire.updates import WorkflowUpdateStage
from perdure.common import (
    Priority,
    QueryRejectCondition,
    RetryPolicy,
    SearchAttributePair,
    TypedSearchAttributes,
    VersioningOverride,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
    WorkflowStatus,
)

__all__ = [
    "CancelWorkflowInput",
    "CompleteAsyncActivityInput",
    "CountWorkflowsInput",
    "DeleteWorkflowInput",
    "DescribeWorkflowInput",
    "FailAsyncActivityInput",
    "FetchWorkflowHistoryEventsInput",
    "GetWorkflowResultInput",
    "HeartbeatAsyncActivityInput",
    "ListWorkflowsInput",
    "QueryWorkflowInput",
    "ReportCancellationAsyncActivityInput",
    "SignalWorkflowInput",
    "StartWorkflowInput",
    "StartWorkflowUpdateInput",
    "StartWorkflowUpdateWithStartInput",
    "TerminateWorkflowInput",
    "UpdateWithStartStartWorkflowInput",
    "UpdateWithStartUpdateWorkflowInput",
]


@dataclass(kw_only=True)
class UpdateWithStartStartWorkflowInput:
    """Of a start that goes along with an update; see `StartOptions`."""

    workflow: str
    args: Sequence[Any]
    id: str
    task_queue: str
    headers: Mapping[str, Payload]
    ret_type: Any = Any
    execution_timeout: timedelta | None = None
    run_timeout: timedelta | None = None
    task_timeout: timedelta | None = None
    id_reuse_policy: WorkflowIdReusePolicy = WorkflowIdReusePolicy.ALLOW_DUPLICATE
    id_conflict_policy: WorkflowIdConflictPolicy = WorkflowIdConflictPolicy.UNSPECIFIED
    retry_policy: RetryPolicy | None = None
    memo: Mapping[str, Any] | None = None
    start_delay: timedelta | None = None
    cron_schedule: str = ""
    priority: Priority = Priority()  # noqa: RUF009 - frozen
    static_summary: str | None = None
    static_details: str | None = None
    rpc_timeout: timedelta | None = None
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None
    versioning_override: VersioningOverride | None = None
    request_eager_start: bool = False


@dataclass(kw_only=True)
class StartWorkflowInput(UpdateWithStartStartWorkflowInput):
    """With `start_signal` a signal-with-start, whose signal has the headers of the start."""

    start_signal: str | None = None
    start_signal_args: Sequence[Any] = ()


@dataclass(kw_only=True)
class SignalWorkflowInput:
    id: str
    run_id: str | None
    signal: str
    args: Sequence[Any]
    headers: Mapping[str, Payload]
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class QueryWorkflowInput:
    id: str
    run_id: str | None
    query: str
    args: Sequence[Any]
    headers: Mapping[str, Payload]
    ret_type: Any
    rpc_timeout: timedelta | None
    reject_condition: QueryRejectCondition | None = None


@dataclass(kw_only=True)
class CancelWorkflowInput:
    id: str
    run_id: str | None
    first_execution_run_id: str | None
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class TerminateWorkflowInput:
    id: str
    run_id: str | None
    first_execution_run_id: str | None
    args: Sequence[Any]
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DeleteWorkflowInput:
    id: str
    run_id: str | None
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DescribeWorkflowInput:
    id: str
    run_id: str | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class GetWorkflowResultInput:
    id: str
    run_id: str | None
    follow_runs: bool
    ret_type: Any
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class FetchWorkflowHistoryEventsInput:
    id: str
    run_id: str | None
    wait_new_event: bool
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class ListWorkflowsInput:
    query: str | None
    status: WorkflowStatus | Sequence[WorkflowStatus]
    workflow_type: str
    id_prefix: str
    start_time_min: datetime | None
    start_time_max: datetime | None
    page_size: int
    limit: int | None
    rpc_timeout: timedelta | None
    archived: bool = False


@dataclass(kw_only=True)
class CountWorkflowsInput:
    query: str | None
    status: WorkflowStatus | Sequence[WorkflowStatus]
    workflow_type: str
    id_prefix: str
    start_time_min: datetime | None
    start_time_max: datetime | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class StartWorkflowUpdateInput:
    id: str
    run_id: str | None
    update_id: str | None
    update: str
    args: Sequence[Any]
    wait_for_stage: WorkflowUpdateStage
    headers: Mapping[str, Payload]
    ret_type: Any
    rpc_timeout: timedelta | None
    first_execution_run_id: str | None = None


@dataclass(kw_only=True)
class UpdateWithStartUpdateWorkflowInput:
    update_id: str | None
    update: str
    args: Sequence[Any]
    wait_for_stage: WorkflowUpdateStage
    headers: Mapping[str, Payload]
    ret_type: Any
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class StartWorkflowUpdateWithStartInput:
    start_workflow_input: UpdateWithStartStartWorkflowInput
    update_workflow_input: UpdateWithStartUpdateWorkflowInput


@dataclass(kw_only=True)
class HeartbeatAsyncActivityInput:
    id_or_token: AttemptAddress
    details: Sequence[Any]
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class CompleteAsyncActivityInput:
    id_or_token: AttemptAddress
    result: Any
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class FailAsyncActivityInput:
    id_or_token: AttemptAddress
    error: Exception
    last_heartbeat_details: Sequence[Any]
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class ReportCancellationAsyncActivityInput:
    id_or_token: AttemptAddress
    details: Sequence[Any]
    rpc_timeout: timedelta | None
