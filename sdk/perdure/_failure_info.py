"""What a failure says, as it travels: the errors are made of it, and it of them."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from perdure._payload import Payload


class TimeoutType(IntEnum):
    START_TO_CLOSE = 1
    SCHEDULE_TO_START = 2
    SCHEDULE_TO_CLOSE = 3
    HEARTBEAT = 4


class RetryState(IntEnum):
    """Why there is no further attempt."""

    IN_PROGRESS = 1
    NON_RETRYABLE_FAILURE = 2
    TIMEOUT = 3
    MAXIMUM_ATTEMPTS_REACHED = 4
    RETRY_POLICY_NOT_SET = 5
    INTERNAL_SERVER_ERROR = 6
    CANCEL_REQUESTED = 7


class ApplicationErrorCategory(StrEnum):
    """What an application error means to those who look after the workers."""

    UNSPECIFIED = ""
    BENIGN = "benign"
    """Expected in the course of business: nothing to log as an error, nothing to count as one."""


# --- failures as data -----------------------------------------------------------------------------


class ApplicationInfo(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    non_retryable: bool = False
    details: list[Payload] = []
    next_retry_delay_ms: int | None = None
    category: str = ""


class TimeoutInfo(msgspec.Struct, frozen=True, kw_only=True):
    timeout_type: TimeoutType | None
    last_heartbeat_details: list[Payload] = []


class CanceledInfo(msgspec.Struct, frozen=True, kw_only=True):
    details: list[Payload] = []


class TerminatedInfo(msgspec.Struct, frozen=True, kw_only=True):
    details: list[Payload] = []


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    non_retryable: bool = False


class ActivityInfo(msgspec.Struct, frozen=True, kw_only=True):
    scheduled_event_id: int
    started_event_id: int
    identity: str
    activity_type: str
    activity_id: str
    retry_state: RetryState | None


class WorkerLostInfo(msgspec.Struct, frozen=True, kw_only=True):
    identity: str


class ChildWorkflowInfo(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str
    initiated_event_id: int
    started_event_id: int
    retry_state: RetryState | None


FailureKind = (
    ApplicationInfo
    | TimeoutInfo
    | CanceledInfo
    | TerminatedInfo
    | ServerInfo
    | ActivityInfo
    | WorkerLostInfo
    | ChildWorkflowInfo
)


class FailureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A failure as the wire carries it, without the wire. `info` None: of a kind not known here."""

    message: str
    stack_trace: str = ""
    source: str = ""
    cause: FailureInfo | None = None
    info: FailureKind | None = None
    encoded_attributes: Payload | None = None
    """Message and stack trace, while they cannot be read: the codec that encoded them is missing."""
