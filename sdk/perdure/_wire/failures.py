"""Failures as data, to and from the wire."""

from __future__ import annotations

from typing import assert_never

import msgspec

from perdure._failure_info import (
    ActivityInfo,
    ApplicationInfo,
    CanceledInfo,
    ChildWorkflowInfo,
    FailureInfo,
    FailureKind,
    ServerInfo,
    TerminatedInfo,
    TimeoutInfo,
    WorkerLostInfo,
)
from perdure._payload import Payload
from perdure._wire.payloads import (
    payload_from_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure.errors import RetryState, TimeoutType
from perdure_api.v1 import common_pb2 as pb

ENCODED = "Encoded failure"
"""What a failure says whose message and stack trace are in its encoded attributes."""


class CommonAttributes(msgspec.Struct, frozen=True):
    """What the encoded attributes hold, as JSON."""

    message: str = ""
    stack_trace: str = ""


def hide_common_attributes(message: pb.Failure) -> None:
    """Moves them where a codec finds them. Harmless when they have been moved before."""
    if message.encoded_attributes:
        return
    common = CommonAttributes(message.message, message.stack_trace)
    payload = Payload("json/plain", msgspec.json.encode(common))
    message.encoded_attributes = payload_to_bytes(payload)
    message.message, message.stack_trace = ENCODED, ""


def failure_to_message(failure: FailureInfo) -> pb.Failure:
    message = pb.Failure(
        message=failure.message,
        stack_trace=failure.stack_trace,
        source=failure.source,
        cause=None if failure.cause is None else failure_to_message(failure.cause),
        encoded_attributes=payload_to_bytes(failure.encoded_attributes),
    )
    if failure.info is not None:
        _set_info(message, failure.info)
    return message


def failure_from_message(message: pb.Failure) -> FailureInfo:
    common, hidden = CommonAttributes(message.message, message.stack_trace), None
    if message.encoded_attributes:
        hidden = payload_from_bytes(message.encoded_attributes)
        found = None if hidden is None else _common_attributes(hidden)
        if found is not None:
            common, hidden = found, None
    return FailureInfo(
        message=common.message,
        stack_trace=common.stack_trace,
        source=message.source,
        cause=failure_from_message(message.cause) if message.HasField("cause") else None,
        info=_info(message),
        encoded_attributes=hidden,
    )


def _common_attributes(payload: Payload) -> CommonAttributes | None:
    """None: it cannot be read here."""
    if payload.encoding != "json/plain":
        return None
    try:
        return msgspec.json.decode(payload.data, type=CommonAttributes)
    except msgspec.DecodeError:
        return None


def _set_info(message: pb.Failure, info: FailureKind) -> None:
    match info:
        case ApplicationInfo():
            message.application.CopyFrom(_application_message(info))
        case TimeoutInfo():
            message.timeout.CopyFrom(
                pb.TimeoutFailureInfo(
                    timeout_type=pb.TimeoutType.ValueType(info.timeout_type or 0),
                    last_heartbeat_details=payloads_to_bytes(info.last_heartbeat_details),
                )
            )
        case CanceledInfo():
            details = payloads_to_bytes(info.details)
            message.canceled.CopyFrom(pb.CanceledFailureInfo(details=details))
        case TerminatedInfo():
            details = payloads_to_bytes(info.details)
            message.terminated.CopyFrom(pb.TerminatedFailureInfo(details=details))
        case ServerInfo():
            message.server.CopyFrom(pb.ServerFailureInfo(non_retryable=info.non_retryable))
        case ActivityInfo():
            message.activity.CopyFrom(
                pb.ActivityFailureInfo(
                    scheduled_event_id=info.scheduled_event_id,
                    started_event_id=info.started_event_id,
                    identity=info.identity,
                    activity_type=info.activity_type,
                    activity_id=info.activity_id,
                    retry_state=pb.RetryState.ValueType(info.retry_state or 0),
                )
            )
        case WorkerLostInfo():
            message.worker_lost.CopyFrom(pb.WorkerLostFailureInfo(identity=info.identity))
        case ChildWorkflowInfo():
            message.child_workflow.CopyFrom(_child_workflow_message(info))
        case _:
            assert_never(info)


def _application_message(info: ApplicationInfo) -> pb.ApplicationFailureInfo:
    return pb.ApplicationFailureInfo(
        type=info.type,
        non_retryable=info.non_retryable,
        details=payloads_to_bytes(info.details),
        next_retry_delay_ms=info.next_retry_delay_ms,
        category=info.category,
    )


def _child_workflow_message(info: ChildWorkflowInfo) -> pb.ChildWorkflowFailureInfo:
    return pb.ChildWorkflowFailureInfo(
        namespace=info.namespace,
        workflow_id=info.workflow_id,
        run_id=info.run_id,
        workflow_type=info.workflow_type,
        initiated_event_id=info.initiated_event_id,
        started_event_id=info.started_event_id,
        retry_state=pb.RetryState.ValueType(info.retry_state or 0),
    )


def _info(message: pb.Failure) -> FailureKind | None:
    match message.WhichOneof("info"):
        case "application":
            return _application_info(message.application)
        case "timeout":
            return TimeoutInfo(
                timeout_type=_TIMEOUT_TYPES.get(message.timeout.timeout_type),
                last_heartbeat_details=payloads_from_bytes(message.timeout.last_heartbeat_details),
            )
        case "canceled":
            return CanceledInfo(details=payloads_from_bytes(message.canceled.details))
        case "terminated":
            return TerminatedInfo(details=payloads_from_bytes(message.terminated.details))
        case "server":
            return ServerInfo(non_retryable=message.server.non_retryable)
        case "activity":
            return _activity_info(message.activity)
        case "worker_lost":
            return WorkerLostInfo(identity=message.worker_lost.identity)
        case "child_workflow":
            return _child_workflow_info(message.child_workflow)
        case None:
            return None


def _application_info(message: pb.ApplicationFailureInfo) -> ApplicationInfo:
    has_delay = message.HasField("next_retry_delay_ms")
    return ApplicationInfo(
        type=message.type,
        non_retryable=message.non_retryable,
        details=payloads_from_bytes(message.details),
        next_retry_delay_ms=message.next_retry_delay_ms if has_delay else None,
        category=message.category,
    )


def _activity_info(message: pb.ActivityFailureInfo) -> ActivityInfo:
    return ActivityInfo(
        scheduled_event_id=message.scheduled_event_id,
        started_event_id=message.started_event_id,
        identity=message.identity,
        activity_type=message.activity_type,
        activity_id=message.activity_id,
        retry_state=retry_state_from_number(message.retry_state),
    )


def _child_workflow_info(message: pb.ChildWorkflowFailureInfo) -> ChildWorkflowInfo:
    return ChildWorkflowInfo(
        namespace=message.namespace,
        workflow_id=message.workflow_id,
        run_id=message.run_id,
        workflow_type=message.workflow_type,
        initiated_event_id=message.initiated_event_id,
        started_event_id=message.started_event_id,
        retry_state=retry_state_from_number(message.retry_state),
    )


def retry_state_from_number(number: int) -> RetryState | None:
    return _RETRY_STATES.get(number)


# A newer engine may know more kinds than we do: what we cannot name is None.
_TIMEOUT_TYPES = {int(kind): kind for kind in TimeoutType}
_RETRY_STATES = {int(state): state for state in RetryState}
