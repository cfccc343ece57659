"""Workflows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure_engine.core import limits
from perdure_engine.core.intents import UpdateStage
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.status import Status
from perdure_engine.transport.http.rest.bodies.fields import (
    Archived,
    ArchivedInstead,
    Duration,
    Failure,
    Instant,
    Json,
    Label,
    Limit,
    Name,
    NextPageToken,
    PageToken,
    Priority,
    Reason,
    Retry,
    SearchAttribute,
    Uuid,
    Value,
    WorkflowId,
    one_of,
)
from perdure_engine.transport.http.rest.operations import Query

WAIT_S_MAX = limits.POLL_TIMEOUT_MS_MAX // 1000

WorkflowStatus = Annotated[str, one_of(Status)]
StageReached = Annotated[str, one_of(UpdateStage)]
Args = Annotated[list[Json], Meta(description="The arguments, in their order.")]
RunId = Annotated[str, Meta(description="The newest run of the workflow id without it.")]
Wait = Annotated[
    float,
    Meta(gt=0, le=WAIT_S_MAX, description="Seconds after which it is answered as it is."),
]


class WorkflowSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is started, whoever starts it. Timeouts that are absent are none, but that of a workflow task: 10 s."""

    workflow_type: Name
    task_queue: Name
    args: Args = []
    execution_timeout: Duration | None = None
    run_timeout: Duration | None = None
    task_timeout: Annotated[float, Meta(gt=0, le=limits.TASK_TIMEOUT_MS_MAX // 1000)] | None = None
    retry: Annotated[
        Retry | None, Meta(description="Without it a run that fails is not tried again.")
    ] = None
    priority: Priority = 3
    memo: dict[str, Json] = {}
    search_attributes: dict[str, SearchAttribute] = {}
    static_summary: Annotated[str, Meta(max_length=1_000)] = ""
    static_details: Annotated[str, Meta(max_length=20_000)] = ""
    identity: Label = ""


class StartWorkflow(WorkflowSettings, kw_only=True):
    workflow_id: WorkflowId
    id_reuse_policy: Literal[
        "ALLOW_DUPLICATE", "ALLOW_DUPLICATE_FAILED_ONLY", "REJECT_DUPLICATE"
    ] = "ALLOW_DUPLICATE"
    id_conflict_policy: Literal["FAIL", "USE_EXISTING", "TERMINATE_EXISTING"] = "FAIL"
    start_delay: Duration | None = None
    cron_schedule: Annotated[str, Meta(max_length=limits.CRON_BYTES_MAX)] = ""


class WorkflowStarted(msgspec.Struct, kw_only=True):
    workflow_id: str
    run_id: Uuid
    started: Annotated[
        bool, Meta(description="False: a run that was there is meant, or the call was a repeat.")
    ]


class Signal(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    args: Args = []
    run_id: RunId = ""
    identity: Label = ""


class WorkflowQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    args: Args = []
    run_id: RunId = ""
    reject_condition: Literal["NEVER", "NOT_OPEN", "NOT_COMPLETED_CLEANLY"] = "NEVER"


class QueryResult(msgspec.Struct, kw_only=True):
    result: Value


class Update(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    args: Args = []
    run_id: RunId = ""
    update_id: Annotated[
        str,
        Meta(
            max_length=limits.NAME_BYTES_MAX,
            description="All calls with one update id are one update. The Idempotency-Key without it, or a new one.",
        ),
    ] = ""
    wait_stage: Literal["ADMITTED", "ACCEPTED", "COMPLETED"] = "COMPLETED"
    timeout: Wait = WAIT_S_MAX
    identity: Label = ""


class UpdateState(msgspec.Struct, kw_only=True):
    """How far it has come; at COMPLETED with its result or its failure."""

    update_id: str
    run_id: Uuid
    stage: StageReached
    result: Value | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET


class Ending(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Of a cancellation or a termination."""

    run_id: RunId = ""
    reason: Reason = ""
    identity: Label = ""


class WorkflowInfo(msgspec.Struct, kw_only=True):
    workflow_id: str
    run_id: Uuid
    workflow_type: str
    task_queue: str
    status: WorkflowStatus
    start_time: Instant
    close_time: Instant | UnsetType = UNSET
    history_events: int
    history_size_bytes: int
    memo: dict[str, Value] = {}
    search_attributes: dict[str, SearchAttribute] = {}
    stuck_reason: (
        Annotated[str, Meta(description="Why its workflow task fails again and again.")] | UnsetType
    ) = UNSET
    archived: Archived


class WorkflowList(msgspec.Struct, kw_only=True):
    workflows: list[WorkflowInfo]
    next_page_token: NextPageToken | UnsetType = UNSET


Crashes = Annotated[
    int,
    Meta(
        description="How many workers in a row have died with it in hand; from 3 on it is poisoned."
    ),
]


class PendingActivity(msgspec.Struct, kw_only=True):
    activity_id: str
    activity_type: str
    task_queue: str
    state: Annotated[str, Meta(examples=["SCHEDULED", "STARTED", "BACKING_OFF"])]
    attempt: int
    maximum_attempts: int
    scheduled_time: Instant | UnsetType = UNSET
    started_time: Instant | UnsetType = UNSET
    next_attempt_time: Instant | UnsetType = UNSET
    worker_identity: str
    paused: bool
    heartbeat_details: list[Value] = []
    last_failure: Failure | UnsetType = UNSET
    crashes: Crashes | UnsetType = UNSET
    first_crash_time: Instant | UnsetType = UNSET
    last_crash: Failure | UnsetType = UNSET


class PendingTimer(msgspec.Struct, kw_only=True):
    timer_id: str
    fire_time: Instant


class PendingChild(msgspec.Struct, kw_only=True):
    workflow_id: str
    run_id: Uuid | UnsetType = UNSET
    workflow_type: str
    parent_close_policy: Annotated[str, one_of(ParentClosePolicy)]


class PendingWorkflowTask(msgspec.Struct, kw_only=True):
    attempt: int
    scheduled_time: Instant | UnsetType = UNSET
    started_time: Instant | UnsetType = UNSET
    next_attempt_time: Instant | UnsetType = UNSET
    worker_identity: str
    last_failure: Failure | UnsetType = UNSET
    crashes: Crashes | UnsetType = UNSET
    first_crash_time: Instant | UnsetType = UNSET
    last_crash: Failure | UnsetType = UNSET


class Relative(msgspec.Struct, kw_only=True):
    """Another run."""

    workflow_id: str
    run_id: Uuid | UnsetType = UNSET


class WorkflowDescription(msgspec.Struct, kw_only=True):
    """What a run is doing now."""

    info: WorkflowInfo
    attempt: int
    execution_timeout: float | UnsetType = UNSET
    run_timeout: float | UnsetType = UNSET
    task_timeout: float
    cron_schedule: str | UnsetType = UNSET
    static_summary: Value | UnsetType = UNSET
    static_details: Value | UnsetType = UNSET
    cancel_requested: bool
    buffered_events: int
    first_task_time: (
        Annotated[Instant, Meta(description="Of a run that waits for its time: when it begins.")]
        | UnsetType
    ) = UNSET
    execution_deadline: Instant | UnsetType = UNSET
    first_run_id: Uuid | UnsetType = UNSET
    continued_from_run_id: Uuid | UnsetType = UNSET
    next_run_id: Uuid | UnsetType = UNSET
    parent: Relative | UnsetType = UNSET
    pause_time: Instant | UnsetType = UNSET
    pause_reason: str | UnsetType = UNSET
    suspended: Annotated[
        bool,
        Meta(
            description="The engine has paused it: something of it has crashed its workers for 24 hours."
        ),
    ] = False
    pending_workflow_task: PendingWorkflowTask | UnsetType = UNSET
    pending_activities: list[PendingActivity]
    pending_timers: list[PendingTimer]
    pending_children: list[PendingChild]


class Event(msgspec.Struct, kw_only=True):
    event_id: int
    event_time: Instant
    event_type: str
    attributes: Annotated[
        dict[str, Any],
        Meta(
            description="Those of the type, as proto/perdure_api/v1/event.proto names them: `_ms` are "
            "milliseconds, `_us` microseconds since the epoch."
        ),
    ]


class History(msgspec.Struct, kw_only=True):
    events: list[Event]
    next_page_token: NextPageToken | UnsetType = UNSET


class WorkflowResult(msgspec.Struct, kw_only=True):
    """`status` RUNNING: it is still open. Else its result if it has completed, and its failure if it has not."""

    status: WorkflowStatus
    run_id: Uuid | UnsetType = UNSET
    result: Value | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET
    next_run_id: (
        Annotated[str, Meta(description="Of the run that goes on in its place.")] | UnsetType
    ) = UNSET


class ListQuery(Query, kw_only=True):
    query: Annotated[
        str,
        Meta(
            max_length=limits.QUERY_BYTES_MAX,
            description="A filter: WorkflowType = 'Order' AND StartTime > '2h' ORDER BY CloseTime DESC.",
        ),
    ] = ""
    archived: ArchivedInstead = False
    limit: Limit = 0
    page_token: PageToken = ""


class RunQuery(Query, kw_only=True):
    run_id: RunId = ""


class HistoryQuery(RunQuery, kw_only=True):
    limit: Limit = 0
    page_token: PageToken = ""
    wait: Annotated[
        bool, Meta(description="At the end of an open run wait for the next events, at most 60 s.")
    ] = False


class ResultQuery(RunQuery, kw_only=True):
    timeout: Wait = WAIT_S_MAX
