"""History events as replay reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure._replay import messages as replay
from perdure._replay.markers import marker_id
from perdure._wire.external_events import EXTERNAL_READERS, parents_from_message
from perdure._wire.failures import failure_from_message
from perdure._wire.payloads import fields_from_bytes, payloads_from_bytes
from perdure._wire.policies import retry_policy_from_message
from perdure._wire.search_attributes import attributes_from_messages
from perdure_api.v1 import event_pb2 as pb

# Messages are read through `Any`: each reader knows its type by its place in the table below, which
# no type checker can follow through `getattr`.
_Reader = Callable[[int, int, Any], replay.Event]


def event_from_message(message: pb.HistoryEvent) -> replay.Event:
    """An event of a kind that this SDK does not know yet becomes an OtherEvent."""
    kind = message.WhichOneof("attributes")
    reader = None if kind is None else _READERS.get(kind)
    if kind is None or reader is None:
        return replay.OtherEvent(event_id=message.event_id, time_us=message.time_us)
    return reader(message.event_id, message.time_us, getattr(message, kind))


def _workflow_execution_started(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowExecutionStarted(
        event_id=event_id,
        time_us=time_us,
        workflow_id=message.workflow_id,
        run_id=message.run_id,
        first_run_id=message.first_run_id,
        workflow_type=message.workflow_type,
        task_queue=message.task_queue,
        input=payloads_from_bytes(message.input),
        header=fields_from_bytes(message.header),
        memo=fields_from_bytes(message.memo),
        attempt=message.attempt,
        execution_timeout_ms=message.execution_timeout_ms,
        run_timeout_ms=message.run_timeout_ms,
        task_timeout_ms=message.task_timeout_ms,
        retry_policy=(
            retry_policy_from_message(message.retry_policy)
            if message.HasField("retry_policy")
            else None
        ),
        priority=message.priority,
        continued_from_run_id=message.continued_from_run_id,
        last_failure=(
            failure_from_message(message.last_failure) if message.HasField("last_failure") else None
        ),
        last_completion_result=(
            payloads_from_bytes(message.last_completion_result)
            if message.last_completion_result
            else None
        ),
        cron_schedule=message.cron_schedule,
        search_attributes=attributes_from_messages(message.search_attributes),
        parents=parents_from_message(message) if message.parent_workflow_id else None,
        original_run_id=message.original_run_id,
    )


def _workflow_task_started(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowTaskStarted(
        event_id=event_id,
        time_us=time_us,
        history_size_bytes=message.history_size_bytes,
        suggest_continue_as_new=message.suggest_continue_as_new,
    )


def _workflow_task_completed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowTaskCompleted(
        event_id=event_id,
        time_us=time_us,
        build_id=message.build_id,
        deployment_name=message.deployment_name,
    )


def _workflow_task_failed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowTaskFailedOrTimedOut(
        event_id=event_id, time_us=time_us, new_run_id=message.new_run_id
    )


def _workflow_task_timed_out(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowTaskFailedOrTimedOut(event_id=event_id, time_us=time_us)


def _activity_task_scheduled(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.ActivityTaskScheduled(
        event_id=event_id,
        time_us=time_us,
        activity_id=message.activity_id,
        activity_type=message.activity_type,
        version=message.version,
    )


def _activity_task_completed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.ActivityTaskCompleted(
        event_id=event_id,
        time_us=time_us,
        scheduled_event_id=message.scheduled_event_id,
        result=payloads_from_bytes(message.result),
    )


def _activity_task_failed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.ActivityTaskFailed(
        event_id=event_id,
        time_us=time_us,
        scheduled_event_id=message.scheduled_event_id,
        failure=failure_from_message(message.failure),
    )


def _activity_task_cancel_requested(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.ActivityTaskCancelRequested(
        event_id=event_id, time_us=time_us, scheduled_event_id=message.scheduled_event_id
    )


def _activity_task_canceled(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.ActivityTaskCanceled(
        event_id=event_id,
        time_us=time_us,
        scheduled_event_id=message.scheduled_event_id,
        details=payloads_from_bytes(message.details),
    )


def _timer_started(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.TimerStarted(
        event_id=event_id,
        time_us=time_us,
        timer_id=message.timer_id,
        start_to_fire_ms=message.start_to_fire_ms,
    )


def _timer_fired(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.TimerFired(
        event_id=event_id,
        time_us=time_us,
        timer_id=message.timer_id,
        started_event_id=message.started_event_id,
    )


def _timer_canceled(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.TimerCanceled(
        event_id=event_id,
        time_us=time_us,
        timer_id=message.timer_id,
        started_event_id=message.started_event_id,
    )


def _workflow_execution_signaled(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowExecutionSignaled(
        event_id=event_id,
        time_us=time_us,
        signal_name=message.signal_name,
        input=payloads_from_bytes(message.input),
        header=fields_from_bytes(message.header),
        identity=message.identity,
    )


def _workflow_execution_cancel_requested(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowExecutionCancelRequested(
        event_id=event_id, time_us=time_us, reason=message.reason
    )


def _update_accepted(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.UpdateAccepted(
        event_id=event_id,
        time_us=time_us,
        update_id=message.update_id,
        update_name=message.update_name,
        input=payloads_from_bytes(message.input),
        header=fields_from_bytes(message.header),
        identity=message.identity,
        workflow_task_completed_event_id=message.workflow_task_completed_event_id,
    )


def _update_completed(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.UpdateCompleted(event_id=event_id, time_us=time_us, update_id=message.update_id)


def _marker_recorded(event_id: int, time_us: int, message: Any) -> replay.Event:
    details = payloads_from_bytes(message.details)
    return replay.MarkerRecorded(
        event_id=event_id,
        time_us=time_us,
        marker_name=message.marker_name,
        marker_id=marker_id(details),
        details=details,
        failure=failure_from_message(message.failure) if message.HasField("failure") else None,
    )


def _workflow_properties_modified(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.WorkflowPropertiesModified(event_id=event_id, time_us=time_us)


def _search_attributes_upserted(event_id: int, time_us: int, message: Any) -> replay.Event:
    return replay.UpsertWorkflowSearchAttributes(event_id=event_id, time_us=time_us)


def _closed(kind: str) -> _Reader:
    def read(event_id: int, time_us: int, message: Any) -> replay.Event:
        return replay.WorkflowExecutionClosed(event_id=event_id, time_us=time_us, kind=kind)

    return read


_READERS: dict[str, _Reader] = {
    "workflow_execution_started": _workflow_execution_started,
    "workflow_execution_completed": _closed("WorkflowExecutionCompleted"),
    "workflow_execution_failed": _closed("WorkflowExecutionFailed"),
    "workflow_execution_timed_out": _closed("WorkflowExecutionTimedOut"),
    "workflow_task_started": _workflow_task_started,
    "workflow_task_completed": _workflow_task_completed,
    "workflow_task_timed_out": _workflow_task_timed_out,
    "workflow_task_failed": _workflow_task_failed,
    "activity_task_scheduled": _activity_task_scheduled,
    "activity_task_completed": _activity_task_completed,
    "activity_task_failed": _activity_task_failed,
    "activity_task_timed_out": _activity_task_failed,
    "activity_task_cancel_requested": _activity_task_cancel_requested,
    "activity_task_canceled": _activity_task_canceled,
    "timer_started": _timer_started,
    "timer_fired": _timer_fired,
    "timer_canceled": _timer_canceled,
    "workflow_execution_cancel_requested": _workflow_execution_cancel_requested,
    "workflow_execution_canceled": _closed("WorkflowExecutionCanceled"),
    "workflow_execution_signaled": _workflow_execution_signaled,
    "workflow_execution_terminated": _closed("WorkflowExecutionTerminated"),
    "workflow_execution_continued_as_new": _closed("WorkflowExecutionContinuedAsNew"),
    "workflow_execution_update_accepted": _update_accepted,
    "workflow_execution_update_completed": _update_completed,
    "marker_recorded": _marker_recorded,
    "workflow_properties_modified": _workflow_properties_modified,
    "upsert_workflow_search_attributes": _search_attributes_upserted,
    **EXTERNAL_READERS,
}
