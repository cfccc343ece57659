"""What clients, workers and the code of jobs all speak of. Public under `perdure.job`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Generic, TypedDict, TypeVar

from perdure._definitions import ActivityDefinition
from perdure._payload import Payload
from perdure.common import Priority, RetryPolicy

R = TypeVar("R")

DEFAULT_QUEUE = "default"
DEFAULT_RETRY_POLICY = RetryPolicy(maximum_attempts=3)
"""Of a job that is given none."""


class JobStatus(IntEnum):
    PENDING = 1
    """It waits for its time, its concurrency key or a worker."""
    IN_PROGRESS = 2
    RETRY = 3
    """An attempt failed; the next one has its time."""
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6
    SKIPPED = 7
    """It expired, or its schedule passed it over."""
    SUSPENDED = 8
    """Poisoned for 24 hours: it waits for an operator, who resumes, redrives or cancels it."""
    POISONED = 9
    """It has crashed its workers three times in a row: only the surgical pool gets it, after 1, 5,
    30, 30, … minutes."""


class UniqueScope(IntEnum):
    """How long a unique key stands in the way of another job."""

    PENDING = 1
    """Until the job has started."""
    ACTIVE = 2
    """Until it has ended."""
    PERIOD = 3
    """For `unique_period` from its creation."""


class ConcurrencyPolicy(IntEnum):
    """What becomes of a job whose concurrency key has no free place."""

    QUEUE = 1
    """It waits for one."""
    CANCEL_NEWEST = 2
    """It is cancelled. One that comes back from a failure waits."""
    CANCEL_RUNNING = 3
    """It takes the place of the oldest that runs, which is cancelled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Concurrency:
    """How many jobs of one key may run at a time. The settings of the newest job whose time has
    come are the key's.

    `rate_per_s` limits starts; 0 is any. After an engine process has died, one burst may exceed it.
    """

    key: str
    limit: int = 1
    policy: ConcurrencyPolicy = ConcurrencyPolicy.QUEUE
    rate_per_s: float = 0.0


class JobOptions(TypedDict, total=False):
    """Keyword arguments of a job; all may be left out."""

    queue: str
    """The task queue that its workers poll; "default" unless given."""
    run_at: datetime | None
    """When it is due, now unless given. A naive instant is taken as UTC, a past one as now."""
    delay: timedelta | None
    """Or how long from now, by the engine's clock."""
    user_id: str
    """Whose it is: lists find it by that."""
    timeout: timedelta | None
    """Of one attempt; none unless given."""
    heartbeat_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    """3 attempts, after 1 s and 2 s, unless given."""
    priority: Priority | None
    idempotency_key: str
    """Asked for again with the same key, it is the same job; with another body that is refused, but
    not noticed under another unique or concurrency key."""
    unique_key: str
    """While a job of the key lives (`unique_scope`), it is answered and none made. Beside
    `concurrency` it holds among the jobs of that key."""
    unique_scope: UniqueScope
    """ACTIVE unless given."""
    unique_period: timedelta | None
    """With UniqueScope.PERIOD."""
    concurrency: Concurrency | None
    expires_at: datetime | None
    """Not started by then, it is skipped."""


class NewJob(Generic[R]):
    """A job that is to be made. Made by `perdure.job.new`."""

    __slots__ = ("args", "name", "options", "result_type")

    def __init__(
        self, name: str, args: Sequence[Any], options: JobOptions, result_type: Any
    ) -> None:
        self.name = name
        self.args = args
        self.options = options
        self.result_type = result_type


def new_job(fn: Any, args: Sequence[Any], result_type: Any, options: JobOptions) -> NewJob[Any]:
    """`fn`: a function with `@job.defn`, or a name. Raises TypeError for what is neither."""
    if isinstance(fn, str):
        return NewJob(fn, args, options, result_type or Any)
    definition = ActivityDefinition.attached_to(fn)
    return NewJob(definition.name, args, options, result_type or definition.signature.result)


@dataclass(frozen=True, kw_only=True)
class Info:
    """What the code of a job knows of its run and of the attempt that runs."""

    job_id: str
    task_name: str
    queue: str
    namespace: str
    attempt: int
    idempotency_key: str
    """The same for every attempt: the job's id."""
    create_time: datetime
    due_time: datetime
    """When the attempt was to start."""
    start_time: datetime
    timeout: timedelta | None
    heartbeat_timeout: timedelta | None
    progress: Sequence[Any]
    """What earlier attempts said last of their progress (`heartbeat`, `checkpoint`)."""
    retry_policy: RetryPolicy
    priority: Priority
    user_id: str
    """Empty: nobody's."""
    schedule_id: str
    """Empty: no schedule made it."""
    headers: Mapping[str, Payload]
    crashes: int = 0
    """How many workers in a row have died with it in hand. From 2 on it has a process to itself,
    from 3 on one of the surgical pool; what returns, raises or is saved begins to count anew."""
