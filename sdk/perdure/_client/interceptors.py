"""Around what a client asks: one method for each call, with an input that may be changed.

`headers` travel to the interceptors of the worker, beside the values and never encoded by a codec.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure._jobs import JobStatus, NewJob
from perdure._payload import Payload
from perdure._wire.activity_service import AttemptAddress
from perdure._wire.history import HistoryEvent
from perdure._wire.job_info import JobDescription
from perdure._wire.updates import WorkflowUpdateStage
from perdure._wire.workflow_info import (
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionDescription,
)
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
    "CancelJobInput",
    "CancelWorkflowInput",
    "CompleteAsyncActivityInput",
    "CountWorkflowsInput",
    "CreateJobInput",
    "CreateJobsInput",
    "DeleteWorkflowInput",
    "DescribeJobInput",
    "DescribeWorkflowInput",
    "FailAsyncActivityInput",
    "FetchWorkflowHistoryEventsInput",
    "GetJobResultInput",
    "GetWorkflowResultInput",
    "HeartbeatAsyncActivityInput",
    "Interceptor",
    "ListWorkflowsInput",
    "OutboundInterceptor",
    "QueryWorkflowInput",
    "ReportCancellationAsyncActivityInput",
    "RescheduleJobInput",
    "SignalWorkflowInput",
    "StartWorkflowInput",
    "StartWorkflowUpdateInput",
    "StartWorkflowUpdateWithStartInput",
    "TerminateWorkflowInput",
    "UpdateWithStartStartWorkflowInput",
    "UpdateWithStartUpdateWorkflowInput",
]

if TYPE_CHECKING:
    from perdure._client.handle import WorkflowHandle
    from perdure._client.job_handle import JobHandle
    from perdure._client.updates import WorkflowUpdateHandle


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


@dataclass(kw_only=True)
class CreateJobInput:
    job: NewJob[Any]
    headers: Mapping[str, Payload]
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class CreateJobsInput:
    """Of `create_many`, and with a `batch_id` of `batch`. All of them have the same headers."""

    jobs: Sequence[NewJob[Any]]
    headers: Mapping[str, Payload]
    rpc_timeout: timedelta | None
    batch_id: str | None = None
    callback: NewJob[Any] | None = None
    sealed: bool = True


@dataclass(kw_only=True)
class GetJobResultInput:
    id: str
    ret_type: Any
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DescribeJobInput:
    id: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class CancelJobInput:
    id: str
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class RescheduleJobInput:
    id: str
    run_at: datetime | None
    rpc_timeout: timedelta | None


class OutboundInterceptor:
    """What a client asks. Each method returns or raises what the call of that name does."""

    def __init__(self, next: OutboundInterceptor) -> None:
        self.next = next

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        return await self.next.start_workflow(input)

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        await self.next.signal_workflow(input)

    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        return await self.next.query_workflow(input)

    async def cancel_workflow(self, input: CancelWorkflowInput) -> None:
        await self.next.cancel_workflow(input)

    async def terminate_workflow(self, input: TerminateWorkflowInput) -> None:
        await self.next.terminate_workflow(input)

    async def delete_workflow(self, input: DeleteWorkflowInput) -> None:
        await self.next.delete_workflow(input)

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        return await self.next.describe_workflow(input)

    async def get_workflow_result(self, input: GetWorkflowResultInput) -> Any:
        return await self.next.get_workflow_result(input)

    def fetch_workflow_history_events(
        self, input: FetchWorkflowHistoryEventsInput
    ) -> AsyncIterator[HistoryEvent]:
        return self.next.fetch_workflow_history_events(input)

    def list_workflows(self, input: ListWorkflowsInput) -> AsyncIterator[WorkflowExecution]:
        return self.next.list_workflows(input)

    async def count_workflows(self, input: CountWorkflowsInput) -> WorkflowExecutionCount:
        return await self.next.count_workflows(input)

    async def start_workflow_update(
        self, input: StartWorkflowUpdateInput
    ) -> WorkflowUpdateHandle[Any]:
        """Of `execute_update` too, which then asks the handle for its result."""
        return await self.next.start_workflow_update(input)

    async def start_update_with_start_workflow(
        self, input: StartWorkflowUpdateWithStartInput
    ) -> WorkflowUpdateHandle[Any]:
        return await self.next.start_update_with_start_workflow(input)

    async def heartbeat_async_activity(self, input: HeartbeatAsyncActivityInput) -> None:
        await self.next.heartbeat_async_activity(input)

    async def complete_async_activity(self, input: CompleteAsyncActivityInput) -> None:
        await self.next.complete_async_activity(input)

    async def fail_async_activity(self, input: FailAsyncActivityInput) -> None:
        await self.next.fail_async_activity(input)

    async def report_cancellation_async_activity(
        self, input: ReportCancellationAsyncActivityInput
    ) -> None:
        await self.next.report_cancellation_async_activity(input)

    async def create_job(self, input: CreateJobInput) -> JobHandle[Any]:
        """Of `execute` too, which then asks the handle for its result."""
        return await self.next.create_job(input)

    async def create_jobs(self, input: CreateJobsInput) -> list[JobHandle[Any]]:
        return await self.next.create_jobs(input)

    async def get_job_result(self, input: GetJobResultInput) -> Any:
        return await self.next.get_job_result(input)

    async def describe_job(self, input: DescribeJobInput) -> JobDescription:
        return await self.next.describe_job(input)

    async def cancel_job(self, input: CancelJobInput) -> JobStatus | None:
        return await self.next.cancel_job(input)

    async def reschedule_job(self, input: RescheduleJobInput) -> None:
        await self.next.reschedule_job(input)


class Interceptor:
    """Of a client. One that is a `perdure.worker.Interceptor` too is used by every worker of that
    client, outside of those that the worker is given itself."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """Called once, at the connect: what is to be asked instead of `next`."""
        return next
