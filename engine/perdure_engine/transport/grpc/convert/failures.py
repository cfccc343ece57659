"""Failures, both ways. What comes in is cut to what the engine keeps (semantics §9)."""

from __future__ import annotations

from typing import Any

from perdure_api.v1 import common_pb2
from perdure_engine.core import limits
from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.frontend import checks
from perdure_engine.transport.grpc.convert.fields import Fields

KIND_OF_INFO = {
    "application": FailureKind.APPLICATION,
    "timeout": FailureKind.TIMEOUT,
    "canceled": FailureKind.CANCELED,
    "terminated": FailureKind.TERMINATED,
    "server": FailureKind.SERVER,
    "activity": FailureKind.ACTIVITY,
    "worker_lost": FailureKind.WORKER_LOST,
    "child_workflow": FailureKind.CHILD_WORKFLOW,
}


def failure_of(
    field: str, message: common_pb2.Failure, depth: int = limits.FAILURE_DEPTH_MAX
) -> Failure:
    """The failure without the causes below `depth` and with its texts cut; its details must fit.

    Cut and not refused: the run's fate must not hang on the length of a stack trace.
    """
    cause = None
    if depth > 1 and message.HasField("cause"):
        cause = failure_of(f"{field}.cause", message.cause, depth - 1)
    which = message.WhichOneof("info") or "application"
    if message.encoded_attributes:
        checks.size(f"{field}.encoded_attributes", message.encoded_attributes)
    return Failure(
        KIND_OF_INFO[which],
        cut(message.message, limits.FAILURE_MESSAGE_BYTES_MAX),
        cut(message.stack_trace, limits.STACK_TRACE_BYTES_MAX),
        cut(message.source, limits.NAME_BYTES_MAX),
        cause,
        encoded_attributes=message.encoded_attributes,
        **_info(field, which, message),
    )


def _info(field: str, which: str, message: common_pb2.Failure) -> dict[str, Any]:
    match which:
        case "application":
            application = message.application
            checks.size(f"{field}.application.details", application.details)
            has_delay = application.HasField("next_retry_delay_ms")
            if has_delay:
                checks.duration(
                    f"{field}.application.next_retry_delay_ms", application.next_retry_delay_ms
                )
            return {
                "type": cut(application.type, limits.NAME_BYTES_MAX),
                "non_retryable": application.non_retryable,
                "details": application.details,
                "next_retry_delay_ms": application.next_retry_delay_ms if has_delay else None,
                "category": cut(application.category, limits.NAME_BYTES_MAX),
            }
        case "timeout":
            timeout = message.timeout
            checks.size(f"{field}.timeout.last_heartbeat_details", timeout.last_heartbeat_details)
            return {
                "timeout_type": _member(TimeoutType, timeout.timeout_type),
                "details": timeout.last_heartbeat_details,
            }
        case "canceled" | "terminated":
            details: bytes = getattr(message, which).details
            checks.size(f"{field}.{which}.details", details)
            return {"details": details}
        case "server":
            return {"non_retryable": message.server.non_retryable}
        case "activity":
            activity = message.activity
            return {
                "scheduled_event_id": activity.scheduled_event_id,
                "started_event_id": activity.started_event_id,
                "identity": cut(activity.identity, limits.IDENTITY_BYTES_MAX),
                "type": cut(activity.activity_type, limits.NAME_BYTES_MAX),
                "activity_id": cut(activity.activity_id, limits.NAME_BYTES_MAX),
                "retry_state": _member(RetryState, activity.retry_state),
            }
        case "worker_lost":
            return {"identity": cut(message.worker_lost.identity, limits.IDENTITY_BYTES_MAX)}
        case "child_workflow":
            return _child_workflow(message.child_workflow)
        case _:
            return {}


def _child_workflow(child: common_pb2.ChildWorkflowFailureInfo) -> dict[str, Any]:
    return {
        "category": cut(child.namespace, limits.NAMESPACE_BYTES_MAX),
        "activity_id": cut(child.workflow_id, limits.WORKFLOW_ID_BYTES_MAX),
        "identity": cut(child.run_id, limits.IDENTITY_BYTES_MAX),
        "type": cut(child.workflow_type, limits.NAME_BYTES_MAX),
        "scheduled_event_id": child.initiated_event_id,
        "started_event_id": child.started_event_id,
        "retry_state": _member(RetryState, child.retry_state),
    }


def failure_fields(failure: Failure | None) -> Fields:
    if failure is None:
        return None
    which, info = _info_fields(failure)
    return {
        "message": failure.message,
        "stack_trace": failure.stack_trace,
        "source": failure.source,
        "cause": failure_fields(failure.cause),
        "encoded_attributes": failure.encoded_attributes,
        which: info,
    }


def _info_fields(failure: Failure) -> tuple[str, Fields]:
    match failure.kind:
        case FailureKind.APPLICATION:
            return "application", {
                "type": failure.type,
                "non_retryable": failure.non_retryable,
                "details": failure.details,
                "next_retry_delay_ms": failure.next_retry_delay_ms,
                "category": failure.category,
            }
        case FailureKind.TIMEOUT:
            return "timeout", {
                "timeout_type": failure.timeout_type,
                "last_heartbeat_details": failure.details,
            }
        case FailureKind.CANCELED:
            return "canceled", {"details": failure.details}
        case FailureKind.TERMINATED:
            return "terminated", {"details": failure.details}
        case FailureKind.SERVER:
            return "server", {"non_retryable": failure.non_retryable}
        case FailureKind.ACTIVITY:
            return "activity", {
                "scheduled_event_id": failure.scheduled_event_id,
                "started_event_id": failure.started_event_id,
                "identity": failure.identity,
                "activity_type": failure.type,
                "activity_id": failure.activity_id,
                "retry_state": failure.retry_state,
            }
        case FailureKind.WORKER_LOST:
            return "worker_lost", {"identity": failure.identity}
        case FailureKind.CHILD_WORKFLOW:
            return "child_workflow", {
                "namespace": failure.category,
                "workflow_id": failure.activity_id,
                "run_id": failure.identity,
                "workflow_type": failure.type,
                "initiated_event_id": failure.scheduled_event_id,
                "started_event_id": failure.started_event_id,
                "retry_state": failure.retry_state,
            }


def failure_message(failure: Failure) -> common_pb2.Failure:
    fields = failure_fields(failure)
    assert fields is not None
    return common_pb2.Failure(**fields)


def cut(text: str, bytes_max: int) -> str:
    """The beginning of the text that fits, never half a character."""
    if len(text) <= bytes_max and (text.isascii() or len(text.encode()) <= bytes_max):
        return text
    return text.encode()[:bytes_max].decode(errors="ignore")


def _member(enumeration: Any, number: int) -> Any:
    """A number of a newer version reads as "not said"."""
    try:
        return enumeration(number)
    except ValueError:
        return enumeration.NONE
