"""What a run did to other runs and heard from them: its children, and runs that it signals or cancels.

The rules of `core.events` hold here too, whose unions take these in. What is initiated is carried to the other run by
a saved message (`core.messages`) until it has an answer, which is the event that follows.
"""

from __future__ import annotations

import enum

from perdure_engine.core.event_base import EventBase
from perdure_engine.core.failures import Failure, RetryState
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import Attributes


class StartChildFailedCause(enum.IntEnum):
    UNSPECIFIED = 0
    ALREADY_EXISTS = 1


class ExternalFailedCause(enum.IntEnum):
    UNSPECIFIED = 0
    NOT_FOUND = 1  # no such run, or it is closed
    LIMIT = 2  # it takes no more signals


class RequestCancelExternalWorkflowExecutionInitiated(
    EventBase, frozen=True, array_like=True, tag=22
):
    workflow_id: str
    run_id: bytes  # b"": the current run
    child_workflow_only: bool
    reason: str
    workflow_task_completed_event_id: int


class RequestCancelExternalWorkflowExecutionFailed(EventBase, frozen=True, array_like=True, tag=23):
    initiated_event_id: int
    workflow_id: str
    run_id: bytes
    cause: ExternalFailedCause


class ExternalWorkflowExecutionCancelRequested(EventBase, frozen=True, array_like=True, tag=24):
    initiated_event_id: int
    workflow_id: str
    run_id: bytes


class StartChildWorkflowExecutionInitiated(EventBase, frozen=True, array_like=True, tag=29):
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: bytes
    header: bytes
    execution_timeout_ms: int
    run_timeout_ms: int
    task_timeout_ms: int
    retry_policy: RetryPolicy | None
    parent_close_policy: ParentClosePolicy
    id_reuse_policy: IdReusePolicy
    cron_schedule: str
    memo: bytes
    search_attributes: Attributes
    priority: int
    static_summary: bytes
    static_details: bytes
    workflow_task_completed_event_id: int


class StartChildWorkflowExecutionFailed(EventBase, frozen=True, array_like=True, tag=30):
    initiated_event_id: int
    workflow_id: str
    workflow_type: str
    cause: StartChildFailedCause


class ChildWorkflowExecutionStarted(EventBase, frozen=True, array_like=True, tag=31):
    initiated_event_id: int
    workflow_id: str
    run_id: bytes  # of the chain's first run
    workflow_type: str


class ChildWorkflowExecutionCompleted(EventBase, frozen=True, array_like=True, tag=32):
    initiated_event_id: int
    started_event_id: int
    workflow_id: str
    run_id: bytes  # of the chain's last run, here and below
    workflow_type: str
    result: bytes


class ChildWorkflowExecutionFailed(EventBase, frozen=True, array_like=True, tag=33):
    initiated_event_id: int
    started_event_id: int
    workflow_id: str
    run_id: bytes
    workflow_type: str
    failure: Failure
    retry_state: RetryState


class ChildWorkflowExecutionCanceled(EventBase, frozen=True, array_like=True, tag=34):
    """`started_event_id` 0: its start was taken back before anybody had heard of it."""

    initiated_event_id: int
    started_event_id: int
    workflow_id: str
    run_id: bytes
    workflow_type: str
    details: bytes


class ChildWorkflowExecutionTimedOut(EventBase, frozen=True, array_like=True, tag=35):
    initiated_event_id: int
    started_event_id: int
    workflow_id: str
    run_id: bytes
    workflow_type: str
    retry_state: RetryState


class ChildWorkflowExecutionTerminated(EventBase, frozen=True, array_like=True, tag=36):
    initiated_event_id: int
    started_event_id: int
    workflow_id: str
    run_id: bytes
    workflow_type: str


class SignalExternalWorkflowExecutionInitiated(EventBase, frozen=True, array_like=True, tag=37):
    workflow_id: str
    run_id: bytes  # b"": the current run
    signal_name: str
    input: bytes
    header: bytes
    child_workflow_only: bool
    workflow_task_completed_event_id: int


class SignalExternalWorkflowExecutionFailed(EventBase, frozen=True, array_like=True, tag=38):
    initiated_event_id: int
    workflow_id: str
    run_id: bytes
    cause: ExternalFailedCause


class ExternalWorkflowExecutionSignaled(EventBase, frozen=True, array_like=True, tag=39):
    initiated_event_id: int
    workflow_id: str
    run_id: bytes


ChildClosedEvent = (
    ChildWorkflowExecutionCompleted
    | ChildWorkflowExecutionFailed
    | ChildWorkflowExecutionCanceled
    | ChildWorkflowExecutionTimedOut
    | ChildWorkflowExecutionTerminated
)
"""A child's end, as its parent hears of it."""

HeardEvent = (
    StartChildWorkflowExecutionFailed
    | ChildWorkflowExecutionStarted
    | ChildClosedEvent
    | SignalExternalWorkflowExecutionFailed
    | ExternalWorkflowExecutionSignaled
    | RequestCancelExternalWorkflowExecutionFailed
    | ExternalWorkflowExecutionCancelRequested
)
"""What other runs answer: like all that comes from outside, it waits while a workflow task is out."""

OutsideEvent = (
    RequestCancelExternalWorkflowExecutionInitiated
    | RequestCancelExternalWorkflowExecutionFailed
    | ExternalWorkflowExecutionCancelRequested
    | StartChildWorkflowExecutionInitiated
    | StartChildWorkflowExecutionFailed
    | ChildWorkflowExecutionStarted
    | ChildClosedEvent
    | SignalExternalWorkflowExecutionInitiated
    | SignalExternalWorkflowExecutionFailed
    | ExternalWorkflowExecutionSignaled
)
"""All of them, by their numbers."""
