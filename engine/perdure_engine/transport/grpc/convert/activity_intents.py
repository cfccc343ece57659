"""Messages about pending activities, to intents."""

from __future__ import annotations

from typing import Any

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.errors import invalid
from perdure_engine.core.intents import (
    ActivityCanceled,
    ActivityCompleted,
    ActivityFailed,
    ActivityLives,
    ActivityReport,
    CancelActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
    PauseActivity,
    ReportActivity,
    ResetActivity,
    UnpauseActivity,
    UpdateActivityOptions,
)
from perdure_engine.core.jobs.intents import SaveJobProgress
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.frontend.checks import uuid_bytes, uuid_bytes_or_none
from perdure_engine.frontend.handlers.report_activity import ByToken
from perdure_engine.frontend.seal import Sealer
from perdure_engine.transport.grpc.convert.failures import failure_of
from perdure_engine.transport.grpc.convert.retries import policy_of

_OPTIONS = (
    "task_queue",
    "schedule_to_close_timeout_ms",
    "schedule_to_start_timeout_ms",
    "start_to_close_timeout_ms",
    "heartbeat_timeout_ms",
    "priority",
)


def report_of(
    message: Any, sealer: Sealer, namespace_id: bytes
) -> ByToken | ReportActivity | SaveJobProgress:
    """Of any of the four messages that say what becomes of an activity; a heartbeat may be a job's."""
    report = _report(message)
    if message.token:
        if message.workflow_id or message.run_id or message.activity_id:
            raise invalid("token", "names the attempt: ids cannot be given with it")
        token = sealer.open_task("token", message.token, namespace_id)
        if token.kind is TaskKind.JOB and isinstance(report, ActivityLives):
            return _job_progress(token, report, message.progress_version)
        if token.kind is not TaskKind.ACTIVITY:
            raise invalid("token", "is not of an activity")
        return _by_token(token, report, message)
    return ReportActivity(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        activity_id=message.activity_id,
        request_id=_request_id(message),
        report=report,
        identity=message.identity,
    )


def _job_progress(token: TaskToken, report: ActivityLives, version: int) -> SaveJobProgress:
    if report.details is None:
        raise invalid("has_details", "is required for a job, whose worker tells that it lives")
    return SaveJobProgress(token.shard_id, token, report.details, version)


def _report(message: Any) -> ActivityReport:
    match message:
        case pb.CompleteActivityRequest():
            return ActivityCompleted(message.result)
        case pb.FailActivityRequest():
            if not message.HasField("failure"):
                raise invalid("failure", "is required")
            failure = failure_of("failure", message.failure)
            return ActivityFailed(failure, message.last_heartbeat_details)
        case pb.CancelActivityRequest():
            return ActivityCanceled(message.details)
        case _:
            return ActivityLives(message.details if message.has_details else None)


def _by_token(token: TaskToken, report: ActivityReport, message: Any) -> ByToken:
    identity = message.identity
    match report:
        case ActivityCompleted():
            return CompleteActivity(token, report.result, identity)
        case ActivityFailed():
            return FailActivity(token, report.failure, report.progress, identity)
        case ActivityCanceled():
            return CancelActivity(token, report.details, identity)
        case ActivityLives():
            return HeartbeatActivity(token, report.details, message.progress_version)


def _request_id(message: Any) -> bytes:
    """Of a failure by ids only: it may come twice, and the second time another attempt runs."""
    if isinstance(message, pb.FailActivityRequest):
        return uuid_bytes("request_id", message.request_id)
    return b""


def _which(message: Any, namespace_id: bytes) -> dict[str, Any]:
    return {
        "namespace_id": namespace_id,
        "workflow_id": message.workflow_id,
        "run_id": uuid_bytes_or_none("run_id", message.run_id),
        "activity_id": message.activity_id,
        "activity_type": message.activity_type,
    }


def pause_activity(message: pb.PauseActivityRequest, namespace_id: bytes) -> PauseActivity:
    return PauseActivity(
        **_which(message, namespace_id), identity=message.identity, reason=message.reason
    )


def unpause_activity(message: pb.UnpauseActivityRequest, namespace_id: bytes) -> UnpauseActivity:
    return UnpauseActivity(
        **_which(message, namespace_id),
        reset_attempts=message.reset_attempts,
        reset_heartbeat=message.reset_heartbeat,
        identity=message.identity,
        reason=message.reason,
    )


def reset_activity(message: pb.ResetActivityRequest, namespace_id: bytes) -> ResetActivity:
    return ResetActivity(
        **_which(message, namespace_id),
        request_id=uuid_bytes("request_id", message.request_id),
        reset_heartbeat=message.reset_heartbeat,
        keep_paused=message.keep_paused,
        restore_original_options=message.restore_original_options,
        identity=message.identity,
        reason=message.reason,
    )


def update_activity_options(
    message: pb.UpdateActivityOptionsRequest, namespace_id: bytes
) -> UpdateActivityOptions:
    options: Any = message.options  # its fields are asked for by their names
    given = {name: getattr(options, name) for name in _OPTIONS if options.HasField(name)}
    if options.HasField("retry_policy"):
        given["retry_policy"] = policy_of(options.retry_policy)
    return UpdateActivityOptions(
        **_which(message, namespace_id),
        restore_original=message.restore_original,
        identity=message.identity,
        reason=message.reason,
        **given,
    )
