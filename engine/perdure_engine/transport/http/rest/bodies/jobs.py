"""Jobs."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure_engine.core import limits
from perdure_engine.core.jobs.model import DEFAULT_QUEUE, JobStatus
from perdure_engine.transport.http.rest.bodies.fields import (
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
    Uuid,
    Value,
    one_of,
)
from perdure_engine.transport.http.rest.operations import Query
from perdure_engine.transport.http.rest.problems import Problem

JOBS_MAX = 10_000  # of one call
REDRIVEN_MAX = 1_000  # that one call names

Status = Annotated[str, one_of(JobStatus)]
Key = Annotated[str, Meta(max_length=limits.NAME_BYTES_MAX)]
Expression = Annotated[str, Meta(min_length=1, max_length=limits.CRON_BYTES_MAX)]
TimeZone = Annotated[
    str, Meta(max_length=100, description="IANA. Cron fields and times without an offset are in it.")
]
Parameters = Annotated[
    dict[str, Json], Meta(description="By the names of the function's parameters.")
]


class When(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """CRON: five fields, or @daily and its like. DATE: an ISO 8601 date and time. INTERVAL: seconds, or as 90s, 1h30m."""

    type: Literal["CRON", "DATE", "INTERVAL"]
    expression: Expression


Schedule = Annotated[
    Expression | When | None,
    Meta(
        description="When it runs: a cron expression, a date and time (ISO 8601; one that is past is now), "
        "either or an interval with its type, or now."
    ),
]


class Concurrency(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many jobs of a key run at a time. The settings of the newest job are the key's."""

    key: Name
    limit: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    policy: Literal["QUEUE", "CANCEL_NEWEST", "CANCEL_RUNNING"] = "QUEUE"
    rate_per_s: Annotated[float, Meta(ge=0, le=1e6, description="Starts; 0: any.")] = 0.0


class NewJob(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A task, when it runs and what with. It is saved whether or not a worker knows the task."""

    task_id: Annotated[
        str,
        Meta(min_length=1, max_length=limits.NAME_BYTES_MAX, description="The task's name."),
    ]
    schedule: Schedule = None
    timezone: TimeZone = ""
    parameters: Parameters = {}
    user_id: Annotated[
        str, Meta(max_length=limits.IDENTITY_BYTES_MAX, description="Whose it is: lists find it.")
    ] = ""
    queue: Name = DEFAULT_QUEUE
    timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry: Annotated[Retry | None, Meta(description="3 attempts unless it says otherwise.")] = None
    priority: Priority = 3
    idempotency_key: Annotated[
        str,
        Meta(
            max_length=limits.NAME_BYTES_MAX,
            description="Asked for again with the same key it is the same job; with another body that is refused.",
        ),
    ] = ""
    unique_key: Annotated[
        str,
        Meta(
            max_length=limits.NAME_BYTES_MAX,
            description="While a job of the key lives, it is answered and none is made.",
        ),
    ] = ""
    unique_scope: Literal["PENDING", "ACTIVE", "PERIOD"] = "ACTIVE"
    unique_period: Annotated[
        Duration | None, Meta(description="With the scope PERIOD: from its creation.")
    ] = None
    concurrency: Concurrency | None = None
    expires_at: Annotated[
        Instant | None, Meta(description="Not started by then, it is skipped.")
    ] = None


class JobCreated(msgspec.Struct, kw_only=True):
    job_id: Uuid
    created: Annotated[
        bool, Meta(description="False: one of its idempotency or unique key was there.")
    ]
    status: Status
    next_run: Annotated[Instant, Meta(description="When it runs next.")] | UnsetType = UNSET


class JobBatch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the jobs of the call belong to. When it is sealed and all its jobs have ended, the callback is made; its one
    parameter is an object with batch_id, total, completed, failed, cancelled and skipped."""

    batch_id: Name
    callback: NewJob | None = None
    more: Annotated[bool, Meta(description="More calls follow with this batch.")] = False


class NewJobs(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    jobs: Annotated[list[NewJob], Meta(max_length=JOBS_MAX)]
    batch: JobBatch | None = None


class JobNotCreated(msgspec.Struct, kw_only=True):
    error: Problem


class JobsCreated(msgspec.Struct, kw_only=True):
    """In the order of the call. One that was refused has not disturbed the others."""

    jobs: list[dict[str, Json]]


class Job(msgspec.Struct, kw_only=True):
    """One run of a task; or, with `recurring`, the definition that makes its runs."""

    job_id: Uuid
    task_id: str
    queue: str
    status: Status
    attempt: int
    user_id: str
    schedule_id: Annotated[str, Meta(description="The recurring job or schedule that made it.")] = ""
    batch_id: str = ""
    priority: int
    create_time: Instant
    scheduled_time: Annotated[Instant, Meta(description="When it is to start first.")]
    next_attempt_time: Instant | UnsetType = UNSET
    start_time: Annotated[Instant, Meta(description="Of the last attempt.")] | UnsetType = UNSET
    close_time: Instant | UnsetType = UNSET
    unique_key: str = ""
    concurrency_key: str = ""
    reason: Annotated[str, Meta(description="Why it was skipped, cancelled or waits.")] = ""
