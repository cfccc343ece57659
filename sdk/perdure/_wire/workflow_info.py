"""What the engine tells of a run: in lists, and at length in a description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from perdure._failure_info import FailureInfo
from perdure._versioning import WorkflowVersioningInfo
from perdure._wire.activity_service import options_from_message
from perdure._wire.failures import failure_from_message
from perdure._wire.payloads import fields_from_bytes, payload_from_bytes, payloads_from_bytes
from perdure._wire.policies import duration_from_ms, instant_from_us, instant_to_us
from perdure._wire.search_attributes import attributes_from_messages
from perdure._wire.version_service import versioning_from_message
from perdure.common import ActivityOptionsUpdate, TypedSearchAttributes, WorkflowStatus
from perdure.converter import Payload
from perdure_api.v1 import common_pb2
from perdure_api.v1 import workflow_service_pb2 as pb


@dataclass(frozen=True, kw_only=True)
class WorkflowExecution:
    """One run, as lists show it. Lists are never stale."""

    id: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: WorkflowStatus | None
    """None: one that this SDK does not know yet."""
    start_time: datetime | None
    close_time: datetime | None
    history_length: int
    """In events."""
    history_size_bytes: int
    memo: Mapping[str, Any]
    stuck: bool
    """Its workflow task has failed 5 times or more in a row."""
    stuck_reason: str
    typed_search_attributes: TypedSearchAttributes = TypedSearchAttributes.empty
    versioning_info: WorkflowVersioningInfo | None = None
    """None: no version of workers has run it."""
    archived: bool = False
    """It was over its retention and has left the tables."""


class PendingActivityState(IntEnum):
    UNSPECIFIED = 0
    SCHEDULED = 1
    STARTED = 2
    BACKING_OFF = 3
    CANCEL_REQUESTED = 4
    PAUSED = 5
    PAUSE_REQUESTED = 6
    """An attempt runs; no other follows before it is unpaused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingActivity:
    activity_id: str
    activity_type: str
    task_queue: str
    state: PendingActivityState
    attempt: int
    maximum_attempts: int
    """0: unlimited."""
    scheduled_time: datetime | None
    started_time: datetime | None
    next_attempt_time: datetime | None
    worker_identity: str
    last_failure: FailureInfo | None
    heartbeat_details: Sequence[Payload]
    paused: bool = False
    pause_time: datetime | None = None
    pause_identity: str = ""
    pause_reason: str = ""
    options: ActivityOptionsUpdate | None = None
    """Set when an operator has changed them: those in force."""
    crashes: int = 0
    """How many workers in a row have died with it in hand. From 3 on it is poisoned: only workers
    of the surgical pool get it."""
    first_crash_time: datetime | None = None
    """Kept until it succeeds."""
    last_crash: FailureInfo | None = None
    """Its stack trace is the report of what supervised the process."""


@dataclass(frozen=True, slots=True)
class PendingTimer:
    timer_id: str
    fire_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWorkflowTask:
    attempt: int
    scheduled_time: datetime | None
    started_time: datetime | None
    """None: no worker has it."""
    worker_identity: str
    last_failure: FailureInfo | None
    crashes: int = 0
    """As of a pending activity."""
    first_crash_time: datetime | None = None
    last_crash: FailureInfo | None = None
    next_attempt_time: datetime | None = None
    """Of one that has failed or is poisoned. None: it is ready, or a worker has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChildWorkflow:
    id: str
    run_id: str
    """Of the first run of its chain; empty: it has not started yet."""
    workflow_type: str
    initiated_event_id: int
    parent_close_policy: str
    """TERMINATE, ABANDON or REQUEST_CANCEL."""


@dataclass(frozen=True, kw_only=True)
class WorkflowExecutionDescription(WorkflowExecution):
    """One run, with what it waits for."""

    execution_timeout: timedelta | None
    run_timeout: timedelta | None
    task_timeout: timedelta | None
    pending_activities: Sequence[PendingActivity]
    pending_timers: Sequence[PendingTimer]
    pending_workflow_task: PendingWorkflowTask | None
    cancel_requested: bool
    buffered_events: int
    first_run_id: str = ""
    """Of the chain of runs that this one belongs to."""
    continued_from_run_id: str = ""
    """The run before this one; empty: it is the first."""
    next_run_id: str = ""
    """The run that follows; empty: none."""
    attempt: int = 1
    """Of the workflow's retry policy."""
    cron_schedule: str = ""
    first_task_time: datetime | None = None
    """Of a run that waits for its time: when its code begins."""
    execution_deadline: datetime | None = None
    """When the chain must be over."""
    pending_children: Sequence[PendingChildWorkflow] = ()
    parent_id: str | None = None
    """The workflow that started this one as its child."""
    parent_run_id: str | None = None
    root_id: str | None = None
    """The workflow above all of its parents, or itself."""
    root_run_id: str | None = None
    pause_time: datetime | None = None
    """None: it is not paused."""
    pause_identity: str = ""
    pause_reason: str = ""
    suspended: bool = False
    """It was the engine: something of it has crashed its workers for 24 hours."""
    original_run_id: str = ""
    """Of a run that began with a reset: the run whose start its own is."""
    reset_from_run_id: str = ""
    """And the run whose history its own begins with."""
    reset_run_id: str = ""
    """Of a run that a reset has ended: the run that began."""
    static_summary: str | None = None
    """As the start gave it. None: not given, or not to be read here."""
    static_details: str | None = None

    @property
    def execution_time(self) -> datetime | None:
        """When its code begins or began: the start, or what the start was to wait for."""
        return self.first_task_time or self.start_time


@dataclass(frozen=True, slots=True)
class WorkflowExecutionCountAggregationGroup:
    count: int
    group_values: Sequence[Any]
    """Of what was grouped by: a status by its name, a type."""


@dataclass(frozen=True, slots=True)
class WorkflowExecutionCount:
    count: int
    groups: Sequence[WorkflowExecutionCountAggregationGroup]
    """Empty unless the query has a GROUP BY."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFilter:
    """Which runs to list or count. What is left out does not restrict."""

    statuses: Sequence[WorkflowStatus] = ()
    workflow_type: str = ""
    workflow_id_prefix: str = ""
    start_time_min: datetime | None = None
    """Inclusive."""
    start_time_max: datetime | None = None
    """Exclusive."""


_STATUSES = {int(status): status for status in WorkflowStatus}
_ACTIVITY_STATES = {int(state): state for state in PendingActivityState}


def execution_from_message(
    message: pb.WorkflowInfo, decode: Callable[[Payload], Any]
) -> WorkflowExecution:
    """`decode` turns the payloads of the memo into values."""
    return WorkflowExecution(**_execution_fields(message, decode))


def description_from_message(
    message: pb.DescribeWorkflowResponse, decode: Callable[[Payload], Any]
) -> WorkflowExecutionDescription:
    return WorkflowExecutionDescription(
        **_execution_fields(message.info, decode),
        execution_timeout=duration_from_ms(message.execution_timeout_ms),
        run_timeout=duration_from_ms(message.run_timeout_ms),
        task_timeout=duration_from_ms(message.task_timeout_ms),
        pending_activities=[_pending_activity(one) for one in message.pending_activities],
        pending_timers=[
            PendingTimer(one.timer_id, instant_from_us(one.fire_time_us))
            for one in message.pending_timers
        ],
        pending_workflow_task=(
            _pending_workflow_task(message.pending_workflow_task)
            if message.HasField("pending_workflow_task")
            else None
        ),
        cancel_requested=message.cancel_requested,
        buffered_events=message.buffered_events,
        first_run_id=message.first_run_id,
        continued_from_run_id=message.continued_from_run_id,
        next_run_id=message.next_run_id,
        attempt=message.attempt or 1,
        cron_schedule=message.cron_schedule,
        first_task_time=instant_from_us(message.first_task_time_us),
        execution_deadline=instant_from_us(message.execution_deadline_us),
        pause_time=instant_from_us(message.pause_time_us),
        pause_identity=message.pause_identity,
        pause_reason=message.pause_reason,
        suspended=message.suspended,
        original_run_id=message.original_run_id,
        reset_from_run_id=message.reset_from_run_id,
        reset_run_id=message.reset_run_id,
        pending_children=[_pending_child(one) for one in message.pending_children],
        parent_id=message.parent_workflow_id or None,
        parent_run_id=message.parent_run_id or None,
        root_id=message.root_workflow_id or None,
        root_run_id=message.root_run_id or None,
        static_summary=_text(message.static_summary, decode),
        static_details=_text(message.static_details, decode),
    )


def _text(payload: bytes, decode: Callable[[Payload], Any]) -> str | None:
    given = payload_from_bytes(payload)
    value = None if given is None else decode(given)
    return value if isinstance(value, str) else None


def _pending_child(message: pb.PendingChildInfo) -> PendingChildWorkflow:
    policy = common_pb2.ParentClosePolicy.Name(message.parent_close_policy)
    return PendingChildWorkflow(
        id=message.workflow_id,
        run_id=message.run_id,
        workflow_type=message.workflow_type,
        initiated_event_id=message.initiated_event_id,
        parent_close_policy=policy.removeprefix("PARENT_CLOSE_POLICY_"),
    )


def _execution_fields(message: pb.WorkflowInfo, decode: Callable[[Payload], Any]) -> dict[str, Any]:
    return {
        "id": message.workflow_id,
        "run_id": message.run_id,
        "workflow_type": message.workflow_type,
        "task_queue": message.task_queue,
        "status": _STATUSES.get(message.status),
        "start_time": instant_from_us(message.start_time_us),
        "close_time": instant_from_us(message.close_time_us),
        "history_length": message.history_events,
        "history_size_bytes": message.history_size_bytes,
        "memo": {name: decode(one) for name, one in fields_from_bytes(message.memo).items()},
        "stuck": message.stuck,
        "stuck_reason": message.stuck_reason,
        "typed_search_attributes": attributes_from_messages(message.search_attributes),
        "versioning_info": versioning_from_message(message.versioning)
        if message.HasField("versioning")
        else None,
        "archived": message.archived,
    }


def filter_to_message(wanted: WorkflowFilter) -> pb.WorkflowFilter:
    return pb.WorkflowFilter(
        statuses=[common_pb2.WorkflowStatus.ValueType(int(one)) for one in wanted.statuses],
        workflow_type=wanted.workflow_type,
        workflow_id_prefix=wanted.workflow_id_prefix,
        start_time_min_us=instant_to_us(wanted.start_time_min),
        start_time_max_us=instant_to_us(wanted.start_time_max),
    )


def _pending_activity(message: pb.PendingActivityInfo) -> PendingActivity:
    return PendingActivity(
        activity_id=message.activity_id,
        activity_type=message.activity_type,
        task_queue=message.task_queue,
        state=_ACTIVITY_STATES.get(message.state, PendingActivityState.UNSPECIFIED),
        attempt=message.attempt,
        maximum_attempts=message.maximum_attempts,
        scheduled_time=instant_from_us(message.scheduled_time_us),
        started_time=instant_from_us(message.started_time_us),
        next_attempt_time=instant_from_us(message.next_attempt_time_us),
        worker_identity=message.worker_identity,
        last_failure=(
            failure_from_message(message.last_failure) if message.HasField("last_failure") else None
        ),
        heartbeat_details=payloads_from_bytes(message.heartbeat_details),
        paused=message.paused,
        pause_time=instant_from_us(message.pause_time_us),
        pause_identity=message.pause_identity,
        pause_reason=message.pause_reason,
        options=options_from_message(message.options) if message.HasField("options") else None,
        crashes=message.crashes,
        first_crash_time=instant_from_us(message.first_crash_time_us),
        last_crash=_last_crash(message),
    )


def _pending_workflow_task(message: pb.PendingWorkflowTaskInfo) -> PendingWorkflowTask:
    return PendingWorkflowTask(
        attempt=message.attempt,
        scheduled_time=instant_from_us(message.scheduled_time_us),
        started_time=instant_from_us(message.started_time_us),
        worker_identity=message.worker_identity,
        last_failure=(
            failure_from_message(message.last_failure) if message.HasField("last_failure") else None
        ),
        crashes=message.crashes,
        first_crash_time=instant_from_us(message.first_crash_time_us),
        last_crash=_last_crash(message),
        next_attempt_time=instant_from_us(message.next_attempt_time_us),
    )


def _last_crash(
    message: pb.PendingActivityInfo | pb.PendingWorkflowTaskInfo,
) -> FailureInfo | None:
    return failure_from_message(message.last_crash) if message.HasField("last_crash") else None
