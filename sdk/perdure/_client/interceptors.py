"""Around what a client asks: one method for each call, with an input that may be changed.

`headers` travel to the interceptors of the worker, beside the values and never encoded by a codec.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from perdure._client.job_inputs import (
    CancelJobInput,
    CountJobsInput,
    CreateJobInput,
    CreateJobsInput,
    DescribeJobBatchInput,
    DescribeJobInput,
    GetJobResultInput,
    ListJobsInput,
    RedriveJobsInput,
    RescheduleJobInput,
    ResumeJobInput,
)
from perdure._client.schedule_inputs import (
    BackfillScheduleInput,
    CreateScheduleInput,
    DeleteScheduleInput,
    DescribeScheduleInput,
    ListSchedulesInput,
    ListScheduleSlotsInput,
    PauseScheduleInput,
    PreviewScheduleInput,
    TriggerScheduleInput,
    UnpauseScheduleInput,
    UpdateScheduleInput,
)
from perdure._client.workflow_inputs import (
    CancelWorkflowInput,
    CompleteAsyncActivityInput,
    CountWorkflowsInput,
    DeleteWorkflowInput,
    DescribeWorkflowInput,
    FailAsyncActivityInput,
    FetchWorkflowHistoryEventsInput,
    GetWorkflowResultInput,
    HeartbeatAsyncActivityInput,
    ListWorkflowsInput,
    QueryWorkflowInput,
    ReportCancellationAsyncActivityInput,
    SignalWorkflowInput,
    StartWorkflowInput,
    StartWorkflowUpdateInput,
    StartWorkflowUpdateWithStartInput,
    TerminateWorkflowInput,
    UpdateWithStartStartWorkflowInput,
    UpdateWithStartUpdateWorkflowInput,
)
from perdure._jobs import JobStatus
from perdure._schedules.told import (
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleListDescription,
    SchedulePreview,
    ScheduleSlot,
)
from perdure._wire.history import HistoryEvent
from perdure._wire.job_info import JobBatchInfo, JobCount, JobDescription, JobInfo
from perdure._wire.workflow_info import (
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionDescription,
)

__all__ = [
    "BackfillScheduleInput",
    "CancelJobInput",
    "CancelWorkflowInput",
    "CompleteAsyncActivityInput",
    "CountJobsInput",
    "CountWorkflowsInput",
    "CreateJobInput",
    "CreateJobsInput",
    "CreateScheduleInput",
    "DeleteScheduleInput",
    "DeleteWorkflowInput",
    "DescribeJobBatchInput",
    "DescribeJobInput",
    "DescribeScheduleInput",
    "DescribeWorkflowInput",
    "FailAsyncActivityInput",
    "FetchWorkflowHistoryEventsInput",
    "GetJobResultInput",
    "GetWorkflowResultInput",
    "HeartbeatAsyncActivityInput",
    "Interceptor",
    "ListJobsInput",
    "ListScheduleSlotsInput",
    "ListSchedulesInput",
    "ListWorkflowsInput",
    "OutboundInterceptor",
    "PauseScheduleInput",
    "PreviewScheduleInput",
    "QueryWorkflowInput",
    "RedriveJobsInput",
    "ReportCancellationAsyncActivityInput",
    "RescheduleJobInput",
    "ResumeJobInput",
    "SignalWorkflowInput",
    "StartWorkflowInput",
    "StartWorkflowUpdateInput",
    "StartWorkflowUpdateWithStartInput",
    "TerminateWorkflowInput",
    "TriggerScheduleInput",
    "UnpauseScheduleInput",
    "UpdateScheduleInput",
    "UpdateWithStartStartWorkflowInput",
    "UpdateWithStartUpdateWorkflowInput",
]

if TYPE_CHECKING:
    from perdure._client.handle import WorkflowHandle
    from perdure._client.job_handle import JobHandle
    from perdure._client.schedule_handle import ScheduleHandle
    from perdure._client.updates import WorkflowUpdateHandle


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

    def list_jobs(self, input: ListJobsInput) -> AsyncIterator[JobInfo]:
        return self.next.list_jobs(input)

    async def count_jobs(self, input: CountJobsInput) -> JobCount:
        return await self.next.count_jobs(input)

    async def redrive_jobs(self, input: RedriveJobsInput) -> int:
        return await self.next.redrive_jobs(input)

    async def describe_job_batch(self, input: DescribeJobBatchInput) -> JobBatchInfo:
        return await self.next.describe_job_batch(input)

    async def get_job_result(self, input: GetJobResultInput) -> Any:
        return await self.next.get_job_result(input)

    async def describe_job(self, input: DescribeJobInput) -> JobDescription:
        return await self.next.describe_job(input)

    async def cancel_job(self, input: CancelJobInput) -> JobStatus | None:
        return await self.next.cancel_job(input)

    async def reschedule_job(self, input: RescheduleJobInput) -> None:
        await self.next.reschedule_job(input)

    async def resume_job(self, input: ResumeJobInput) -> JobStatus | None:
        return await self.next.resume_job(input)

    async def create_schedule(self, input: CreateScheduleInput) -> ScheduleHandle:
        return await self.next.create_schedule(input)

    def list_schedules(self, input: ListSchedulesInput) -> AsyncIterator[ScheduleListDescription]:
        return self.next.list_schedules(input)

    async def preview_schedule(self, input: PreviewScheduleInput) -> SchedulePreview:
        return await self.next.preview_schedule(input)

    async def describe_schedule(self, input: DescribeScheduleInput) -> ScheduleDescription:
        return await self.next.describe_schedule(input)

    async def update_schedule(self, input: UpdateScheduleInput) -> Sequence[ScheduleSlot]:
        return await self.next.update_schedule(input)

    async def pause_schedule(self, input: PauseScheduleInput) -> Sequence[ScheduleSlot]:
        return await self.next.pause_schedule(input)

    async def unpause_schedule(self, input: UnpauseScheduleInput) -> None:
        await self.next.unpause_schedule(input)

    async def trigger_schedule(self, input: TriggerScheduleInput) -> ScheduleSlot:
        return await self.next.trigger_schedule(input)

    async def backfill_schedule(self, input: BackfillScheduleInput) -> ScheduleBackfillResult:
        return await self.next.backfill_schedule(input)

    async def delete_schedule(self, input: DeleteScheduleInput) -> Sequence[ScheduleSlot]:
        return await self.next.delete_schedule(input)

    def list_schedule_slots(self, input: ListScheduleSlotsInput) -> AsyncIterator[ScheduleSlot]:
        return self.next.list_schedule_slots(input)


class Interceptor:
    """Of a client. One that is a `perdure.worker.Interceptor` too is used by every worker of that
    client, outside of those that the worker is given itself."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """Called once, at the connect: what is to be asked instead of `next`."""
        return next
