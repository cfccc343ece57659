"""What goes into a replay and what comes out of it.

`perdure._worker` feeds these from the wire (through `perdure._wire`); nothing here knows protobuf.
Only the fields that replay reads are kept. Instants are µs since the epoch, durations ms. Nothing
here can be part of a cycle: the garbage collector need not look at it (`gc=False`, inherited).
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.common import RetryPolicy, SearchAttributeUpdate, TypedSearchAttributes
from perdure.converter import Payload
from perdure.errors import FailureInfo

Payloads = list[Payload]
"""The values of one argument list or one result (a result has at most one)."""


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag=True):
    event_id: int
    time_us: int


class WorkflowExecutionStarted(Event, frozen=True, kw_only=True):
    workflow_id: str
    run_id: str
    first_run_id: str
    workflow_type: str
    task_queue: str
    input: Payloads
    header: dict[str, Payload]
    memo: dict[str, Payload]
    attempt: int
    execution_timeout_ms: int
    run_timeout_ms: int
    task_timeout_ms: int
    retry_policy: RetryPolicy | None
    priority: int
    search_attributes: TypedSearchAttributes = TypedSearchAttributes.empty


class WorkflowTaskStarted(Event, frozen=True, kw_only=True):
    history_size_bytes: int
    suggest_continue_as_new: bool


class WorkflowTaskCompleted(Event, frozen=True, kw_only=True):
    build_id: str


class WorkflowTaskFailedOrTimedOut(Event, frozen=True, kw_only=True):
    """A workflow task that came to nothing: its commands never happened."""


class ActivityTaskScheduled(Event, frozen=True, kw_only=True):
    activity_id: str
    activity_type: str


class ActivityTaskCompleted(Event, frozen=True, kw_only=True):
    scheduled_event_id: int
    result: Payloads


class ActivityTaskFailed(Event, frozen=True, kw_only=True):
    """Failed or timed out for good: `failure` is the activity failure, with what caused it."""

    scheduled_event_id: int
    failure: FailureInfo


class ActivityTaskCancelRequested(Event, frozen=True, kw_only=True):
    scheduled_event_id: int


class ActivityTaskCanceled(Event, frozen=True, kw_only=True):
    scheduled_event_id: int
    details: Payloads


class TimerStarted(Event, frozen=True, kw_only=True):
    timer_id: str
    start_to_fire_ms: int


class TimerFired(Event, frozen=True, kw_only=True):
    timer_id: str
    started_event_id: int


class TimerCanceled(Event, frozen=True, kw_only=True):
    timer_id: str
    started_event_id: int


class WorkflowExecutionSignaled(Event, frozen=True, kw_only=True):
    signal_name: str
    input: Payloads
    header: dict[str, Payload]
    identity: str


class WorkflowExecutionCancelRequested(Event, frozen=True, kw_only=True):
    reason: str


class WorkflowExecutionClosed(Event, frozen=True, kw_only=True):
    """`kind` is the event's name: "WorkflowExecutionCompleted", …Failed, …Canceled, …TimedOut, …"""

    kind: str


class UpsertWorkflowSearchAttributes(Event, frozen=True, kw_only=True):
    """The code has said what changed, and says it again on replay."""


class OtherEvent(Event, frozen=True, kw_only=True):
    """An event that replay has no use for (WorkflowTaskScheduled, ActivityTaskStarted)."""


class Query(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    query_token: bytes
    query_type: str
    args: Payloads
    header: dict[str, Payload]


class Task(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One workflow task as a worker gets it, with its whole history slice already fetched."""

    token: bytes
    workflow_id: str
    run_id: str
    workflow_type: str
    attempt: int
    previous_started_event_id: int
    started_event_id: int
    events: list[Event]
    queries: list[Query]
    query_only: bool
    history_size_bytes: int
    suggest_continue_as_new: bool


class Command(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag=True):
    """What the workflow's code asked for, in the order in which it asked."""


class ScheduleActivity(Command, frozen=True, kw_only=True):
    activity_id: str
    activity_type: str
    task_queue: str
    input: Payloads
    header: dict[str, Payload]
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    start_to_close_timeout_ms: int
    heartbeat_timeout_ms: int
    retry_policy: RetryPolicy | None
    priority: int


class RequestCancelActivity(Command, frozen=True, kw_only=True):
    scheduled_event_id: int


class StartTimer(Command, frozen=True, kw_only=True):
    timer_id: str
    start_to_fire_ms: int


class CancelTimer(Command, frozen=True, kw_only=True):
    timer_id: str


class CompleteWorkflow(Command, frozen=True, kw_only=True):
    result: Payloads


class FailWorkflow(Command, frozen=True, kw_only=True):
    failure: FailureInfo


class CancelWorkflow(Command, frozen=True, kw_only=True):
    details: Payloads


class UpsertSearchAttributes(Command, frozen=True, kw_only=True):
    updates: list[SearchAttributeUpdate[Any]]


class QueryResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    query_token: bytes
    result: Payloads
    failure: FailureInfo | None


class TaskFailureCause(msgspec.Struct, frozen=True, gc=False):
    """Names of WorkflowTaskFailedCause without its prefix, e.g. "NON_DETERMINISM"."""

    name: str


class TaskSuccess(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    commands: list[Command]
    query_results: list[QueryResult]


class TaskFailure(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    cause: TaskFailureCause
    failure: FailureInfo
    query_results: list[QueryResult]
