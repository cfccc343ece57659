"""One of everything that is kept at rest, with all fields set to what is not their default."""

from __future__ import annotations

import msgspec

from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.core.fan_out import Counting, FanOut, WakeRule
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.jobs.model import (
    Concurrency,
    ConcurrencyPolicy,
    JobFailure,
    JobSpec,
    JobState,
    Unique,
    UniqueScope,
)
from perdure_engine.core.parents import Parent, ParentClosePolicy
from perdure_engine.core.poison import Crashes
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    CatchUpPolicy,
    GapPolicy,
    IntervalSpec,
    JobAction,
    OverlapPolicy,
    RepeatPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
)
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.state import Activity, Child, Folded, Head, Timer, Update
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import (
    ActivityOptions,
    Aside,
    Pause,
    TaskKind,
    TaskPayload,
    TimerKind,
)
from perdure_engine.core.tokens import QueryToken, TaskToken
from perdure_engine.core.transitions import (
    ActivityPhase,
    ChildPhase,
    TimerPhase,
    WorkflowTaskPhase,
)
from perdure_engine.core.versions import Behavior, Versioning

TIME_US = 1_800_000_000_123_456
NAMESPACE = bytes(range(16))
RUN = bytes(range(16, 32))
REQUEST = bytes(range(32, 48))
HASH = bytes(range(48, 80))

FAILURE = Failure(
    FailureKind.ACTIVITY,
    "activity error",
    stack_trace="at line 7",
    source="Perdure-Python",
    cause=Failure(FailureKind.TIMEOUT, "too late", timeout_type=TimeoutType.HEARTBEAT),
    type="charge",
    non_retryable=True,
    details=b"details",
    next_retry_delay_ms=1_500,
    category="benign",
    timeout_type=TimeoutType.START_TO_CLOSE,
    scheduled_event_id=5,
    started_event_id=6,
    identity="worker-1@host",
    activity_id="a-1",
    retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
)
CRASHES = Crashes(
    3,
    TIME_US - 2,
    (bytes(range(80, 96)), bytes(range(96, 112))),
    Failure(FailureKind.WORKER_LOST, "killed by signal 11", "its stacks", identity="worker-1@host"),
    REQUEST,
    (7 << 24) + 5,
)
POLICY = RetryPolicy(2_000, 1.5, 60_000, 7, ("ValueError", "KeyError"))

ATTRIBUTES = (
    SearchAttribute("Region", AttributeType.KEYWORD, "eu"),
    SearchAttribute("Title", AttributeType.TEXT, "Big order"),
    SearchAttribute("Amount", AttributeType.INT, 2**62),
    SearchAttribute("Rate", AttributeType.DOUBLE, 2.0),
    SearchAttribute("Paid", AttributeType.BOOL, True),
    SearchAttribute("Due", AttributeType.DATETIME, TIME_US),
    SearchAttribute("Tags", AttributeType.KEYWORD_LIST, ("a", "b")),
    SearchAttribute("Gone", AttributeType.KEYWORD, None),
)
STARTED = ev.WorkflowExecutionStarted(
    1,
    TIME_US,
    namespace_id=NAMESPACE,
    workflow_id="order-17 ✓",
    run_id=RUN,
    first_run_id=RUN,
    workflow_type="Order",
    task_queue="orders",
    input=b"input",
    header=b"header",
    memo=b"memo",
    execution_timeout_ms=3_600_000,
    run_timeout_ms=1_800_000,
    task_timeout_ms=10_000,
    retry_policy=POLICY,
    attempt=2,
    identity="client-1@host",
    request_id=REQUEST,
    body_hash=HASH,
    start_delay_ms=5_000,
    priority=4,
    static_summary=b"summary",
    static_details=b"static details",
    continued_from_run_id=REQUEST,
    initiator=ev.Initiator.RETRY,
    last_failure=FAILURE,
    last_completion_result=b"last result",
    cron_schedule="0 * * * *",
    execution_deadline_us=TIME_US + 3_600_000_000,
    first_task_backoff_ms=2_000,
    request_ids=((REQUEST, HASH, TIME_US - 1),),
    search_attributes=ATTRIBUTES,
    parent=Parent("parent-1", REQUEST, 5, "root-1", HASH[:16]),
    original_run_id=REQUEST,
    reset_from_run_id=RUN,
    versioning_override=Versioning(Behavior.PINNED, "orders", "build-2"),
    inherited_version=Versioning(Behavior.PINNED, "orders", "build-1"),
    lineage=((20, RUN),),
)
SCHEDULED = ev.ActivityTaskScheduled(
    5,
    TIME_US,
    activity_id="a-1",
    activity_type="charge",
    task_queue="cards",
    input=b"input",
    header=b"header",
    schedule_to_close_timeout_ms=600_000,
    schedule_to_start_timeout_ms=60_000,
    start_to_close_timeout_ms=30_000,
    heartbeat_timeout_ms=5_000,
    workflow_task_completed_event_id=4,
    retry_policy=POLICY,
    priority=2,
    summary=b"summary",
    version=3,
)
TERMINATED = ev.WorkflowExecutionTerminated(9, TIME_US, "stop", b"why", "cli@host", REQUEST, HASH)
PAUSED = ev.WorkflowExecutionPaused(
    5, TIME_US, "provider is down", "cli@host", REQUEST, HASH, True, 3_000_001, 4_000_002
)

CANCEL_INITIATED = out.RequestCancelExternalWorkflowExecutionInitiated(
    6, TIME_US, "order-18", RUN, True, "unwanted", 4
)
SIGNAL_INITIATED = out.SignalExternalWorkflowExecutionInitiated(
    6, TIME_US, "order-18", RUN, "paid", b"input", b"header", True, 4
)
CHILD_INITIATED = out.StartChildWorkflowExecutionInitiated(
    5,
    TIME_US,
    workflow_id="child-1",
    workflow_type="Ship",
    task_queue="ships",
    input=b"input",
    header=b"header",
    execution_timeout_ms=3_600_000,
    run_timeout_ms=1_800_000,
    task_timeout_ms=10_000,
    retry_policy=POLICY,
    parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
    id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
    cron_schedule="0 * * * *",
    memo=b"memo",
    search_attributes=ATTRIBUTES,
    priority=2,
    static_summary=b"summary",
    static_details=b"static details",
    workflow_task_completed_event_id=4,
)

EVENTS: list[ev.Event] = [
    STARTED,
    ev.WorkflowExecutionCompleted(9, TIME_US, b"result", 8, RUN),
    ev.WorkflowExecutionFailed(9, TIME_US, FAILURE, RetryState.RETRY_POLICY_NOT_SET, 8, RUN),
    ev.WorkflowExecutionTimedOut(9, TIME_US, RetryState.TIMEOUT, RUN),
    ev.WorkflowTaskScheduled(2, TIME_US, "orders", 10_000, 3),
    ev.WorkflowTaskStarted(3, TIME_US, 2, "worker-1@host", 65_537, True),
    ev.WorkflowTaskCompleted(
        4,
        TIME_US,
        2,
        3,
        "worker-1@host",
        "build-1",
        (WakeRule(["1", "2"], 3, 2, 1),),
        "orders",
        Behavior.AUTO_UPGRADE,
    ),
    ev.WorkflowTaskTimedOut(4, TIME_US, 2, 3, TimeoutType.START_TO_CLOSE),
    ev.WorkflowTaskFailed(
        4,
        TIME_US,
        2,
        3,
        ev.WorkflowTaskFailedCause.RESET_WORKFLOW,
        FAILURE,
        "worker-1@host",
        REQUEST,
        RUN,
        3,
    ),
    SCHEDULED,
    ev.ActivityTaskStarted(6, TIME_US, 5, "worker-1@host", 3, FAILURE),
    ev.ActivityTaskCompleted(7, TIME_US, b"result", 5, 6, "worker-1@host"),
    ev.ActivityTaskFailed(
        7, TIME_US, FAILURE, 5, 6, "worker-1@host", RetryState.NON_RETRYABLE_FAILURE
    ),
    ev.ActivityTaskTimedOut(7, TIME_US, FAILURE, 5, 6, RetryState.TIMEOUT),
    ev.ActivityTaskCancelRequested(7, TIME_US, 5, 4),
    ev.ActivityTaskCanceled(8, TIME_US, b"details", 7, 5, 6, "worker-1@host"),
    ev.TimerStarted(5, TIME_US, "t-1", 60_000, 4, b"summary"),
    ev.TimerFired(6, TIME_US, "t-1", 5),
    ev.TimerCanceled(6, TIME_US, "t-1", 5, 4, "worker-1@host"),
    ev.WorkflowExecutionCancelRequested(5, TIME_US, "unwanted", "cli@host", REQUEST, HASH),
    ev.WorkflowExecutionCanceled(9, TIME_US, b"details", 8),
    ev.WorkflowExecutionSignaled(5, TIME_US, "paid", b"input", "cli@host", b"h", REQUEST, HASH),
    msgspec.structs.replace(TERMINATED, reset_run_id=RUN),
    ev.WorkflowExecutionContinuedAsNew(
        9,
        TIME_US,
        RUN,
        "Order",
        "orders",
        b"input",
        b"header",
        b"memo",
        1_800_000,
        10_000,
        8,
        ev.Initiator.WORKFLOW,
    ),
    ev.WorkflowExecutionUpdateAccepted(
        5, TIME_US, "u-1", "set address", b"input", b"h", "cli@host", HASH, 4
    ),
    ev.WorkflowExecutionUpdateCompleted(6, TIME_US, "u-1", 5, b"result", FAILURE, 4),
    ev.WorkflowExecutionUpdateAdmitted(
        7, TIME_US, "u-1", "set address", b"input", b"h", "cli@host", HASH
    ),
    ev.MarkerRecorded(5, TIME_US, "patch", b"details", 4, b"header", FAILURE),
    ev.WorkflowPropertiesModified(5, TIME_US, 4, b"memo"),
    ev.UpsertWorkflowSearchAttributes(5, TIME_US, ATTRIBUTES, 4),
    CANCEL_INITIATED,
    out.RequestCancelExternalWorkflowExecutionFailed(
        7, TIME_US, 6, "order-18", RUN, out.ExternalFailedCause.NOT_FOUND
    ),
    out.ExternalWorkflowExecutionCancelRequested(7, TIME_US, 6, "order-18", RUN),
    CHILD_INITIATED,
    out.StartChildWorkflowExecutionFailed(
        6, TIME_US, 5, "child-1", "Ship", out.StartChildFailedCause.ALREADY_EXISTS
    ),
    out.ChildWorkflowExecutionStarted(6, TIME_US, 5, "child-1", RUN, "Ship"),
    out.ChildWorkflowExecutionCompleted(7, TIME_US, 5, 6, "child-1", RUN, "Ship", b"result"),
    out.ChildWorkflowExecutionFailed(
        7, TIME_US, 5, 6, "child-1", RUN, "Ship", FAILURE, RetryState.NON_RETRYABLE_FAILURE
    ),
    out.ChildWorkflowExecutionCanceled(7, TIME_US, 5, 6, "child-1", RUN, "Ship", b"details"),
    out.ChildWorkflowExecutionTimedOut(
        7, TIME_US, 5, 6, "child-1", RUN, "Ship", RetryState.TIMEOUT
    ),
    out.ChildWorkflowExecutionTerminated(7, TIME_US, 5, 6, "child-1", RUN, "Ship"),
    SIGNAL_INITIATED,
    out.SignalExternalWorkflowExecutionFailed(
        7, TIME_US, 6, "order-18", RUN, out.ExternalFailedCause.LIMIT
    ),
    out.ExternalWorkflowExecutionSignaled(7, TIME_US, 6, "order-18", RUN),
    PAUSED,
    ev.WorkflowExecutionUnpaused(6, TIME_US, "repaired", "cli@host", REQUEST, HASH),
    ev.WorkflowExecutionOptionsUpdated(
        9, TIME_US, Versioning(Behavior.PINNED, "orders", "build-2"), "operator@host", REQUEST, HASH
    ),
]

HEAD = Head(
    [(0, 77, 1 << 24 | 5), (5, 78, 1 << 24 | 6)],
    [(TimerKind.USER, 6, TIME_US, 1 << 24 | 7, TIME_US - 1)],
    inbox_seq=3,
    history_bytes=1_234,
    snapshot_event_id=64,
    sticky_worker_id=RUN,
    inbox_numbered=2,
    admitted=[1, 3],
)
TASK = TaskPayload(
    TaskKind.ACTIVITY,
    NAMESPACE,
    "cards",
    5,
    worker_id=RUN,
    identity="worker-1@host",
    started_us=TIME_US,
    last_failure=FAILURE,
    progress=b"progress",
    progress_version=4,
    ready_us=TIME_US - 1,
    next_attempt_us=TIME_US + 1,
    aside=Aside(
        Pause(TIME_US, "operator@host", "provider is down"),
        ActivityOptions(
            "cards-2", 60_000, 10_000, 5_000, 2_000, RetryPolicy(500, 1.5, 9_000, 3), 2
        ),
        True,
        REQUEST,
        TIME_US + 2,
        TIME_US + 3,
        CRASHES,
    ),
    pinned="orders.build-1",
)
# What a record holds of another type is in the form that every version has read.
FIRST_OF_A_CHAIN = msgspec.structs.replace(
    STARTED,
    continued_from_run_id=b"",
    initiator=ev.Initiator.NONE,
    last_failure=None,
    last_completion_result=b"",
    cron_schedule="",
    execution_deadline_us=0,
    first_task_backoff_ms=0,
    request_ids=(),
    parent=None,
    original_run_id=b"",
    reset_from_run_id=b"",
    versioning_override=None,
    inherited_version=None,
    lineage=(),
)
FOLDED = Folded(
    FIRST_OF_A_CHAIN,
    status=Status.TERMINATED,
    next_event_id=10,
    last_time_us=TIME_US,
    closed=TERMINATED,
    cancel_requested=True,
    # as the forms before it had a version are read
    activities={
        5: Activity(
            msgspec.structs.replace(SCHEDULED, version=0),
            ActivityPhase.CANCEL_REQUESTED,
            7,
        )
    },
    timers={"t-1": Timer(6, "t-1", TIME_US, TimerPhase.PENDING)},
    workflow_task=WorkflowTaskPhase.STARTED,
    workflow_task_scheduled_id=8,
    workflow_task_started_id=9,
    previous_started_id=3,
    signals=2,
    request_ids={REQUEST: HASH},
    fan_out=FanOut([Counting(2, 3, 2, 1)], {"1": 0, "2": 0}, is_met=True),
    request_marks=[(1, TIME_US)],
    updates={"u-1": Update(5, HASH, 6)},
    updates_running=1,
    memo=b"changed memo",
    search_attributes=ATTRIBUTES,
    children={5: Child(CHILD_INITIATED, ChildPhase.STARTED, RUN, 6)},
    externals={6: SIGNAL_INITIATED, 7: msgspec.structs.replace(CANCEL_INITIATED, event_id=7)},
    paused=PAUSED,
    versioning=Versioning(Behavior.AUTO_UPGRADE, "orders", "build-1"),
    versioning_override=Versioning(Behavior.PINNED, "orders", "build-2"),
)
TASK_TOKEN = TaskToken(3, NAMESPACE, RUN, TaskKind.WORKFLOW, 2, 4, 99, TIME_US, TIME_US + 1, 3, 7)
QUERY_TOKEN = QueryToken(3, RUN, 8)
JOB_SPEC = JobSpec(
    input=b"input",
    header=b"header",
    retry=RetryPolicy(500, 1.5, 9_000, 5, ("Fatal",)),
    timeout_ms=60_000,
    heartbeat_timeout_ms=2_000,
    idempotency_key="order-17",
    body_hash=HASH,
    unique=Unique("report", UniqueScope.PERIOD, 3_600_000),
    concurrency=Concurrency("tenant-1", 4, ConcurrencyPolicy.CANCEL_RUNNING, 2.5),
    expire_us=TIME_US + 9,
    nominal_us=TIME_US,
    identity="client@host",
)
JOB_STATE = JobState(
    due_us=TIME_US,
    ready_us=TIME_US + 1,
    started_us=TIME_US + 2,
    worker_id=RUN,
    worker_identity="worker-1@host",
    failures=(JobFailure(1, TIME_US, "worker-1@host", FAILURE),),
    progress=b"progress",
    progress_version=4,
    cancel_us=TIME_US + 3,
    reason="operator",
    timer=(TIME_US, 1 << 24 | 7),
    expiry=(TIME_US + 4, 1 << 24 | 8),
    request_id=REQUEST,
    key_place=True,
    request_body=HASH,
    crashes=CRASHES,
)
SCHEDULE = Schedule(
    ScheduleSpec(
        cron=("0 10 * * *",),
        intervals=(IntervalSpec(60_000, 5_000),),
        calendars=(
            CalendarSpec(
                second=(CalendarRange(1, 3, 2),),
                minute=(CalendarRange(2, 4, 2),),
                hour=(CalendarRange(3, 5, 2),),
                day_of_month=(CalendarRange(4, 6, 2),),
                month=(CalendarRange(5, 7, 2),),
                day_of_week=(CalendarRange(6, 8, 2),),
                year=(CalendarRange(2027, 2029, 2),),
                comment="odd",
            ),
        ),
        dates_us=(TIME_US,),
        exclude=(CalendarSpec(day_of_month=(CalendarRange(25),)),),
        start_us=TIME_US,
        end_us=TIME_US + 10,
        jitter_ms=500,
        timezone="Europe/Berlin",
        seconds_first=True,
        gap=GapPolicy.SKIP,
        repeat=RepeatPolicy.BOTH,
        tzdata_version="2026a",
    ),
    JobAction("send_email", "mail", JOB_SPEC, 2, "anna"),
    SchedulePolicies(OverlapPolicy.BUFFER_ALL, 60_000, CatchUpPolicy.LAST, 5, True),
    paused=True,
    note="holidays",
    remaining_actions=3,
)

RECORDS = [HEAD, TASK, FOLDED, TASK_TOKEN, QUERY_TOKEN, JOB_SPEC, JOB_STATE, SCHEDULE]
