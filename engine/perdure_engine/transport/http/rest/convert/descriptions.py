"""What is told of runs: descriptions, rows of lists, results, updates."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from perdure_engine.core import events, replies, search_attributes
from perdure_engine.core.closing import closing_failure, following
from perdure_engine.core.failures import Failure
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import UpdateStage
from perdure_engine.core.status import Status
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.transport.http.rest.bodies import fields, workflows
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.messages import failure_body
from perdure_engine.transport.http.rest.convert.times import (
    instant,
    instant_or_unset,
    seconds_or_unset,
    to_seconds,
)
from perdure_engine.transport.http.rest.convert.workflows import attribute_bodies, optional_id


def row_body(row: VisibilityRow) -> workflows.WorkflowInfo:
    found, stuck_reason = search_attributes.from_json(row.attrs)
    found, _ = search_attributes.split_versioning(found)
    return workflows.WorkflowInfo(
        workflow_id=row.workflow_id,
        run_id=uuid_text(row.run_id),
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        status=Status(row.status).name,
        start_time=instant(row.start_us),
        close_time=instant_or_unset(row.close_us or 0),
        history_events=row.history_events,
        history_size_bytes=row.history_bytes,
        memo=payloads.fields_of(row.memo),
        search_attributes=attribute_bodies(found),
        stuck_reason=UNSET if stuck_reason is None else stuck_reason,
    )


def description_body(told: replies.Description) -> workflows.WorkflowDescription:
    task = told.workflow_task
    return workflows.WorkflowDescription(
        info=_info(told.info),
        attempt=told.attempt,
        execution_timeout=seconds_or_unset(told.execution_timeout_ms),
        run_timeout=seconds_or_unset(told.run_timeout_ms),
        task_timeout=to_seconds(told.task_timeout_ms),
        cron_schedule=told.cron_schedule or UNSET,
        static_summary=_single(told.static_summary),
        static_details=_single(told.static_details),
        cancel_requested=told.cancel_requested,
        buffered_events=told.buffered_events,
        first_task_time=instant_or_unset(told.first_task_us),
        execution_deadline=instant_or_unset(told.execution_deadline_us),
        first_run_id=optional_id(told.first_run_id),
        continued_from_run_id=optional_id(told.continued_from_run_id),
        next_run_id=optional_id(told.next_run_id),
        parent=UNSET
        if told.parent is None
        else workflows.Relative(
            workflow_id=told.parent.workflow_id, run_id=uuid_text(told.parent.run_id)
        ),
        pause_time=instant_or_unset(told.pause_us),
        pause_reason=told.pause_reason or UNSET,
        pending_workflow_task=UNSET if task is None else _workflow_task(task),
        pending_activities=[_activity(one) for one in told.activities],
        pending_timers=[
            workflows.PendingTimer(timer_id=one.timer_id, fire_time=instant(one.fire_us))
            for one in told.timers
        ],
        pending_children=[
            workflows.PendingChild(
                workflow_id=one.workflow_id,
                run_id=optional_id(one.run_id),
                workflow_type=one.workflow_type,
                parent_close_policy=one.parent_close_policy.name,
            )
            for one in told.children
        ],
    )


def _info(info: replies.RunInfo) -> workflows.WorkflowInfo:
    return workflows.WorkflowInfo(
        workflow_id=info.workflow_id,
        run_id=uuid_text(info.run_id),
        workflow_type=info.workflow_type,
        task_queue=info.task_queue,
        status=info.status.name,
        start_time=instant(info.start_us),
        close_time=instant_or_unset(info.close_us),
        history_events=info.history_events,
        history_size_bytes=info.history_bytes,
        memo=payloads.fields_of(info.memo),
        search_attributes=attribute_bodies(info.search_attributes),
        stuck_reason=info.stuck_reason if info.stuck else UNSET,
    )


def _activity(activity: replies.PendingActivity) -> workflows.PendingActivity:
    return workflows.PendingActivity(
        activity_id=activity.activity_id,
        activity_type=activity.activity_type,
        task_queue=activity.task_queue,
        state=activity.state,
        attempt=activity.attempt,
        maximum_attempts=activity.maximum_attempts,
        scheduled_time=instant_or_unset(activity.scheduled_us),
        started_time=instant_or_unset(activity.started_us),
        next_attempt_time=instant_or_unset(activity.next_attempt_us),
        worker_identity=activity.worker_identity,
        paused=activity.paused,
        heartbeat_details=payloads.values_of(activity.progress),
        last_failure=_failure(activity.last_failure),
    )


def _workflow_task(task: replies.PendingWorkflowTask) -> workflows.PendingWorkflowTask:
    return workflows.PendingWorkflowTask(
        attempt=task.attempt,
        scheduled_time=instant_or_unset(task.scheduled_us),
        started_time=instant_or_unset(task.started_us),
        worker_identity=task.worker_identity,
        last_failure=_failure(task.last_failure),
    )


def result_body(closed: replies.Closed | None) -> workflows.WorkflowResult:
    if closed is None:
        return workflows.WorkflowResult(status="RUNNING")
    event = closed.event
    result: object = UNSET
    if isinstance(event, events.WorkflowExecutionCompleted):
        result = payloads.result_of(event.result)
    return workflows.WorkflowResult(
        status=closed.status.name,
        run_id=uuid_text(closed.run_id),
        result=result,
        failure=_failure(closing_failure(event)),
        next_run_id=optional_id(following(event)),
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
    return UNSET if failure is None else failure_body(failure)


def _single(payload: bytes) -> object:
    return payloads.single_value_of(payload) if payload else UNSET
