"""Task and timer records: one struct per row, changed in place by the shard that owns the run."""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.failures import Failure
from perdure_engine.core.poison import Crashes
from perdure_engine.core.retry import RetryPolicy


class TaskKind(enum.IntEnum):
    WORKFLOW = 1
    ACTIVITY = 2
    MESSAGE = 3  # to another run: no worker's
    JOB = 4  # paired by matching with the room that polls have for activities


WORKER_KINDS = (TaskKind.WORKFLOW, TaskKind.ACTIVITY)
"""Those that polls have room for; jobs take the room of activities."""

ROOM_OF = {
    TaskKind.WORKFLOW: TaskKind.WORKFLOW,
    TaskKind.ACTIVITY: TaskKind.ACTIVITY,
    TaskKind.JOB: TaskKind.ACTIVITY,
}
"""Which of a poll's rooms a worker's task takes."""

MESSAGE_QUEUE_NO = -1
"""In the key of `tasks`, of all messages of a shard: no queue's hash is negative, and they come first."""


class TaskState(enum.IntEnum):
    READY = 1
    STARTED = 2
    BACKOFF = 3
    ASYNC = 4  # an activity whose worker said that somebody else will report its outcome
    PAUSED = 5  # no worker gets it before it, or its run, is unpaused
    TO_SEND = 6  # a message that has no answer yet
    GONE = 9  # ports.rows.ROW_GONE


class TimerKind(enum.IntEnum):
    USER = 1  # reference: TimerStarted's event id
    RUN_TIMEOUT = 2
    EXECUTION_TIMEOUT = 3
    START_DELAY = 4
    WORKFLOW_TASK_BACKOFF = 5
    ACTIVITY_RETRY = 6  # reference: ActivityTaskScheduled's event id, as for the two below
    SCHEDULE_TO_START = 7
    SCHEDULE_TO_CLOSE = 8
    CRON_OR_RETRY_BACKOFF = 9  # before the first workflow task of a run that follows another one
    ASYNC_TIMEOUT = 10  # start-to-close and heartbeat timeout of an attempt that no lease watches
    SUSPENSION = 11  # reference: the key of a task that is poisoned and ready
    JOB_DUE = 20  # run_id: the job's id; its first attempt, or the next one
    JOB_EXPIRY = 21  # run_id: the job's id
    SCHEDULE_SLOT = 22  # run_id: core.ids.schedule_uid


class ActivityOptions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an operator may change of a pending activity, by the names of ActivityTaskScheduled. Appended to only."""

    task_queue: str
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    start_to_close_timeout_ms: int
    heartbeat_timeout_ms: int
    retry_policy: RetryPolicy
    priority: int


class Pause(msgspec.Struct, frozen=True, array_like=True, gc=False):
    time_us: int
    identity: str
    reason: str


class Aside(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What few tasks have, kept apart so that all others pay one byte for it. Appended to only; replaced, never
    changed in place."""

    pause: Pause | None = None
    options: ActivityOptions | None = None  # instead of those it was scheduled with
    reset: bool = False  # the next attempt is the first one again
    request_id: bytes = b""  # of the last report or reset that was applied
    deadline_us: int = 0  # ASYNC: start-to-close
    beat_us: int = 0  # ASYNC: the last heartbeat
    crashes: Crashes | None = None  # workers died with it in hand


NO_ASIDE = Aside()


class TaskPayload(msgspec.Struct, frozen=True, array_like=True):
    """The part of a task's row that is not a column. Appended to only, like events."""

    kind: TaskKind
    namespace_id: bytes
    queue: str  # of a message: the workflow id it goes to
    # 0: a transient workflow task, whose Scheduled event is not written yet; of a message: its key
    scheduled_event_id: int
    worker_id: bytes = b""  # who started it, once that is saved
    identity: str = ""
    started_us: int = 0
    last_failure: Failure | None = None
    progress: bytes = b""  # Payloads
    progress_version: int = 0
    ready_us: int = 0  # when it became ready (backlog age)
    next_attempt_us: int = 0  # BACKOFF: when it becomes ready
    aside: Aside | None = None
    pinned: str = ""  # the version that its run is pinned to


class TaskRecord(msgspec.Struct, eq=False, gc=False):
    """A task's row in memory. `version` is what the database holds, 0 before it was ever saved.

    `handout` is the start that was given to a worker, saved or not; matching and the lease book look there.
    """

    kind: TaskKind
    queue: str
    queue_no: int
    task_id: int
    scheduled_event_id: int
    state: TaskState = TaskState.READY
    attempt: int = 1
    start_no: int = 0  # the highest accepted start
    priority: int = 3
    worker_id: bytes = b""
    identity: str = ""
    started_us: int = 0
    last_failure: Failure | None = None
    progress: bytes = b""
    progress_version: int = 0
    ready_us: int = 0
    next_attempt_us: int = 0
    version: int = 0
    handout: Handout | None = None
    aside: Aside | None = None
    pinned: str = ""

    @property
    def running(self) -> bool:
        """Whether somebody has the attempt: a worker, or whoever it was handed over to."""
        return self.handout is not None or self.state in (TaskState.STARTED, TaskState.ASYNC)

    @property
    def paused(self) -> bool:
        return self.aside is not None and self.aside.pause is not None

    @property
    def was_started(self) -> bool:
        """Whether an attempt has begun before: schedule-to-start has done its duty."""
        return self.attempt > 1 or self.crashes is not None

    @property
    def crashes(self) -> Crashes | None:
        return self.aside.crashes if self.aside is not None else None

    @property
    def crash_count(self) -> int:
        """In a row."""
        crashes = self.crashes
        return crashes.count if crashes is not None else 0

    @property
    def isolated(self) -> bool:
        """Whether a worker runs it in a process of its own."""
        crashes = self.crashes
        return crashes is not None and crashes.is_isolated

    @property
    def pool(self) -> str:
        """Whose polls alone get it."""
        crashes = self.crashes
        return crashes.pool if crashes is not None else ""

    def set_aside(self, **changes: object) -> None:
        """Change what is kept aside; nothing is kept when nothing is left of it."""
        aside = msgspec.structs.replace(self.aside or NO_ASIDE, **changes)
        self.aside = None if aside == NO_ASIDE else aside


class Handout(msgspec.Struct, eq=False, gc=False):
    """A start given to a worker. Lives in the owner's memory; a token brings it back after a take-over."""

    start_no: int
    worker_id: bytes
    identity: str
    started_us: int
    lease_until: float  # monotonic seconds of the owner
    started_event_id: int = 0  # workflow tasks: the id their Started event will have
    saved: bool = False
    cancel_told: bool = False
    beat_us: int = 0  # the last heartbeat (or the start): the heartbeat timeout counts from here


class TimerRecord(msgspec.Struct, eq=False, gc=False):
    """A timer's row in memory. `version` 0: not saved yet. A saved timer is at version 1 until it is gone."""

    kind: TimerKind
    reference: int
    wake_us: int
    timer_id: int
    due_us: int
    gone: bool = False
    version: int = 0
