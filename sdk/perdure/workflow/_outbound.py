"""What is behind a run's last outbound interceptor: the run itself."""

from __future__ import annotations

from typing import Any, NoReturn

from perdure._interceptors.workflow import (
    ContinueAsNewInput,
    SignalChildWorkflowInput,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowOutboundInterceptor,
)
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.child_handle import ChildWorkflowHandle
from perdure._replay.children import external_of
from perdure._replay.run import WorkflowRun
from perdure.workflow._activities import ActivityOptions, schedule
from perdure.workflow._chain import continue_run_as_new
from perdure.workflow._children import ChildWorkflowOptions, begin_child
from perdure.workflow._context import Info, info_of
from perdure.workflow._local_activities import LocalActivityOptions, begin_local


class RootOutbound(WorkflowOutboundInterceptor):
    def __init__(self, run: WorkflowRun) -> None:
        self._run = run  # and no `next`

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        continue_run_as_new(self._run, input)

    def info(self) -> Info:
        return info_of(self._run)

    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:
        options: ActivityOptions = {
            "task_queue": input.task_queue,
            "schedule_to_close_timeout": input.schedule_to_close_timeout,
            "schedule_to_start_timeout": input.schedule_to_start_timeout,
            "start_to_close_timeout": input.start_to_close_timeout,
            "heartbeat_timeout": input.heartbeat_timeout,
            "retry_policy": input.retry_policy,
            "cancellation_type": input.cancellation_type,
            "activity_id": input.activity_id,
            "priority": input.priority,
            "summary": input.summary,
        }
        return schedule(
            self._run,
            input.activity,
            input.version,
            input.ret_type,
            input.args,
            options,
            input.headers,
        )

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> ChildWorkflowHandle[Any, Any]:
        options: ChildWorkflowOptions = {
            "id": input.id,
            "task_queue": input.task_queue,
            "cancellation_type": input.cancellation_type,
            "parent_close_policy": input.parent_close_policy,
            "execution_timeout": input.execution_timeout,
            "run_timeout": input.run_timeout,
            "task_timeout": input.task_timeout,
            "id_reuse_policy": input.id_reuse_policy,
            "retry_policy": input.retry_policy,
            "cron_schedule": input.cron_schedule,
            "memo": input.memo,
            "search_attributes": input.search_attributes,
            "priority": input.priority,
            "static_summary": input.static_summary,
            "static_details": input.static_details,
        }
        return await begin_child(
            self._run, input.workflow, input.args, input.ret_type, options, input.headers
        )

    async def signal_child_workflow(self, input: SignalChildWorkflowInput) -> None:
        await external_of(self._run).send(
            input.child_workflow_id, "", input.signal, input.args, input.headers, child_only=True
        )

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        await external_of(self._run).send(
            input.workflow_id,
            input.workflow_run_id or "",
            input.signal,
            input.args,
            input.headers,
            child_only=False,
        )

    def start_local_activity(self, input: StartLocalActivityInput) -> ActivityHandle[Any]:
        options: LocalActivityOptions = {
            "schedule_to_close_timeout": input.schedule_to_close_timeout,
            "schedule_to_start_timeout": input.schedule_to_start_timeout,
            "start_to_close_timeout": input.start_to_close_timeout,
            "retry_policy": input.retry_policy,
            "local_retry_threshold": input.local_retry_threshold,
            "cancellation_type": input.cancellation_type,
            "activity_id": input.activity_id,
        }
        return begin_local(
            self._run, input.activity, input.ret_type, input.args, options, input.headers
        )
