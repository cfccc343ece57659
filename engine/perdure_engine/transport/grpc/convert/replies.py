"""Replies and rows, towards the wire."""

from __future__ import annotations

import msgspec

from perdure_api.v1 import common_pb2, operator_service_pb2
from perdure_api.v1 import namespace_service_pb2 as namespace_pb2
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import events, replies, search_attributes
from perdure_engine.core.closing import closing_failure, following
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import UpdateStage
from perdure_engine.core.status import Status
from perdure_engine.frontend.handlers.count_workflows import CountAnswer
from perdure_engine.frontend.handlers.describe_cluster import Cluster
from perdure_engine.frontend.handlers.describe_task_queue import KindInfo
from perdure_engine.frontend.handlers.explain_workflow import Explained, Why
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import NamespaceRow
from perdure_engine.transport.grpc.convert.failures import failure_fields
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.retries import policy_fields
from perdure_engine.transport.grpc.convert.search_attributes import attribute_fields
from perdure_engine.transport.grpc.convert.versions import versioning_fields


def started(reply: replies.Started) -> pb.StartWorkflowResponse:
    return pb.StartWorkflowResponse(run_id=uuid_text(reply.run_id), started=reply.started)


def signaled_with_start(reply: replies.Started) -> pb.SignalWithStartWorkflowResponse:
    return pb.SignalWithStartWorkflowResponse(run_id=uuid_text(reply.run_id), started=reply.started)


def signaled(_: None) -> pb.SignalWorkflowResponse:
    return pb.SignalWorkflowResponse()


def cancel_requested(_: None) -> pb.CancelWorkflowResponse:
    return pb.CancelWorkflowResponse()


def explained(why: Why) -> pb.ExplainWorkflowResponse:
    return pb.ExplainWorkflowResponse(
        run_id=uuid_text(why.run_id), reasons=[pb.WaitReason(**_reason(one)) for one in why.reasons]
    )


def _reason(explained: Explained) -> Fields:
    reason = explained.reason
    fields: Fields = {
        "kind": reason.kind,
        "since_us": reason.since_us,
        "until_us": reason.until_us,
        "subject": reason.subject,
        "activity_type": reason.activity_type,
        "task_queue": reason.task_queue,
        "attempt": reason.attempt,
        "worker_identity": reason.worker_identity,
        "pollers": explained.pollers,
        "version": reason.version,
    }
    if reason.last_failure is not None:
        fields["last_failure"] = failure_fields(reason.last_failure)
    return fields


def deleted(_: None) -> pb.DeleteWorkflowResponse:
    return pb.DeleteWorkflowResponse()


def terminated(_: None) -> pb.TerminateWorkflowResponse:
    return pb.TerminateWorkflowResponse()


def updated(reply: replies.UpdateStatus) -> pb.UpdateWorkflowResponse:
    return pb.UpdateWorkflowResponse(**_update_fields(reply))


def polled_update(reply: replies.UpdateStatus) -> pb.PollUpdateResponse:
    return pb.PollUpdateResponse(**_update_fields(reply))


def updated_with_start(reply: replies.UpdateStatus) -> pb.UpdateWithStartWorkflowResponse:
    return pb.UpdateWithStartWorkflowResponse(started=reply.started, **_update_fields(reply))


def _update_fields(reply: replies.UpdateStatus) -> Fields:
    fields: Fields = {"run_id": uuid_text(reply.run_id), "stage": reply.stage}
    if reply.failure is not None:
        fields["outcome"] = {"failure": failure_fields(reply.failure)}
    elif reply.stage is UpdateStage.COMPLETED:
        fields["outcome"] = {"result": reply.result}
    return fields


def queried(reply: replies.QueryAnswer) -> pb.QueryWorkflowResponse:
    return pb.QueryWorkflowResponse(result=reply.result)


def result_fields(reply: replies.Closed) -> Fields:
    """Of a `WorkflowResult`: the result of a completed run, the failure of every other."""
    fields: Fields = {"status": reply.status, "run_id": uuid_text(reply.run_id)}
    event = reply.event
    if isinstance(event, events.WorkflowExecutionCompleted):
        fields["result"] = event.result
    elif (failure := closing_failure(event)) is not None:
        fields["failure"] = failure_fields(failure)
    next_run_id = following(event)
    if next_run_id:
        fields["next_run_id"] = uuid_text(next_run_id)
    return fields


def described(reply: replies.Description) -> pb.DescribeWorkflowResponse:
    return pb.DescribeWorkflowResponse(
        info=_info_fields(reply.info),
        execution_timeout_ms=reply.execution_timeout_ms,
        run_timeout_ms=reply.run_timeout_ms,
        task_timeout_ms=reply.task_timeout_ms,
        pending_activities=[_pending_activity(activity) for activity in reply.activities],
        pending_timers=[
            pb.PendingTimerInfo(timer_id=timer.timer_id, fire_time_us=timer.fire_us)
            for timer in reply.timers
        ],
        pending_workflow_task=_pending_workflow_task(reply.workflow_task),
        cancel_requested=reply.cancel_requested,
        buffered_events=reply.buffered_events,
        first_run_id=_optional_id(reply.first_run_id),
        continued_from_run_id=_optional_id(reply.continued_from_run_id),
        next_run_id=_optional_id(reply.next_run_id),
        attempt=reply.attempt,
        cron_schedule=reply.cron_schedule,
        static_summary=reply.static_summary,
        static_details=reply.static_details,
        first_task_time_us=reply.first_task_us,
        execution_deadline_us=reply.execution_deadline_us,
        pending_children=[_pending_child(child) for child in reply.children],
        **_relatives(reply),
        pause_time_us=reply.pause_us,
        pause_identity=reply.pause_identity,
        pause_reason=reply.pause_reason,
        suspended=reply.suspended,
        original_run_id=_optional_id(reply.original_run_id),
        reset_from_run_id=_optional_id(reply.reset_from_run_id),
        reset_run_id=_optional_id(reply.reset_run_id),
        versioning_override=versioning_fields(reply.versioning_override),
    )


def _relatives(reply: replies.Description) -> Fields:
    parent = reply.parent
    return {
        "parent_workflow_id": parent.workflow_id if parent is not None else "",
        "parent_run_id": uuid_text(parent.run_id) if parent is not None else "",
        "root_workflow_id": reply.root_workflow_id,
        "root_run_id": _optional_id(reply.root_run_id),
    }


def _pending_child(child: replies.PendingChild) -> Fields:
    return {
        "workflow_id": child.workflow_id,
        "run_id": _optional_id(child.run_id),
        "workflow_type": child.workflow_type,
        "initiated_event_id": child.initiated_event_id,
        "parent_close_policy": child.parent_close_policy,
    }


def _optional_id(raw: bytes) -> str:
    return uuid_text(raw) if raw else ""


def _info_fields(info: replies.RunInfo) -> Fields:
    return {
        "workflow_id": info.workflow_id,
        "run_id": uuid_text(info.run_id),
        "workflow_type": info.workflow_type,
        "task_queue": info.task_queue,
        "status": info.status,
        "start_time_us": info.start_us,
        "close_time_us": info.close_us,
        "history_events": info.history_events,
        "history_size_bytes": info.history_bytes,
        "memo": info.memo,
        "stuck": info.stuck,
        "stuck_reason": info.stuck_reason,
        "search_attributes": attribute_fields(info.search_attributes),
        "versioning": versioning_fields(info.versioning),
    }


def _pending_activity(activity: replies.PendingActivity) -> Fields:
    fields: Fields = {
        "activity_id": activity.activity_id,
        "activity_type": activity.activity_type,
        "task_queue": activity.task_queue,
        "state": pb.PendingActivityState.Value(f"PENDING_ACTIVITY_STATE_{activity.state}"),
        "attempt": activity.attempt,
        "maximum_attempts": activity.maximum_attempts,
        "scheduled_time_us": activity.scheduled_us,
        "started_time_us": activity.started_us,
        "next_attempt_time_us": activity.next_attempt_us,
        "worker_identity": activity.worker_identity,
        "last_failure": failure_fields(activity.last_failure),
        "heartbeat_details": activity.progress,
    }
    if activity.paused:
        fields["paused"] = True
        fields["pause_time_us"] = activity.pause_us
        fields["pause_identity"] = activity.pause_identity
        fields["pause_reason"] = activity.pause_reason
    if activity.first_crash_us:
        fields |= _crashes(activity)
    options = activity.options
    if options is not None:
        fields["options"] = {
            **msgspec.structs.asdict(options),
            "retry_policy": policy_fields(options.retry_policy),
        }
    return fields


def _pending_workflow_task(task: replies.PendingWorkflowTask | None) -> Fields:
    if task is None:
        return None
    fields: Fields = {
        "attempt": task.attempt,
        "scheduled_time_us": task.scheduled_us,
        "started_time_us": task.started_us,
        "next_attempt_time_us": task.next_attempt_us,
        "worker_identity": task.worker_identity,
        "last_failure": failure_fields(task.last_failure),
    }
    if task.first_crash_us:
        fields |= _crashes(task)
    return fields


def _crashes(task: replies.PendingActivity | replies.PendingWorkflowTask) -> Fields:
    return {
        "crashes": task.crashes,
        "first_crash_time_us": task.first_crash_us,
        "last_crash": failure_fields(task.last_crash),
    }


def row_message(row: VisibilityRow) -> pb.WorkflowInfo:
    attributes, stuck_reason = search_attributes.from_json(row.attrs)
    attributes, versioning = search_attributes.split_versioning(attributes)
    return pb.WorkflowInfo(
        workflow_id=row.workflow_id,
        run_id=uuid_text(row.run_id),
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        status=common_pb2.WorkflowStatus.ValueType(row.status),
        start_time_us=row.start_us,
        close_time_us=row.close_us or 0,
        history_events=row.history_events,
        history_size_bytes=row.history_bytes,
        memo=row.memo,
        stuck=stuck_reason is not None,
        stuck_reason=stuck_reason or "",
        search_attributes=attribute_fields(attributes),
        versioning=versioning_fields(versioning),
    )


def counted(answer: CountAnswer) -> pb.CountWorkflowsResponse:
    return pb.CountWorkflowsResponse(
        count=answer.count,
        groups=[
            pb.WorkflowCountGroup(count=count, values=[_group_value(value)])
            for value, count in answer.groups
        ],
    )


def _group_value(value: int | str) -> str:
    """A status as filters write it: ContinuedAsNew."""
    if isinstance(value, str):
        return value
    return "".join([word.capitalize() for word in Status(value).name.split("_")])


def namespace_info(row: NamespaceRow) -> namespace_pb2.NamespaceInfo:
    return namespace_pb2.NamespaceInfo(
        name=row.name,
        namespace_id=uuid_text(row.namespace_id),
        description=row.description,
        retention_ms=row.retention_ms,
        conflict_token=row.conflict_token,
        archive=row.archive,
    )


def cluster(found: Cluster) -> operator_service_pb2.DescribeClusterResponse:
    return operator_service_pb2.DescribeClusterResponse(
        version=found.version,
        database=found.database,
        number_of_shards=found.number_of_shards,
        node_id=uuid_text(found.node_id),
        nodes=[
            operator_service_pb2.NodeInfo(
                node_id=uuid_text(entry.node.node_id),
                address=entry.node.address,
                region=entry.node.region,
                alive=entry.node.alive,
                shards=entry.shards,
            )
            for entry in found.nodes
        ],
    )


def queue_kind(info: KindInfo) -> operator_service_pb2.TaskQueueKindInfo:
    return operator_service_pb2.TaskQueueKindInfo(
        backlog_count=info.backlog_count,
        backlog_age_ms=info.backlog_age_ms,
        pollers=info.pollers,
        add_rate=info.add_rate,
        dispatch_rate=info.dispatch_rate,
    )
