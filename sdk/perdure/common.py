"""What clients, workflows and workers all speak of: policies, priorities, states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import ClassVar

from perdure._payload import Payload
from perdure._search_attributes import (
    SearchAttributeIndexedValueType,
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from perdure._versioning import (
    AutoUpgradeVersioningOverride,
    PinnedVersioningOverride,
    VersioningBehavior,
    VersioningOverride,
    WorkerDeploymentVersion,
)

__all__ = [
    "ENTITY_CALL_PREFIX",
    "ENTITY_DESTROY",
    "ENTITY_MOVED",
    "ENTITY_RESERVED",
    "ENTITY_TELL_BYTES_MAX",
    "SAGA_SIGNAL",
    "ActivityOptionsUpdate",
    "AutoUpgradeVersioningOverride",
    "PinnedVersioningOverride",
    "Priority",
    "QueryRejectCondition",
    "RawValue",
    "ResetReapplyExcludeType",
    "ResetType",
    "RetryPolicy",
    "SearchAttributeIndexedValueType",
    "SearchAttributeKey",
    "SearchAttributePair",
    "SearchAttributeUpdate",
    "TypedSearchAttributes",
    "VersioningBehavior",
    "VersioningOverride",
    "WorkerDeploymentVersion",
    "WorkflowIDConflictPolicy",
    "WorkflowIDReusePolicy",
    "WorkflowIdConflictPolicy",
    "WorkflowIdReusePolicy",
    "WorkflowStatus",
]

SAGA_SIGNAL = "__perdure_saga"
"""What a run hears whose saga has a compensation that failed: {"action": "retry" or "skip"}, and
a "reason" for people. Sent by `perdure workflow saga`."""

ENTITY_RESERVED = "perdure:"
"""Begins the names of an entity's calls that are Perdure's own (the engine keeps `__` to itself)."""
ENTITY_DESTROY = f"{ENTITY_RESERVED}destroy"
"""The call that makes an entity's key as if it had never been used."""
ENTITY_MOVED = "__perdure_entity_moved"
"""The failure type of a call that an entity's run has handed to the next one: ask again, with the
same update id."""
ENTITY_CALL_PREFIX = "call:"
"""Begins the update ids that clients make for calls of entities. They need not be remembered for
long: nobody repeats them but the client itself, for a minute."""
ENTITY_TELL_BYTES_MAX = 32 * 1024
"""Arguments of a call that an entity's run can hand to the next one. Those of a larger call are sent
again by its caller, so a call that has none must not be larger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How a failed attempt is tried again; raises ValueError for a policy that makes no sense.

    `maximum_interval` None is 100 times the initial interval, `maximum_attempts` 0 is no limit.
    """

    initial_interval: timedelta = timedelta(seconds=1)
    backoff_coefficient: float = 2.0
    maximum_interval: timedelta | None = None
    maximum_attempts: int = 0
    non_retryable_error_types: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.maximum_attempts < 0:
            raise ValueError("maximum_attempts must not be negative")
        if self.maximum_attempts == 1:
            return  # never retried: the other fields have no meaning
        if self.initial_interval <= timedelta(0):
            raise ValueError("initial_interval must be positive")
        if not 1 <= self.backoff_coefficient < float("inf"):
            raise ValueError("backoff_coefficient must be a finite number of at least 1")
        if self.maximum_interval is not None and self.maximum_interval < self.initial_interval:
            raise ValueError("maximum_interval must not be shorter than initial_interval")


@dataclass(frozen=True, kw_only=True, slots=True)
class Priority:
    """Which of the waiting tasks of a queue goes first: 1 before 2; None is the queue's middle."""

    default: ClassVar[Priority]

    priority_key: int | None = None

    def __post_init__(self) -> None:
        if self.priority_key is not None and self.priority_key < 1:
            raise ValueError("priority_key must be at least 1")


Priority.default = Priority()


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value as it travelled. Dynamic handlers get these, and `payload_converter().from_payload` reads them; as a
    type hint of an argument it asks for the payload itself, and as a value it travels as it is."""

    payload: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptionsUpdate:
    """Other options for a pending activity. What is None stays as it is. A timeout of zero takes it away."""

    task_queue: str | None = None
    schedule_to_close_timeout: timedelta | None = None
    schedule_to_start_timeout: timedelta | None = None
    start_to_close_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    retry_policy: RetryPolicy | None = None
    priority: Priority | None = None


class WorkflowIdReusePolicy(IntEnum):
    """May a new run take the id of a closed one?"""

    ALLOW_DUPLICATE = 1
    ALLOW_DUPLICATE_FAILED_ONLY = 2
    REJECT_DUPLICATE = 3


class WorkflowIdConflictPolicy(IntEnum):
    """What does a start do when a run with that id is open?"""

    UNSPECIFIED = 0
    FAIL = 1
    USE_EXISTING = 2
    TERMINATE_EXISTING = 3


WorkflowIDReusePolicy = WorkflowIdReusePolicy
WorkflowIDConflictPolicy = WorkflowIdConflictPolicy


class WorkflowStatus(IntEnum):
    RUNNING = 1
    COMPLETED = 2
    FAILED = 3
    CANCELED = 4
    TERMINATED = 5
    CONTINUED_AS_NEW = 6
    TIMED_OUT = 7
    PAUSED = 8
    """Open, and held back by an operator."""


class QueryRejectCondition(IntEnum):
    """Of which runs a query is not to be asked."""

    NONE = 1
    NOT_OPEN = 2
    NOT_COMPLETED_CLEANLY = 3
    """Closed in another way than by completing."""


class ResetType(IntEnum):
    """Which workflow task a reset goes to, when it names no event."""

    FIRST_WORKFLOW_TASK = 1
    LAST_WORKFLOW_TASK = 2
    BUILD_ID = 3
    """The first one that a build completed."""


class ResetReapplyExcludeType(IntEnum):
    """What came in after the point of a reset, and is not to be applied again."""

    SIGNAL = 1
    UPDATE = 2
