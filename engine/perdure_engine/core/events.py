"""The history of a run: what happened, in the past tense. Names, order and numbers are Temporal's.

At rest an event is a msgpack array [type number, event_id, time_us, …]. Fields are only ever appended, with a
default, and never change their meaning: two versions of the engine share a database during an upgrade, and
tests/unit/core/test_event_bytes.py keeps the golden bytes of every one.
`*_ms` 0 means "not set". `input`, `result`, `details` are encoded Payloads that the engine never reads.
"""

from __future__ import annotations

import enum

from perdure_engine.core.event_base import EventBase
from perdure_engine.core.failures import Failure, RetryState, TimeoutType
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.lineage import Lineage
from perdure_engine.core.outside_events import HeardEvent, OutsideEvent
from perdure_engine.core.parents import Parent
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.versions import Behavior, Versioning


class EventType(enum.IntEnum):
    WORKFLOW_EXECUTION_STARTED = 1
    WORKFLOW_EXECUTION_COMPLETED = 2
    WORKFLOW_EXECUTION_FAILED = 3
    WORKFLOW_EXECUTION_TIMED_OUT = 4
    WORKFLOW_TASK_SCHEDULED = 5
    WORKFLOW_TASK_STARTED = 6
    WORKFLOW_TASK_COMPLETED = 7
    WORKFLOW_TASK_TIMED_OUT = 8
    WORKFLOW_TASK_FAILED = 9
    ACTIVITY_TASK_SCHEDULED = 10
    ACTIVITY_TASK_STARTED = 11
    ACTIVITY_TASK_COMPLETED = 12
    ACTIVITY_TASK_FAILED = 13
    ACTIVITY_TASK_TIMED_OUT = 14
    ACTIVITY_TASK_CANCEL_REQUESTED = 15
    ACTIVITY_TASK_CANCELED = 16
    TIMER_STARTED = 17
    TIMER_FIRED = 18
    TIMER_CANCELED = 19
    WORKFLOW_EXECUTION_CANCEL_REQUESTED = 20
    WORKFLOW_EXECUTION_CANCELED = 21
    WORKFLOW_EXECUTION_SIGNALED = 26
    WORKFLOW_EXECUTION_TERMINATED = 27
    WORKFLOW_EXECUTION_CONTINUED_AS_NEW = 28
    WORKFLOW_EXECUTION_UPDATE_ACCEPTED = 41
    WORKFLOW_EXECUTION_UPDATE_COMPLETED = 43
    WORKFLOW_EXECUTION_UPDATE_ADMITTED = 47
    MARKER_RECORDED = 25
    WORKFLOW_PROPERTIES_MODIFIED = 46
    UPSERT_WORKFLOW_SEARCH_ATTRIBUTES = 40
    REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED = 22
    REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED = 23
    EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED = 24
    START_CHILD_WORKFLOW_EXECUTION_INITIATED = 29
    START_CHILD_WORKFLOW_EXECUTION_FAILED = 30
    CHILD_WORKFLOW_EXECUTION_STARTED = 31
    CHILD_WORKFLOW_EXECUTION_COMPLETED = 32
    CHILD_WORKFLOW_EXECUTION_FAILED = 33
    CHILD_WORKFLOW_EXECUTION_CANCELED = 34
    CHILD_WORKFLOW_EXECUTION_TIMED_OUT = 35
    CHILD_WORKFLOW_EXECUTION_TERMINATED = 36
    SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED = 37
    SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED = 38
    EXTERNAL_WORKFLOW_EXECUTION_SIGNALED = 39
    WORKFLOW_EXECUTION_PAUSED = 58
    WORKFLOW_EXECUTION_UNPAUSED = 59
    WORKFLOW_EXECUTION_OPTIONS_UPDATED = 54


class WorkflowTaskFailedCause(enum.IntEnum):
    UNSPECIFIED = 0
    UNHANDLED_COMMAND = 1
    BAD_COMMAND = 2
    NON_DETERMINISM = 3
    WORKER_FAILURE = 4
    UNKNOWN_WORKFLOW_TYPE = 5
    PAYLOAD_DECODE = 6
    DEADLOCK = 7
    BAD_UPDATE = 8
    RESET_WORKFLOW = 9
    PENDING_CHILD_WORKFLOWS_LIMIT_EXCEEDED = 12
    PENDING_SIGNALS_LIMIT_EXCEEDED = 13
    PENDING_REQUEST_CANCEL_LIMIT_EXCEEDED = 14


class Initiator(enum.IntEnum):
    """Why a run follows another one. The numbers are Temporal's."""

    NONE = 0
    WORKFLOW = 1
    RETRY = 2
    CRON_SCHEDULE = 3


class WorkflowExecutionStarted(EventBase, frozen=True, array_like=True, tag=1):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    first_run_id: bytes
    workflow_type: str
    task_queue: str
    input: bytes
    header: bytes
    memo: bytes
    execution_timeout_ms: int
    run_timeout_ms: int
    task_timeout_ms: int
    retry_policy: RetryPolicy | None
    attempt: int
    identity: str
    request_id: bytes
    body_hash: bytes
    start_delay_ms: int
    priority: int
    static_summary: bytes
    static_details: bytes
    continued_from_run_id: bytes = b""
    initiator: Initiator = Initiator.NONE
    last_failure: Failure | None = None  # of the run before, when that is why this one began
    last_completion_result: bytes = b""  # of the last run of a cron chain that completed
    cron_schedule: str = ""
    execution_deadline_us: int = 0  # of the whole chain; 0: none
    first_task_backoff_ms: int = 0  # the first workflow task comes so long after the start
    # Known to the runs before, with a time that they came before: (id, body hash, µs), oldest first.
    request_ids: tuple[tuple[bytes, bytes, int], ...] = ()
    search_attributes: Attributes = ()
    parent: Parent | None = None
    original_run_id: bytes = b""  # whose start this was at first; b"": this run's own
    reset_from_run_id: bytes = b""  # whose history this run's begins with
    versioning_override: Versioning | None = None  # whatever the code says
    inherited_version: Versioning | None = None  # of the run before, which was pinned
    lineage: Lineage = ()  # of a run that began with a reset: who wrote what it has taken over


class WorkflowExecutionCompleted(EventBase, frozen=True, array_like=True, tag=2):
    result: bytes
    workflow_task_completed_event_id: int
    new_run_id: bytes = b""  # the run that follows


class WorkflowExecutionFailed(EventBase, frozen=True, array_like=True, tag=3):
    failure: Failure
    retry_state: RetryState
    workflow_task_completed_event_id: int
    new_run_id: bytes = b""


class WorkflowExecutionTimedOut(EventBase, frozen=True, array_like=True, tag=4):
    retry_state: RetryState
    new_run_id: bytes = b""


class WorkflowTaskScheduled(EventBase, frozen=True, array_like=True, tag=5):
    task_queue: str
    task_timeout_ms: int
    attempt: int


class WorkflowTaskStarted(EventBase, frozen=True, array_like=True, tag=6):
    scheduled_event_id: int
    identity: str
    history_bytes: int
    suggest_continue_as_new: bool


class WorkflowTaskCompleted(EventBase, frozen=True, array_like=True, tag=7):
    scheduled_event_id: int
    started_event_id: int
    identity: str
    build_id: str
    wake_rules: tuple[WakeRule, ...] = ()
    deployment_name: str = ""  # "": the worker is of no version
    behavior: Behavior = Behavior.UNSPECIFIED


class WorkflowTaskTimedOut(EventBase, frozen=True, array_like=True, tag=8):
    scheduled_event_id: int
    started_event_id: int
    timeout_type: TimeoutType


class WorkflowTaskFailed(EventBase, frozen=True, array_like=True, tag=9):
    scheduled_event_id: int
    started_event_id: int
    cause: WorkflowTaskFailedCause
    failure: Failure | None
    identity: str
    base_run_id: bytes = b""  # RESET_WORKFLOW: what stands before this event is that run's history
    new_run_id: bytes = b""  # and the run that began here
    fork_event_id: int = 0  # the last event that both have


class ActivityTaskScheduled(EventBase, frozen=True, array_like=True, tag=10):
    activity_id: str
    activity_type: str
    task_queue: str
    input: bytes
    header: bytes
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    start_to_close_timeout_ms: int
    heartbeat_timeout_ms: int
    workflow_task_completed_event_id: int
    retry_policy: RetryPolicy
    priority: int
    summary: bytes = b""  # Payload
    version: int = 0  # of the activity; 0: the first


class ActivityTaskStarted(EventBase, frozen=True, array_like=True, tag=11):
    scheduled_event_id: int
    identity: str
    attempt: int
    last_failure: Failure | None


class ActivityTaskCompleted(EventBase, frozen=True, array_like=True, tag=12):
    result: bytes
    scheduled_event_id: int
    started_event_id: int
    identity: str


class ActivityTaskFailed(EventBase, frozen=True, array_like=True, tag=13):
    failure: Failure
    scheduled_event_id: int
    started_event_id: int
    identity: str
    retry_state: RetryState


class ActivityTaskTimedOut(EventBase, frozen=True, array_like=True, tag=14):
    failure: Failure
    scheduled_event_id: int
    started_event_id: int
    retry_state: RetryState


class ActivityTaskCancelRequested(EventBase, frozen=True, array_like=True, tag=15):
    scheduled_event_id: int
    workflow_task_completed_event_id: int


class ActivityTaskCanceled(EventBase, frozen=True, array_like=True, tag=16):
    details: bytes
    latest_cancel_requested_event_id: int
    scheduled_event_id: int
    started_event_id: int
    identity: str


class TimerStarted(EventBase, frozen=True, array_like=True, tag=17):
    timer_id: str
    start_to_fire_ms: int
    workflow_task_completed_event_id: int
    summary: bytes = b""  # Payload


class TimerFired(EventBase, frozen=True, array_like=True, tag=18):
    timer_id: str
    started_event_id: int


class TimerCanceled(EventBase, frozen=True, array_like=True, tag=19):
    timer_id: str
    started_event_id: int
    workflow_task_completed_event_id: int
    identity: str


class WorkflowExecutionCancelRequested(EventBase, frozen=True, array_like=True, tag=20):
    reason: str
    identity: str
    request_id: bytes
    body_hash: bytes


class WorkflowExecutionCanceled(EventBase, frozen=True, array_like=True, tag=21):
    details: bytes
    workflow_task_completed_event_id: int


class WorkflowExecutionSignaled(EventBase, frozen=True, array_like=True, tag=26):
    signal_name: str
    input: bytes
    identity: str
    header: bytes
    request_id: bytes
    body_hash: bytes


class WorkflowExecutionTerminated(EventBase, frozen=True, array_like=True, tag=27):
    reason: str
    details: bytes
    identity: str
    request_id: bytes
    body_hash: bytes
    reset_run_id: bytes = b""  # the run of the reset that ended this one


class WorkflowExecutionContinuedAsNew(EventBase, frozen=True, array_like=True, tag=28):
    """What the next run begins with stands in its own Started event."""

    new_run_id: bytes
    workflow_type: str
    task_queue: str
    input: bytes
    header: bytes
    memo: bytes
    run_timeout_ms: int
    task_timeout_ms: int
    workflow_task_completed_event_id: int
    initiator: Initiator


class WorkflowExecutionUpdateAccepted(EventBase, frozen=True, array_like=True, tag=41):
    """The validator let it pass. The request stands here whole: replay needs nothing else."""

    update_id: str
    update_name: str
    input: bytes
    header: bytes
    identity: str
    body_hash: bytes
    workflow_task_completed_event_id: int


class WorkflowExecutionUpdateCompleted(EventBase, frozen=True, array_like=True, tag=43):
    """`failure` None: it succeeded with `result`."""

    update_id: str
    accepted_event_id: int
    result: bytes
    failure: Failure | None
    workflow_task_completed_event_id: int


class WorkflowExecutionUpdateAdmitted(EventBase, frozen=True, array_like=True, tag=47):
    """Waits in the inbox, with event_id 0, for a worker's verdict; it gets no number of its own."""

    update_id: str
    update_name: str
    input: bytes
    header: bytes
    identity: str
    body_hash: bytes


class MarkerRecorded(EventBase, frozen=True, array_like=True, tag=25):
    """Something that only the worker knows, kept for its replays: the engine gives it no meaning."""

    marker_name: str
    details: bytes
    workflow_task_completed_event_id: int
    header: bytes
    failure: Failure | None


class WorkflowPropertiesModified(EventBase, frozen=True, array_like=True, tag=46):
    workflow_task_completed_event_id: int
    upserted_memo: bytes  # Memo; a name whose Payload is empty is taken away


class UpsertWorkflowSearchAttributes(EventBase, frozen=True, array_like=True, tag=40):
    """What was set or, without a value, taken away; not the whole."""

    search_attributes: Attributes
    workflow_task_completed_event_id: int


class WorkflowExecutionPaused(EventBase, frozen=True, array_like=True, tag=58):
    """An operator holds the run back: no task of it is handed out before it is unpaused.

    `suspended`: it was the engine, because something of the run has crashed its workers for 24 hours (`core.poison`).
    """

    reason: str
    identity: str
    request_id: bytes
    body_hash: bytes
    suspended: bool = False
    # of the timeouts, which stand still while it is suspended; 0: there is none
    run_timeout_left_us: int = 0
    execution_timeout_left_us: int = 0


class WorkflowExecutionUnpaused(EventBase, frozen=True, array_like=True, tag=59):
    reason: str
    identity: str
    request_id: bytes
    body_hash: bytes


class WorkflowExecutionOptionsUpdated(EventBase, frozen=True, array_like=True, tag=54):
    """`versioning_override` None: from now on it is what the code says."""

    versioning_override: Versioning | None
    identity: str
    request_id: bytes
    body_hash: bytes


Event = (
    WorkflowExecutionStarted
    | WorkflowExecutionCompleted
    | WorkflowExecutionFailed
    | WorkflowExecutionTimedOut
    | WorkflowTaskScheduled
    | WorkflowTaskStarted
    | WorkflowTaskCompleted
    | WorkflowTaskTimedOut
    | WorkflowTaskFailed
    | ActivityTaskScheduled
    | ActivityTaskStarted
    | ActivityTaskCompleted
    | ActivityTaskFailed
    | ActivityTaskTimedOut
    | ActivityTaskCancelRequested
    | ActivityTaskCanceled
    | TimerStarted
    | TimerFired
    | TimerCanceled
    | WorkflowExecutionCancelRequested
    | WorkflowExecutionCanceled
    | WorkflowExecutionSignaled
    | WorkflowExecutionTerminated
    | WorkflowExecutionContinuedAsNew
    | WorkflowExecutionUpdateAccepted
    | WorkflowExecutionUpdateCompleted
    | WorkflowExecutionUpdateAdmitted
    | MarkerRecorded
    | WorkflowPropertiesModified
    | UpsertWorkflowSearchAttributes
    | OutsideEvent
    | WorkflowExecutionPaused
    | WorkflowExecutionUnpaused
    | WorkflowExecutionOptionsUpdated
)

ClosingEvent = (
    WorkflowExecutionCompleted
    | WorkflowExecutionFailed
    | WorkflowExecutionTimedOut
    | WorkflowExecutionCanceled
    | WorkflowExecutionTerminated
    | WorkflowExecutionContinuedAsNew
)

BufferedEvent = (
    ActivityTaskStarted
    | ActivityTaskCompleted
    | ActivityTaskFailed
    | ActivityTaskTimedOut
    | ActivityTaskCanceled
    | TimerFired
    | WorkflowExecutionCancelRequested
    | WorkflowExecutionSignaled
    | HeardEvent
    | WorkflowExecutionOptionsUpdated
)
"""What may wait in the inbox, with event_id 0, while a workflow task is started."""

InboxEvent = BufferedEvent | WorkflowExecutionUpdateAdmitted
"""What a row of the inbox holds."""
