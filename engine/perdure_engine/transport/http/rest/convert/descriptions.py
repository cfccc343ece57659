"""What is told of workflows: descriptions, rows of lists, results, updates.

Made of the contract's messages, which those of runs that are here and those that are archived become alike.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import events, replies
from perdure_engine.core.closing import closing_failure, following
from perdure_engine.core.failures import Failure
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import UpdateStage
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.status import Status
from perdure_engine.transport.grpc.convert.failures import failure_message
from perdure_engine.transport.grpc.convert.search_attributes import attributes_of
from perdure_engine.transport.http.rest.bodies import fields, workflows
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.messages import failure_of
from perdure_engine.transport.http.rest.convert.times import (
    instant,
    instant_or_unset,
    seconds_or_unset,
    to_seconds,
)
from perdure_engine.transport.http.rest.convert.workflows import attribute_bodies

STATE = "PENDING_ACTIVITY_STATE_"


def info_body(message: pb.WorkflowInfo) -> workflows.WorkflowInfo:
    return workflows.WorkflowInfo(
        workflow_id=message.workflow_id,
        run_id=message.run_id,
        workflow_type=message.workflow_type,
        task_queue=message.task_queue,
        status=Status(message.status).name,
        start_time=instant(message.start_time_us),
        close_time=instant_or_unset(message.close_time_us),
        history_events=message.history_events,
        history_size_bytes=message.history_size_bytes,
        memo=payloads.fields_of(message.memo),
        search_attributes=attribute_bodies(
            attributes_of("search_attributes", message.search_attributes)
        ),
        stuck_reason=message.stuck_reason if message.stuck else UNSET,
        archived=message.archived,
    )


def description_body(message: pb.DescribeWorkflowResponse) -> workflows.WorkflowDescription:
    task: workflows.PendingWorkflowTask | UnsetType = UNSET
    if message.HasField("pending_workflow_task"):
        task = _workflow_task(message.pending_workflow_task)
    parent: workflows.Relative | UnsetType = UNSET
    if message.parent_workflow_id:
        parent = workflows.Relative(
            workflow_id=message.parent_workflow_id, run_id=message.parent_run_id
        )
    return workflows.WorkflowDescription(
        info=info_body(message.info),
        attempt=message.attempt,
        execution_timeout=seconds_or_unset(message.execution_timeout_ms),
        run_timeout=seconds_or_unset(message.run_timeout_ms),
        task_timeout=to_seconds(message.task_timeout_ms),
        cron_schedule=message.cron_schedule or UNSET,
        static_summary=_single(message.static_summary),
        static_details=_single(message.static_details),
        cancel_requested=message.cancel_requested,
        buffered_events=message.buffered_events,
        first_task_time=instant_or_unset(message.first_task_time_us),
        execution_deadline=instant_or_unset(message.execution_deadline_us),
        first_run_id=message.first_run_id or UNSET,
        continued_from_run_id=message.continued_from_run_id or UNSET,
        next_run_id=message.next_run_id or UNSET,
        parent=parent,
        pause_time=instant_or_unset(message.pause_time_us),
        pause_reason=message.pause_reason or UNSET,
        suspended=message.suspended,
        pending_workflow_task=task,
        pending_activities=[_activity(one) for one in message.pending_activities],
        pending_timers=[
            workflows.PendingTimer(timer_id=one.timer_id, fire_time=instant(one.fire_time_us))
            for one in message.pending_timers
        ],
        pending_children=[_child(one) for one in message.pending_children],
    )


def _activity(message: pb.PendingActivityInfo) -> workflows.PendingActivity:
    return workflows.PendingActivity(
        activity_id=message.activity_id,
        activity_type=message.activity_type,
        task_queue=message.task_queue,
        state=pb.PendingActivityState.Name(message.state).removeprefix(STATE),
        attempt=message.attempt,
        maximum_attempts=message.maximum_attempts,
        scheduled_time=instant_or_unset(message.scheduled_time_us),
        started_time=instant_or_unset(message.started_time_us),
        next_attempt_time=instant_or_unset(message.next_attempt_time_us),
        worker_identity=message.worker_identity,
        paused=message.paused,
        heartbeat_details=payloads.values_of(message.heartbeat_details),
        last_failure=_last_failure(message),
        crashes=message.crashes or UNSET,
        first_crash_time=instant_or_unset(message.first_crash_time_us),
        last_crash=_last_crash(message),
    )


def _workflow_task(message: pb.PendingWorkflowTaskInfo) -> workflows.PendingWorkflowTask:
    return workflows.PendingWorkflowTask(
        attempt=message.attempt,
        scheduled_time=instant_or_unset(message.scheduled_time_us),
        started_time=instant_or_unset(message.started_time_us),
        next_attempt_time=instant_or_unset(message.next_attempt_time_us),
        worker_identity=message.worker_identity,
        last_failure=_last_failure(message),
        crashes=message.crashes or UNSET,
        first_crash_time=instant_or_unset(message.first_crash_time_us),
        last_crash=_last_crash(message),
    )


def _child(message: pb.PendingChildInfo) -> workflows.PendingChild:
    return workflows.PendingChild(
        workflow_id=message.workflow_id,
        run_id=message.run_id or UNSET,
        workflow_type=message.workflow_type,
        parent_close_policy=ParentClosePolicy(message.parent_close_policy).name,
    )


def result_body(closed: replies.Closed | None) -> workflows.WorkflowResult:
    if closed is None:
        return workflows.WorkflowResult(status="RUNNING")
    event = closed.event
    result: object = UNSET
    if isinstance(event, events.WorkflowExecutionCompleted):
        result = payloads.result_of(event.result)
    next_run_id = following(event)
    return workflows.WorkflowResult(
        status=closed.status.name,
        run_id=uuid_text(closed.run_id),
        result=result,
        failure=_failure(closing_failure(event)),
        next_run_id=uuid_text(next_run_id) if next_run_id else UNSET,
    )


def update_body(told: replies.UpdateStatus) -> workflows.UpdateState:
    succeeded = told.stage is UpdateStage.COMPLETED and told.failure is None
    return workflows.UpdateState(
        update_id=told.update_id,
        run_id=uuid_text(told.run_id),
        stage=told.stage.name,
        result=payloads.result_of(told.result) if succeeded else UNSET,
        failure=_failure(told.failure),
    )


def _failure(failure: Failure | None) -> fields.Failure | UnsetType:
    return UNSET if failure is None else failure_of(failure_message(failure))


def _last_failure(
    message: pb.PendingActivityInfo | pb.PendingWorkflowTaskInfo,
) -> fields.Failure | UnsetType:
    return failure_of(message.last_failure) if message.HasField("last_failure") else UNSET


def _last_crash(
    message: pb.PendingActivityInfo | pb.PendingWorkflowTaskInfo,
) -> fields.Failure | UnsetType:
    return failure_of(message.last_crash) if message.HasField("last_crash") else UNSET


def _single(payload: bytes) -> Any:
    return payloads.single_value_of(payload) if payload else UNSET
