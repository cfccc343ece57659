"""Why something did not succeed, as it is kept at rest. Payloads inside stay encoded bytes."""

from __future__ import annotations

import enum

import msgspec


class FailureKind(enum.IntEnum):
    APPLICATION = 1
    TIMEOUT = 2
    CANCELED = 3
    TERMINATED = 4
    SERVER = 5
    ACTIVITY = 6
    WORKER_LOST = 7
    CHILD_WORKFLOW = 8


class TimeoutType(enum.IntEnum):
    NONE = 0
    START_TO_CLOSE = 1
    SCHEDULE_TO_START = 2
    SCHEDULE_TO_CLOSE = 3
    HEARTBEAT = 4


class RetryState(enum.IntEnum):
    NONE = 0
    IN_PROGRESS = 1
    NON_RETRYABLE_FAILURE = 2
    TIMEOUT = 3
    MAXIMUM_ATTEMPTS_REACHED = 4
    RETRY_POLICY_NOT_SET = 5
    INTERNAL_SERVER_ERROR = 6
    CANCEL_REQUESTED = 7


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One link of a chain of causes. Which of the fields below `cause` matter depends on `kind`.

    CHILD_WORKFLOW has no fields of its own: `activity_id` is the child's workflow id, `identity` its run id,
    `category` its namespace, `scheduled_event_id` the initiated event. So no other failure grows at rest.
    """

    kind: FailureKind
    message: str
    stack_trace: str = ""
    source: str = "Engine"
    cause: Failure | None = None
    type: str = ""  # APPLICATION: the error's class name; ACTIVITY, CHILD_WORKFLOW: the type's name
    non_retryable: bool = False  # APPLICATION, SERVER
    details: bytes = (
        b""  # APPLICATION, CANCELED, TERMINATED: Payloads; TIMEOUT: the last heartbeat details
    )
    next_retry_delay_ms: int | None = None  # APPLICATION
    category: str = ""  # APPLICATION
    timeout_type: TimeoutType = TimeoutType.NONE  # TIMEOUT
    scheduled_event_id: int = 0  # ACTIVITY
    started_event_id: int = 0  # ACTIVITY
    identity: str = ""  # ACTIVITY, WORKER_LOST
    activity_id: str = ""  # ACTIVITY
    retry_state: RetryState = RetryState.NONE  # ACTIVITY
    encoded_attributes: bytes = b""  # Payload: message and stack trace, unreadable for us


def timeout_failure(
    timeout_type: TimeoutType, details: bytes = b"", cause: Failure | None = None
) -> Failure:
    name = timeout_type.name.replace("_", "-").lower()
    return Failure(
        FailureKind.TIMEOUT,
        f"activity {name} timeout",
        cause=cause,
        details=details,
        timeout_type=timeout_type,
    )


def worker_lost_failure(identity: str) -> Failure:
    return Failure(FailureKind.WORKER_LOST, f"the worker {identity!r} is gone", identity=identity)
