"""Of children and other runs: what goes into a replay and what comes out of it, as in messages.py."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from perdure._failure_info import FailureInfo
from perdure._payload import Payload
from perdure._replay.messages import Command, Event, Payloads
from perdure.common import RetryPolicy, TypedSearchAttributes, WorkflowIdReusePolicy
from perdure.errors import RetryState

# --- events ---------------------------------------------------------------------------------------


class StartChildWorkflowExecutionInitiated(Event, frozen=True, kw_only=True):
    """A child is named by the id of this event, in all that follows."""

    workflow_id: str
    workflow_type: str


class StartChildWorkflowExecutionFailed(Event, frozen=True, kw_only=True):
    """Its id was taken."""

    initiated_event_id: int


class ChildWorkflowExecutionStarted(Event, frozen=True, kw_only=True):
    initiated_event_id: int
    run_id: str


class ChildWorkflowExecutionCompleted(Event, frozen=True, kw_only=True):
    initiated_event_id: int
    result: Payloads


class ChildWorkflowExecutionEnded(Event, frozen=True, kw_only=True):
    """In another way than by completing. `started_event_id` 0: before it was started."""

    initiated_event_id: int
    started_event_id: int
    run_id: str  # of the last run of its chain


class ChildWorkflowExecutionFailed(ChildWorkflowExecutionEnded, frozen=True, kw_only=True):
    failure: FailureInfo
    retry_state: RetryState | None


class ChildWorkflowExecutionCanceled(ChildWorkflowExecutionEnded, frozen=True, kw_only=True):
    details: Payloads


class ChildWorkflowExecutionTimedOut(ChildWorkflowExecutionEnded, frozen=True, kw_only=True):
    retry_state: RetryState | None


class ChildWorkflowExecutionTerminated(ChildWorkflowExecutionEnded, frozen=True, kw_only=True):
    pass


class SignalExternalWorkflowExecutionInitiated(Event, frozen=True, kw_only=True):
    workflow_id: str
    signal_name: str


class SignalExternalWorkflowExecutionFailed(Event, frozen=True, kw_only=True):
    """`cause` is the contract's name for it without its prefix, e.g. "NOT_FOUND"."""

    initiated_event_id: int
    cause: str


class ExternalWorkflowExecutionSignaled(Event, frozen=True, kw_only=True):
    initiated_event_id: int


class RequestCancelExternalWorkflowExecutionInitiated(Event, frozen=True, kw_only=True):
    workflow_id: str


class RequestCancelExternalWorkflowExecutionFailed(Event, frozen=True, kw_only=True):
    """`cause` as that of a signal."""

    initiated_event_id: int
    cause: str


class ExternalWorkflowExecutionCancelRequested(Event, frozen=True, kw_only=True):
    initiated_event_id: int


# --- commands -------------------------------------------------------------------------------------


class ParentClosePolicy(IntEnum):
    """What becomes of a child that is open when its parent closes. UNSPECIFIED is TERMINATE."""

    UNSPECIFIED = 0
    TERMINATE = 1
    ABANDON = 2
    REQUEST_CANCEL = 3


class StartChildWorkflow(Command, frozen=True, kw_only=True):
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: Payloads
    header: Mapping[str, Payload]
    execution_timeout_ms: int
    run_timeout_ms: int
    task_timeout_ms: int
    retry_policy: RetryPolicy | None
    parent_close_policy: ParentClosePolicy
    id_reuse_policy: WorkflowIdReusePolicy
    cron_schedule: str
    memo: dict[str, Payload]
    search_attributes: TypedSearchAttributes
    priority: int
    static_summary: Payload | None
    static_details: Payload | None


class SignalExternalWorkflow(Command, frozen=True, kw_only=True):
    workflow_id: str
    run_id: str
    signal_name: str
    input: Payloads
    header: Mapping[str, Payload]
    child_workflow_only: bool


class RequestCancelExternalWorkflow(Command, frozen=True, kw_only=True):
    workflow_id: str
    run_id: str
    child_workflow_only: bool
    reason: str
