"""Between the failures that travel and the exceptions that are raised."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_never

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
from perdure.errors import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    PayloadDecodeError,
    PayloadEncodeError,
    ServerError,
    TerminatedError,
    TimeoutError,
    WorkerLostError,
)

if TYPE_CHECKING:
    from perdure.converter import PayloadConverter

logger = logging.getLogger(__name__)

SOURCE = "PythonSDK"
# Deep enough for any chain that a person can read; a longer one is a loop of re-raising.
DEPTH_MAX = 20
# Of one text of one failure: with DEPTH_MAX causes a failure stays well under a payload's 2 MiB.
TEXT_BYTES_MAX = 16 * 1024


def exception_to_failure(error: BaseException, converter: PayloadConverter) -> FailureInfo:
    """By the rules of the converter's data converter. Never raises."""
    own = converter.failure_converter
    if own is None:
        return default_to_failure(error, converter)
    try:
        return own.to_failure(error, converter)
    except Exception as defect:  # the user's code too: what happened must be told all the same
        logger.exception("the failure converter raised")
        return default_to_failure(error, converter, note=f" (failure converter: {defect!r})")


def failure_to_exception(failure: FailureInfo, converter: PayloadConverter) -> BaseException:
    """By the rules of the converter's data converter. Never raises."""
    own = converter.failure_converter
    if own is None:
        return default_to_exception(failure, converter)
    try:
        return own.from_failure(failure, converter)
    except Exception:
        logger.exception("the failure converter raised")
        return default_to_exception(failure, converter)


def default_to_failure(
    error: BaseException, converter: PayloadConverter, depth: int = 1, note: str = ""
) -> FailureInfo:
    """Never raises. What came from the wire goes back as it came, stack trace included."""
    if isinstance(error, FailureError) and error.failure is not None:
        return error.failure
    cause = error.__cause__
    trace = "".join(traceback.format_tb(error.__traceback__))
    try:
        info, message = _info_of(error, converter), _message_of(error)
    except PayloadEncodeError as lost:
        info, message = ApplicationInfo(type=type(error).__name__), f"{_message_of(error)} ({lost})"
    return FailureInfo(
        message=_cut_end(message + note),
        stack_trace=_cut_start(trace),
        source=SOURCE,
        cause=(
            default_to_failure(cause, converter, depth + 1)
            if cause is not None and depth < DEPTH_MAX
            else None
        ),
        info=info,
    )


def default_to_exception(
    failure: FailureInfo, converter: PayloadConverter, depth: int = 1
) -> FailureError:
    """Never raises. Details that cannot be decoded without a hint stay payloads."""
    error = _error_of(failure, converter)
    error.failure = failure
    if failure.cause is not None and depth < DEPTH_MAX:
        error.__cause__ = default_to_exception(failure.cause, converter, depth + 1)
    return error


def _message_of(error: BaseException) -> str:
    if isinstance(error, FailureError):
        return error.message
    try:
        return f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else str(error)
    except Exception as defect:
        return f"(its __str__ raised {type(defect).__name__})"


def _info_of(error: BaseException, converter: PayloadConverter) -> FailureKind:
    match error:
        case ApplicationError():
            return ApplicationInfo(
                # A class of the user's gives its name; ours says nothing that its users would not.
                type=error.type
                or ("" if type(error) is ApplicationError else type(error).__name__),
                non_retryable=error.non_retryable,
                details=converter.to_payloads(error.details),
                next_retry_delay_ms=_to_ms(error.next_retry_delay),
                category=error.category,
            )
        case CancelledError():
            return CanceledInfo(details=converter.to_payloads(error.details))
        case asyncio.CancelledError():
            return CanceledInfo()
        case TimeoutError():
            details = converter.to_payloads(error.last_heartbeat_details)
            return TimeoutInfo(timeout_type=error.type, last_heartbeat_details=details)
        case TerminatedError():
            return TerminatedInfo(details=converter.to_payloads(error.details))
        case ServerError():
            return ServerInfo(non_retryable=error.non_retryable)
        case WorkerLostError():
            return WorkerLostInfo(identity=error.identity)
        case ActivityError():
            return ActivityInfo(
                scheduled_event_id=error.scheduled_event_id,
                started_event_id=error.started_event_id,
                identity=error.identity,
                activity_type=error.activity_type,
                activity_id=error.activity_id,
                retry_state=error.retry_state,
            )
        case ChildWorkflowError():
            return ChildWorkflowInfo(
                namespace=error.namespace,
                workflow_id=error.workflow_id,
                run_id=error.run_id,
                workflow_type=error.workflow_type,
                initiated_event_id=error.initiated_event_id,
                started_event_id=error.started_event_id,
                retry_state=error.retry_state,
            )
        case _:
            return ApplicationInfo(type=type(error).__name__)


def _error_of(failure: FailureInfo, converter: PayloadConverter) -> FailureError:
    message, info = failure.message, failure.info
    match info:
        case None:
            return FailureError(message)
        case ApplicationInfo():
            delay_ms = info.next_retry_delay_ms
            return ApplicationError(
                message,
                *_decoded(info.details, converter),
                type=info.type or None,
                non_retryable=info.non_retryable,
                next_retry_delay=None if delay_ms is None else timedelta(milliseconds=delay_ms),
                category=info.category,
            )
        case TimeoutInfo():
            details = _decoded(info.last_heartbeat_details, converter)
            return TimeoutError(message, type=info.timeout_type, last_heartbeat_details=details)
        case CanceledInfo():
            return CancelledError(message or "Cancelled", *_decoded(info.details, converter))
        case TerminatedInfo():
            return TerminatedError(message, *_decoded(info.details, converter))
        case ServerInfo():
            return ServerError(message, non_retryable=info.non_retryable)
        case WorkerLostInfo():
            return WorkerLostError(message, identity=info.identity)
        case ActivityInfo():
            return ActivityError(
                message,
                scheduled_event_id=info.scheduled_event_id,
                started_event_id=info.started_event_id,
                identity=info.identity,
                activity_type=info.activity_type,
                activity_id=info.activity_id,
                retry_state=info.retry_state,
            )
        case ChildWorkflowInfo():
            return ChildWorkflowError(message, **msgspec.structs.asdict(info))
        case _:
            assert_never(info)


def _decoded(details: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
    return [_decoded_one(payload, converter) for payload in details]


def _decoded_one(payload: Payload, converter: PayloadConverter) -> Any:
    try:
        return converter.from_payload(payload)
    except PayloadDecodeError:
        return payload


def _to_ms(duration: timedelta | None) -> int | None:
    return None if duration is None else -(-duration // timedelta(milliseconds=1))


def _cut_end(text: str) -> str:
    data = text.encode(errors="replace")
    return data[:TEXT_BYTES_MAX].decode(errors="ignore")


def _cut_start(text: str) -> str:
    """The end of a trace is where it happened."""
    data = text.encode(errors="replace")
    return data[-TEXT_BYTES_MAX:].decode(errors="ignore")
