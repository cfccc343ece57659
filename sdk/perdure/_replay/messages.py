"""What goes into a replay and what comes out of it.

`perdure._worker` feeds these from the wire (through `perdure._wire`); nothing here knows protobuf.
Only the fields that replay reads are kept. Instants are µs since the epoch, durations ms. Nothing
here can be part of a cycle: the garbage collector need not look at it (`gc=False`, inherited).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from perdure._failure_info import FailureInfo
from perdure.common import RetryPolicy, SearchAttributeUpdate, TypedSearchAttributes
from perdure.converter import Payload
from perdure.errors import RetryState

Payloads = list[Payload]
"""The values of one argument list or one result (a result has at most one)."""

NO_HEADER: Mapping[str, Payload] = MappingProxyType({})


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag=True):
    event_id: int
    time_us: int


class Parents(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Of a child: whose it is, and the first above them all."""

    parent_workflow_id: str
    parent_run_id: str
    root_workflow_id: str
    root_run_id: str


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
    continued_from_run_id: str = ""
    last_failure: FailureInfo | None = None
    last_completion_result: Payloads | None = None
    """None: no run of the chain has completed."""
    cron_schedule: str = ""
    search_attributes: TypedSearchAttributes = TypedSearchAttributes.empty
    parents: Parents | None = None
    original_run_id: str = ""
    """Of a run that began with a reset: the run for which its code was begun."""


class WorkflowTaskStarted(Event, frozen=True, kw_only=True):
    history_size_bytes: int
    suggest_continue_as_new: bool


class WorkflowTaskCompleted(Event, frozen=True, kw_only=True):
    build_id: str
    deployment_name: str = ""


class WorkflowTaskFailedOrTimedOut(Event, frozen=True, kw_only=True):
    """A workflow task that came to nothing: its commands never happened."""

    new_run_id: str = ""
    """It was ended by a reset: from here on the history is this run's own."""


class ActivityTaskScheduled(Event, frozen=True, kw_only=True):
    activity_id: str
    activity_type: str
    version: int = 0


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


class UpdateAccepted(Event, frozen=True, kw_only=True):
    """The whole request, and the workflow task whose code took it: there it is delivered on replay."""

    update_id: str
    update_name: str
    input: Payloads
    header: dict[str, Payload]
    identity: str
    workflow_task_completed_event_id: int


class UpdateCompleted(Event, frozen=True, kw_only=True):
    update_id: str


class WorkflowExecutionClosed(Event, frozen=True, kw_only=True):
    """`kind` is the event's name: "WorkflowExecutionCompleted", …Failed, …Canceled, …TimedOut, …"""

    kind: str


class MarkerRecorded(Event, frozen=True, kw_only=True):
    """`marker_id` is which one of its name: a patch's id, a local activity's."""

    marker_name: str
    marker_id: str
    details: Payloads
    failure: FailureInfo | None


class WorkflowPropertiesModified(Event, frozen=True, kw_only=True):
    """The memo was changed, as the code asked: it knows."""


class UpsertWorkflowSearchAttributes(Event, frozen=True, kw_only=True):
    """The code has said what changed, and says it again on replay."""


class OtherEvent(Event, frozen=True, kw_only=True):
    """An event that replay has no use for (WorkflowTaskScheduled, ActivityTaskStarted)."""


class Query(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    query_token: bytes
    query_type: str
    args: Payloads
    header: dict[str, Payload]


class Update(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One that was admitted and waits for the verdict of the workflow's code."""

    update_id: str
    update_name: str
    args: Payloads
    header: dict[str, Payload]
    identity: str


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
    updates: list[Update] = []


class Command(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag=True):
    """What the workflow's code asked for, in the order in which it asked."""


class ScheduleActivity(Command, frozen=True, kw_only=True):
    activity_id: str
    activity_type: str
    task_queue: str
    input: Payloads
    header: Mapping[str, Payload]
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    start_to_close_timeout_ms: int
    heartbeat_timeout_ms: int
    retry_policy: RetryPolicy | None
    priority: int
    summary: Payload | None = None
    version: int = 0


class RequestCancelActivity(Command, frozen=True, kw_only=True):
    scheduled_event_id: int


class StartTimer(Command, frozen=True, kw_only=True):
    timer_id: str
    start_to_fire_ms: int
    summary: Payload | None = None


class CancelTimer(Command, frozen=True, kw_only=True):
    timer_id: str


class CompleteWorkflow(Command, frozen=True, kw_only=True):
    result: Payloads


class FailWorkflow(Command, frozen=True, kw_only=True):
    failure: FailureInfo


class CancelWorkflow(Command, frozen=True, kw_only=True):
    details: Payloads


class ContinueAsNew(Command, frozen=True, kw_only=True):
    """What is empty or 0 is as it was in this run."""

    workflow_type: str
    task_queue: str
    input: Payloads
    header: Mapping[str, Payload]
    memo: dict[str, Payload]
    run_timeout_ms: int
    task_timeout_ms: int
    retry_policy: RetryPolicy | None


class AcceptUpdate(Command, frozen=True, kw_only=True):
    update_id: str


class RejectUpdate(Command, frozen=True, kw_only=True):
    """Becomes no event: on replay it never was."""

    update_id: str
    failure: FailureInfo


class CompleteUpdate(Command, frozen=True, kw_only=True):
    """`failure` None: it succeeded with `result`."""

    update_id: str
    result: Payloads
    failure: FailureInfo | None


class CompensationNote(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """For the engine's audit log, in clear: no values of the user's."""

    name: str
    outcome: str
    reason: str


class RecordMarker(Command, frozen=True, kw_only=True):
    marker_name: str
    marker_id: str
    details: Payloads
    failure: FailureInfo | None
    compensation: CompensationNote | None = None


class ModifyProperties(Command, frozen=True, kw_only=True):
    """None takes a name away."""

    upserted_memo: dict[str, Payload | None]


class LocalActivityTask(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A local activity for the worker to run: this attempt, and those that follow it soon enough."""

    activity_id: str
    activity_type: str
    input: Payloads
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    start_to_close_timeout_ms: int
    retry_policy: RetryPolicy | None
    local_retry_threshold_ms: int
    attempt: int
    scheduled_time_us: int  # the workflow's own time; of the first attempt
    header: Mapping[str, Payload] = NO_HEADER


class LocalActivityOutcome(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What became of one. `failure` is the attempt's own; `backoff_ms`: to be tried again after that."""

    activity_id: str
    attempt: int
    result: Payloads = []
    failure: FailureInfo | None = None
    retry_state: RetryState | None = None
    backoff_ms: int = 0


class LocalWork(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the worker must do beside the workflow's code. `waits`: the workflow task is not over."""

    start: list[LocalActivityTask]
    cancel: list[str]  # activity ids
    waits: bool


class UpsertSearchAttributes(Command, frozen=True, kw_only=True):
    updates: list[SearchAttributeUpdate[Any]]


class QueryResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    query_token: bytes
    result: Payloads
    failure: FailureInfo | None


class TaskFailureCause(msgspec.Struct, frozen=True, gc=False):
    """Names of WorkflowTaskFailedCause without its prefix, e.g. "NON_DETERMINISM"."""

    name: str


class WakeRule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Outcomes of these activities need wake nobody before one of the numbers is reached, or all
    have ended. 0: that number alone never wakes."""

    activity_ids: list[str]
    ended: int = 0
    completed: int = 0
    failed: int = 0


class TaskSuccess(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    commands: list[Command]
    query_results: list[QueryResult]
    wake_rules: tuple[WakeRule, ...] = ()
    local: LocalWork | None = None  # None: no local activities are in play
    afterwards: Sequence[Callable[[], None]] = ()
    """What interceptors want done once the engine has taken this: not here, and never on replay."""
    versioning_behavior: int = 0  # of workers with a version; the numbers are the wire's


class TaskFailure(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    cause: TaskFailureCause
    failure: FailureInfo
    query_results: list[QueryResult]
