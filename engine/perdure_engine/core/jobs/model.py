"""A job run: one row, no history. What never changes of it (`JobSpec`), what does (`JobState`), and the record that the
shard keeps of an open one in memory (`JobRun`)."""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.failures import Failure
from perdure_engine.core.poison import Crashes
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import Handout, TimerRecord

DEFAULT_JOB_RETRY = RetryPolicy(maximum_attempts=3)
DEFAULT_QUEUE = "default"
FAILURES_KEPT_MAX = 100
"""Of one job run: the last ones. With unlimited attempts the row would grow for ever."""


class JobStatus(enum.IntEnum):
    PENDING = 1  # waits for its time, its concurrency key or a worker
    IN_PROGRESS = 2
    RETRY = 3  # an attempt failed; the next one has its time
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6
    SKIPPED = 7
    SUSPENDED = 8  # poisoned for 24 hours: no worker gets it before an operator says so
    POISONED = 9  # has crashed its workers three times in a row: waits for the surgical pool


OPEN_STATUSES = (
    JobStatus.PENDING,
    JobStatus.IN_PROGRESS,
    JobStatus.RETRY,
    JobStatus.SUSPENDED,
    JobStatus.POISONED,
)


DEAD_LETTERS = (JobStatus.FAILED, JobStatus.POISONED, JobStatus.SUSPENDED)
"""What an operator can let begin anew."""


class UniqueScope(enum.IntEnum):
    PENDING = 1
    ACTIVE = 2
    PERIOD = 3


class ConcurrencyPolicy(enum.IntEnum):
    QUEUE = 1
    CANCEL_NEWEST = 2
    CANCEL_RUNNING = 3


class Concurrency(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`rate_per_s` 0: any."""

    key: str
    limit: int = 1
    policy: ConcurrencyPolicy = ConcurrencyPolicy.QUEUE
    rate_per_s: float = 0.0


class Unique(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`period_ms` counts with UniqueScope.PERIOD only."""

    key: str
    scope: UniqueScope = UniqueScope.ACTIVE
    period_ms: int = 0


class JobSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a job run is made with and keeps. At rest in `job_runs.spec`; appended to only, like events.

    Durations in ms, instants in µs; 0 is "none".
    """

    input: bytes = b""  # Payloads
    header: bytes = b""
    retry: RetryPolicy = DEFAULT_JOB_RETRY
    timeout_ms: int = 0
    heartbeat_timeout_ms: int = 0
    idempotency_key: str = ""
    body_hash: bytes = b""  # of what the caller asked for: a repeat with another body is refused
    unique: Unique | None = None
    concurrency: Concurrency | None = None
    expire_us: int = 0
    nominal_us: int = 0  # of its schedule's slot
    identity: str = ""  # who made it


class JobFailure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    attempt: int
    time_us: int
    identity: str  # the worker's
    failure: Failure


class JobState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What changes of a job run and is no column. At rest in `job_runs.state`; appended to only."""

    due_us: int = 0  # when the attempt was, or is, to start
    ready_us: int = 0  # when it became ready
    started_us: int = 0  # of the last attempt whose start is known
    worker_id: bytes = b""
    worker_identity: str = ""
    failures: tuple[JobFailure, ...] = ()
    progress: bytes = b""  # Payloads
    progress_version: int = 0
    cancel_us: int = 0  # somebody asked it to stop
    reason: str = ""  # why it was skipped, cancelled or waits
    timer: tuple[int, int] | None = None  # (wake_us, timer_id) of its JOB_DUE row
    expiry: tuple[int, int] | None = None  # of its JOB_EXPIRY row
    request_id: bytes = b""  # of the last operator's call that was applied
    key_place: bool = False  # it holds a place of its concurrency key
    request_body: bytes = b""  # of that call: see `core.repeats`
    crashes: Crashes | None = None  # workers died with it in hand


class NewJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job as it is asked for. `due_us` 0: now."""

    job_id: bytes
    task_name: str
    queue: str
    spec: JobSpec
    due_us: int = 0
    user_id: str = ""
    priority: int = 3
    schedule_id: str = ""
    batch_id: str = ""


class JobRun(msgspec.Struct, eq=False, gc=False):
    """An open job run in memory, changed in place by its shard. `version` is what the database holds, 0 before it was
    ever saved. `task_id` 0: no worker may have it now."""

    job_id: bytes
    namespace_id: bytes
    task_name: str
    queue: str
    queue_no: int
    spec: JobSpec
    user_id: str = ""
    schedule_id: str = ""
    batch_id: str = ""
    status: JobStatus = JobStatus.PENDING
    attempt: int = 1
    priority: int = 3
    created_us: int = 0
    scheduled_us: int = 0
    closed_us: int = 0
    due_us: int = 0
    ready_us: int = 0
    task_id: int = 0
    start_no: int = 0
    started_us: int = 0
    worker_id: bytes = b""
    worker_identity: str = ""
    failures: tuple[JobFailure, ...] = ()
    progress: bytes = b""
    progress_version: int = 0
    cancel_us: int = 0
    reason: str = ""
    request_id: bytes = b""
    request_body: bytes = b""
    key_place: bool = False
    result: bytes = b""
    timer: TimerRecord | None = None
    expiry: TimerRecord | None = None
    version: int = 0
    busy: bool = False  # what memory says of it is not saved yet
    handout: Handout | None = None
    crashes: Crashes | None = None

    @property
    def open(self) -> bool:
        return self.status in OPEN_STATUSES

    @property
    def pool(self) -> str:
        """Whose polls alone get it."""
        return self.crashes.pool if self.crashes is not None else ""

    @property
    def held(self) -> bool:
        """Whether it waits for its schedule, which makes it due (or ends it): nothing of its own wakes it."""
        waits = self.status is JobStatus.PENDING and self.schedule_id != ""
        return waits and not self.task_id and self.timer is None and self.handout is None
