"""What an intent is answered with, once it is saved. Intents not named here are answered with None."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure_engine.core.events import ClosingEvent
from perdure_engine.core.explain import Explanation
from perdure_engine.core.failures import Failure
from perdure_engine.core.intents import UpdateStage
from perdure_engine.core.messages import Message
from perdure_engine.core.parents import Parent, ParentClosePolicy
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import ActivityOptions
from perdure_engine.core.versions import Versioning


class Started(msgspec.Struct, frozen=True, gc=False):
    run_id: bytes
    started: bool  # False: an existing run was used, or this request had been answered before


class Closed(msgspec.Struct, frozen=True, gc=False):
    run_id: bytes
    status: Status
    event: ClosingEvent


class QueryAnswer(msgspec.Struct, frozen=True, gc=False):
    result: bytes
    failure: Failure | None


class EventsReady(msgspec.Struct, frozen=True, gc=False):
    run_id: bytes
    last_event_id: int
    closed: bool


class PendingActivity(msgspec.Struct, frozen=True, gc=False):
    activity_id: str
    activity_type: str
    task_queue: str
    state: str  # "SCHEDULED", "STARTED", "BACKING_OFF", "CANCEL_REQUESTED"
    attempt: int
    maximum_attempts: int
    scheduled_us: int
    started_us: int
    next_attempt_us: int
    worker_identity: str
    last_failure: Failure | None
    progress: bytes
    paused: bool = False
    pause_us: int = 0
    pause_identity: str = ""
    pause_reason: str = ""
    options: ActivityOptions | None = None  # that an operator has given it
    crashes: int = 0  # workers in a row that died with it in hand
    first_crash_us: int = 0  # 0: none
    last_crash: Failure | None = None


class PendingTimer(msgspec.Struct, frozen=True, gc=False):
    timer_id: str
    fire_us: int


class PendingChild(msgspec.Struct, frozen=True, gc=False):
    workflow_id: str
    run_id: bytes  # b"": not started yet
    workflow_type: str
    initiated_event_id: int
    parent_close_policy: ParentClosePolicy


class PendingWorkflowTask(msgspec.Struct, frozen=True, gc=False):
    attempt: int
    scheduled_us: int
    started_us: int
    worker_identity: str
    last_failure: Failure | None
    crashes: int = 0  # as of an activity
    first_crash_us: int = 0
    last_crash: Failure | None = None
    next_attempt_us: int = 0  # 0: it is ready, or out


class RunInfo(msgspec.Struct, frozen=True, gc=False):
    """What describe and lists say of a run."""

    workflow_id: str
    run_id: bytes
    workflow_type: str
    task_queue: str
    status: Status
    start_us: int
    close_us: int  # 0: open
    history_events: int
    history_bytes: int
    memo: bytes
    stuck: bool = False
    stuck_reason: str = ""
    search_attributes: Attributes = ()
    versioning: Versioning | None = None


class Description(msgspec.Struct, frozen=True, gc=False):
    info: RunInfo
    execution_timeout_ms: int
    run_timeout_ms: int
    task_timeout_ms: int
    activities: list[PendingActivity]
    timers: list[PendingTimer]
    workflow_task: PendingWorkflowTask | None
    cancel_requested: bool
    buffered_events: int
    first_run_id: bytes = b""
    attempt: int = 1
    continued_from_run_id: bytes = b""
    next_run_id: bytes = b""
    cron_schedule: str = ""
    first_task_us: int = 0  # a run that waits for its time: when its code begins
    execution_deadline_us: int = 0
    children: Sequence[PendingChild] = ()
    parent: Parent | None = None
    root_workflow_id: str = ""
    root_run_id: bytes = b""
    pause_us: int = 0  # 0: not paused
    pause_identity: str = ""
    pause_reason: str = ""
    suspended: bool = False  # the engine has paused it
    original_run_id: bytes = b""  # of a run that began with a reset, as the next one
    reset_from_run_id: bytes = b""
    reset_run_id: bytes = b""  # of a run that a reset ended: the one that began
    versioning_override: Versioning | None = None
    static_summary: bytes = b""
    static_details: bytes = b""


class UpdateStatus(msgspec.Struct, frozen=True, gc=False):
    """How far an update has come; at COMPLETED its outcome, a failure or else the result."""

    run_id: bytes
    update_id: str
    stage: UpdateStage
    result: bytes = b""
    failure: Failure | None = None
    started: bool = False  # of an update-with-start: the run began with it


class ActivityHeard(msgspec.Struct, frozen=True, gc=False):
    """To a heartbeat of one attempt: it is saved, and this is what the attempt should know."""

    cancel_requested: bool
    paused: bool
    reset: bool


class WentAhead(msgspec.Struct, frozen=True, gc=False):
    """To an activity's result: the workflow task that came with it counts."""


class RunStatus(msgspec.Struct, frozen=True, gc=False):
    """To a schedule that asks for the run of one of its slots."""

    status: Status


Reply = (
    Started
    | RunStatus
    | Closed
    | QueryAnswer
    | EventsReady
    | Description
    | Explanation
    | UpdateStatus
    | ActivityHeard
    | WentAhead
    | Message
    | None
)
