"""What is behind a client's last interceptor: the calls themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from perdure._client import (
    async_activity,
    interceptors,
    job_calls,
    jobs,
    requests,
    schedule_calls,
    schedules,
    updates,
)
from perdure._client.core import ClientCore
from perdure._client.handle import WorkflowHandle
from perdure._client.interceptors import Interceptor, OutboundInterceptor
from perdure._client.job_handle import JobHandle
from perdure._client.options import StartOptions, build_start, workflow_filter
from perdure._client.schedule_handle import ScheduleHandle
from perdure._client.updates import WorkflowUpdateHandle
from perdure._jobs import JobStatus
from perdure._schedules.told import (
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleListDescription,
    SchedulePreview,
    ScheduleSlot,
)
from perdure._wire.calls import Target
from perdure._wire.history import HistoryEvent
from perdure._wire.job_info import JobBatchInfo, JobCount, JobDescription, JobInfo
from perdure._wire.workflow_info import (
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionDescription,
)


def bind(core: ClientCore, given: Sequence[Interceptor]) -> None:
    """The first one is the outermost. Without any the client asks by itself."""
    core.interceptors = given
    if not given:
        return
    outbound: OutboundInterceptor = RootOutbound(core)
    for one in reversed(given):
        outbound = one.intercept_client(outbound)
    core.outbound = outbound


class RootOutbound(OutboundInterceptor):
    def __init__(self, core: ClientCore) -> None:
        self._core = core  # and no `next`

    def _target(self, workflow_id: str, run_id: str | None) -> Target:
        return Target(self._core.namespace, workflow_id, run_id or "")

    async def start_workflow(
        self, input: interceptors.StartWorkflowInput
    ) -> WorkflowHandle[Any, Any]:
        options = _options(input)
        options["start_signal"] = input.start_signal
        options["start_signal_args"] = input.start_signal_args
        started = await requests.start(
            self._core, input.workflow, input.args, options, input.headers
        )
        return WorkflowHandle(
            self._core,
            input.id,
            result_run_id=started.run_id,
            first_execution_run_id=started.run_id,
            chain=started.run_id if started.started else None,
            result_type=input.ret_type,
        )

    async def signal_workflow(self, input: interceptors.SignalWorkflowInput) -> None:
        target = self._target(input.id, input.run_id)
        await requests.signal(
            self._core, target, input.signal, input.args, input.headers, input.rpc_timeout
        )

    async def query_workflow(self, input: interceptors.QueryWorkflowInput) -> Any:
        return await requests.query(
            self._core,
            self._target(input.id, input.run_id),
            input.query,
            input.args,
            input.ret_type,
            input.headers,
            input.rpc_timeout,
            input.reject_condition,
        )

    async def cancel_workflow(self, input: interceptors.CancelWorkflowInput) -> None:
        target = self._target(input.id, input.run_id)
        await requests.cancel(
            self._core, target, input.reason, input.rpc_timeout, input.first_execution_run_id
        )

    async def terminate_workflow(self, input: interceptors.TerminateWorkflowInput) -> None:
        target = self._target(input.id, input.run_id)
        await requests.terminate(
            self._core,
            target,
            input.reason,
            input.args,
            input.rpc_timeout,
            input.first_execution_run_id,
        )

    async def delete_workflow(self, input: interceptors.DeleteWorkflowInput) -> None:
        target = self._target(input.id, input.run_id)
        await requests.delete(self._core, target, input.reason, input.rpc_timeout)

    async def describe_workflow(
        self, input: interceptors.DescribeWorkflowInput
    ) -> WorkflowExecutionDescription:
        target = self._target(input.id, input.run_id)
        return await requests.describe(self._core, target, input.rpc_timeout)

    async def get_workflow_result(self, input: interceptors.GetWorkflowResultInput) -> Any:
        return await requests.result(
            self._core,
            self._target(input.id, input.run_id),
            input.ret_type,
            input.rpc_timeout,
            follow_runs=input.follow_runs,
        )

    def fetch_workflow_history_events(
        self, input: interceptors.FetchWorkflowHistoryEventsInput
    ) -> AsyncIterator[HistoryEvent]:
        return requests.history_events(
            self._core,
            self._target(input.id, input.run_id),
            input.rpc_timeout,
            wait_new_event=input.wait_new_event,
        )

    def list_workflows(
        self, input: interceptors.ListWorkflowsInput
    ) -> AsyncIterator[WorkflowExecution]:
        wanted = workflow_filter(
            input.status,
            input.workflow_type,
            input.id_prefix,
            input.start_time_min,
            input.start_time_max,
        )
        text = input.query or ""
        return requests.list_pages(
            self._core,
            wanted,
            text,
            input.page_size,
            input.limit,
            input.rpc_timeout,
            archived=input.archived,
        )

    async def count_workflows(
        self, input: interceptors.CountWorkflowsInput
    ) -> WorkflowExecutionCount:
        wanted = workflow_filter(
            input.status,
            input.workflow_type,
            input.id_prefix,
            input.start_time_min,
            input.start_time_max,
        )
        return await requests.count(self._core, wanted, input.query or "", input.rpc_timeout)

    async def start_workflow_update(
        self, input: interceptors.StartWorkflowUpdateInput
    ) -> WorkflowUpdateHandle[Any]:
        return await updates.send_update(self._core, self._target(input.id, input.run_id), input)

    async def start_update_with_start_workflow(
        self, input: interceptors.StartWorkflowUpdateWithStartInput
    ) -> WorkflowUpdateHandle[Any]:
        core, given = self._core, input.start_workflow_input
        start = build_start(
            _options(given),
            workflow_type=given.workflow,
            args=given.args,
            namespace=core.namespace,
            identity=core.identity,
            request_id=core.surroundings.new_uuid(),
            converter=core.converter,
            header=given.headers,
        )
        return await updates.send_update(core, start, input.update_workflow_input)

    async def heartbeat_async_activity(
        self, input: interceptors.HeartbeatAsyncActivityInput
    ) -> None:
        await async_activity.heartbeat(
            self._core, input.id_or_token, input.details, input.rpc_timeout
        )

    async def complete_async_activity(self, input: interceptors.CompleteAsyncActivityInput) -> None:
        await async_activity.complete(
            self._core, input.id_or_token, input.result, input.rpc_timeout
        )

    async def fail_async_activity(self, input: interceptors.FailAsyncActivityInput) -> None:
        await async_activity.fail(
            self._core,
            input.id_or_token,
            input.error,
            input.last_heartbeat_details,
            input.rpc_timeout,
        )

    async def report_cancellation_async_activity(
        self, input: interceptors.ReportCancellationAsyncActivityInput
    ) -> None:
        await async_activity.report_cancellation(
            self._core, input.id_or_token, input.details, input.rpc_timeout
        )

    async def create_job(self, input: interceptors.CreateJobInput) -> JobHandle[Any]:
        return await jobs.create_job(self._core, input)

    async def create_jobs(self, input: interceptors.CreateJobsInput) -> list[JobHandle[Any]]:
        return await jobs.create_jobs(self._core, input)

    def list_jobs(self, input: interceptors.ListJobsInput) -> AsyncIterator[JobInfo]:
        return job_calls.list_jobs(self._core, input)

    async def count_jobs(self, input: interceptors.CountJobsInput) -> JobCount:
        return await job_calls.count(self._core, input)

    async def redrive_jobs(self, input: interceptors.RedriveJobsInput) -> int:
        return await job_calls.redrive(self._core, input)

    async def describe_job_batch(self, input: interceptors.DescribeJobBatchInput) -> JobBatchInfo:
        return await job_calls.describe_batch(self._core, input)

    async def get_job_result(self, input: interceptors.GetJobResultInput) -> Any:
        return await job_calls.result(self._core, input)

    async def describe_job(self, input: interceptors.DescribeJobInput) -> JobDescription:
        return await job_calls.describe(self._core, input)

    async def cancel_job(self, input: interceptors.CancelJobInput) -> JobStatus | None:
        return await job_calls.cancel(self._core, input)

    async def reschedule_job(self, input: interceptors.RescheduleJobInput) -> None:
        await job_calls.reschedule(self._core, input)

    async def resume_job(self, input: interceptors.ResumeJobInput) -> JobStatus | None:
        return await job_calls.resume(self._core, input)

    async def create_schedule(self, input: interceptors.CreateScheduleInput) -> ScheduleHandle:
        return await schedules.create_schedule(self._core, input)

    def list_schedules(
        self, input: interceptors.ListSchedulesInput
    ) -> AsyncIterator[ScheduleListDescription]:
        return schedule_calls.list_schedules(self._core, input)

    async def preview_schedule(self, input: interceptors.PreviewScheduleInput) -> SchedulePreview:
        return await schedule_calls.preview(self._core, input)

    async def describe_schedule(
        self, input: interceptors.DescribeScheduleInput
    ) -> ScheduleDescription:
        return await schedule_calls.describe(self._core, input)

    async def update_schedule(
        self, input: interceptors.UpdateScheduleInput
    ) -> Sequence[ScheduleSlot]:
        return await schedule_calls.update(self._core, input)

    async def pause_schedule(
        self, input: interceptors.PauseScheduleInput
    ) -> Sequence[ScheduleSlot]:
        return await schedule_calls.pause(self._core, input)

    async def unpause_schedule(self, input: interceptors.UnpauseScheduleInput) -> None:
        await schedule_calls.unpause(self._core, input)

    async def trigger_schedule(self, input: interceptors.TriggerScheduleInput) -> ScheduleSlot:
        return await schedule_calls.trigger(self._core, input)

    async def backfill_schedule(
        self, input: interceptors.BackfillScheduleInput
    ) -> ScheduleBackfillResult:
        return await schedule_calls.backfill(self._core, input)

    async def delete_schedule(
        self, input: interceptors.DeleteScheduleInput
    ) -> Sequence[ScheduleSlot]:
        return await schedule_calls.delete(self._core, input)

    def list_schedule_slots(
        self, input: interceptors.ListScheduleSlotsInput
    ) -> AsyncIterator[ScheduleSlot]:
        return schedule_calls.list_slots(self._core, input)


def _options(input: interceptors.UpdateWithStartStartWorkflowInput) -> StartOptions:
    return {
        "id": input.id,
        "task_queue": input.task_queue,
        "execution_timeout": input.execution_timeout,
        "run_timeout": input.run_timeout,
        "task_timeout": input.task_timeout,
        "id_reuse_policy": input.id_reuse_policy,
        "id_conflict_policy": input.id_conflict_policy,
        "retry_policy": input.retry_policy,
        "memo": input.memo,
        "start_delay": input.start_delay,
        "cron_schedule": input.cron_schedule,
        "priority": input.priority,
        "static_summary": input.static_summary,
        "static_details": input.static_details,
        "rpc_timeout": input.rpc_timeout,
        "search_attributes": input.search_attributes,
        "versioning_override": input.versioning_override,
        "request_eager_start": input.request_eager_start,
    }
