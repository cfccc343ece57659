"""Jobs."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure_engine.core import limits
from perdure_engine.core.jobs.model import DEFAULT_QUEUE, JobStatus
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
    Uuid,
    Value,
    one_of,
)
from perdure_engine.transport.http.rest.operations import Query
from perdure_engine.transport.http.rest.problems import Problem

JOBS_MAX = 10_000  # of one call

Status = Annotated[str, one_of(JobStatus)]
StatusChoice = Literal[
    "PENDING",
    "IN_PROGRESS",
    "RETRY",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "SKIPPED",
    "SUSPENDED",
    "POISONED",
]
DeadLetter = Literal["FAILED", "POISONED", "SUSPENDED"]
StatusOfRun = Annotated[str, Meta(extra_json_schema={"enum": [*get_args(StatusChoice)]})]
Statuses = Annotated[list[StatusChoice], Meta(description="One of these; any without.")]
Crashes = Annotated[
    int,
    Meta(
        description="How many workers in a row have died with it in hand. From 2 on it runs in a process of its own, "
        "from 3 on it is poisoned: only the surgical pool gets it."
    ),
]
FirstCrash = Annotated[Instant, Meta(description="Kept until it succeeds.")]
Key = Annotated[str, Meta(max_length=limits.NAME_BYTES_MAX)]
Expression = Annotated[str, Meta(min_length=1, max_length=limits.CRON_BYTES_MAX)]
TimeZone = Annotated[
    str,
    Meta(max_length=100, description="IANA. Cron fields and times without an offset are in it."),
]
Parameters = Annotated[
    dict[str, Json], Meta(description="By the names of the function's parameters.")
]


class When(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """CRON: five fields, or @daily and its like. DATE: a date and time of ISO 8601. INTERVAL: seconds, or as 1h30m."""

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
    """How many jobs of a key run at a time. The settings of the newest job whose time has come are the key's."""

    key: Name
    limit: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    policy: Literal["QUEUE", "CANCEL_NEWEST", "CANCEL_RUNNING"] = "QUEUE"
    rate_per_s: Annotated[float, Meta(ge=0, le=1e6, description="Starts; 0: any.")] = 0.0


class JobSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A task and what it runs with, whenever it runs."""

    task_id: Annotated[
        str, Meta(min_length=1, max_length=limits.NAME_BYTES_MAX, description="The task's name.")
    ]
    parameters: Parameters = {}
    user_id: Annotated[
        str, Meta(max_length=limits.IDENTITY_BYTES_MAX, description="Whose it is: lists find it.")
    ] = ""
    queue: Name = DEFAULT_QUEUE
    timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry: Annotated[
        Retry | None,
        Meta(description="Without it, or where it does not say how often: 3 attempts."),
    ] = None
    priority: Priority = 3
    unique_key: Annotated[
        str,
        Meta(
            max_length=limits.NAME_BYTES_MAX,
            description="While a job of the key lives, it is answered and none is made. Beside concurrency it holds "
            "among the jobs of that key.",
        ),
    ] = ""
    unique_scope: Literal["PENDING", "ACTIVE", "PERIOD"] = "ACTIVE"
    unique_period: Annotated[
        Duration | None, Meta(description="With the scope PERIOD: from its creation.")
    ] = None
    concurrency: Concurrency | None = None


class NewJob(JobSettings, kw_only=True, gc=False):
    """A task, when it runs and what with. It is saved whether or not a worker knows the task."""

    schedule: Schedule = None
    timezone: TimeZone = ""
    idempotency_key: Annotated[
        str,
        Meta(
            max_length=limits.NAME_BYTES_MAX,
            description="Asked for again with the same key it is the same job; with another body that is refused, but "
            "not noticed under another unique or concurrency key, nor when only one of the two recurs.",
        ),
    ] = ""
    expires_at: Annotated[
        Instant | None,
        Meta(description="Not started by then, it is skipped. For one that runs once."),
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


class JobAnswer(msgspec.Struct, kw_only=True):
    """Of one job of many: what it is, or why there is none."""

    job_id: Uuid | UnsetType = UNSET
    created: bool | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    next_run: Instant | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class JobsCreated(msgspec.Struct, kw_only=True):
    """In the order of the call. One that was refused has not disturbed the others."""

    jobs: list[JobAnswer]


class JobInfo(msgspec.Struct, kw_only=True):
    """A job run."""

    job_id: Uuid
    task_id: str
    queue: str
    status: StatusOfRun
    attempt: int
    user_id: str
    schedule_id: Annotated[str, Meta(description="Of the recurring job or schedule that made it.")]
    batch_id: str
    priority: int
    create_time: Instant
    scheduled_time: Annotated[Instant, Meta(description="When it is, or was, to start first.")]
    next_attempt_time: Instant | UnsetType = UNSET
    start_time: Annotated[Instant, Meta(description="Of the last attempt.")] | UnsetType = UNSET
    close_time: Instant | UnsetType = UNSET
    unique_key: str
    concurrency_key: str
    reason: Annotated[
        str, Meta(description="Why it was skipped, cancelled or suspended, or waits.")
    ]
    failure_type: Annotated[str, Meta(description="Of the last failure, if one has failed.")]
    failure_message: str
    crashes: Crashes
    first_crash_time: FirstCrash | UnsetType = UNSET
    archived: Archived


class JobList(msgspec.Struct, kw_only=True):
    jobs: list[JobInfo]
    next_page_token: NextPageToken | UnsetType = UNSET


class JobFailure(msgspec.Struct, kw_only=True):
    attempt: int
    time: Instant
    worker_identity: str
    failure: Failure


class Job(msgspec.Struct, kw_only=True):
    """A job: of a recurring one its definition, of any other its only run.

    A recurring one is PENDING while it has a next run, SUSPENDED while it is paused, and COMPLETED after its last run.
    Any other is SUSPENDED when it has crashed its workers for 24 hours: an operator resumes or redrives it.
    """

    job_id: Uuid
    task_id: str
    recurring: bool
    queue: str
    status: Status
    user_id: str
    priority: int
    create_time: Instant
    parameters: Parameters | UnsetType = UNSET
    args: (
        Annotated[list[Value], Meta(description="Instead of parameters: by position.")] | UnsetType
    ) = UNSET
    next_run: Instant | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    retry: Retry
    expires_at: Instant | UnsetType = UNSET
    unique_key: str
    concurrency: Concurrency | UnsetType = UNSET
    schedule: (
        Annotated[str, Meta(description="When a recurring one runs, in words.")] | UnsetType
    ) = UNSET
    schedule_id: str
    batch_id: str
    attempt: int | UnsetType = UNSET
    scheduled_time: Instant | UnsetType = UNSET
    start_time: Instant | UnsetType = UNSET
    close_time: Instant | UnsetType = UNSET
    worker_identity: str | UnsetType = UNSET
    cancel_requested: bool
    reason: str
    result: Value | UnsetType = UNSET
    progress: list[Value] = []
    failures: Annotated[list[JobFailure], Meta(description="Oldest first; the last 100.")] = []
    crashes: Crashes | UnsetType = UNSET
    first_crash_time: FirstCrash | UnsetType = UNSET
    last_crash: (
        Annotated[
            Failure, Meta(description="Its stack_trace is the report of the process's supervisor.")
        ]
        | UnsetType
    ) = UNSET
    archived: Archived


class JobEnding(msgspec.Struct, kw_only=True):
    """IN_PROGRESS: it has been asked to stop."""

    job_id: Uuid
    status: Status


class Rescheduling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schedule: Annotated[
        Expression | None, Meta(description="A date and time (ISO 8601); now without.")
    ] = None
    timezone: TimeZone = ""
    identity: Label = ""


class Resuming(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""
    identity: Label = ""


class JobResumed(msgspec.Struct, kw_only=True):
    """It has 24 hours before it is suspended (again)."""

    job_id: Uuid
    status: Status


class JobFilter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All conditions hold together."""

    status: Annotated[list[DeadLetter], Meta(description="One of these; any without.")] = []
    user_id: Key = ""
    task_id: Key = ""
    queue: Key = ""
    schedule_id: Key = ""
    batch_id: Key = ""
    start_time: Annotated[Instant, Meta(description="Scheduled at or after.")] | None = None
    end_time: Annotated[Instant, Meta(description="Scheduled before.")] | None = None
    failure_type: Annotated[
        str, Meta(max_length=limits.NAME_BYTES_MAX, description="Of the last failure.")
    ] = ""


class Redriving(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The jobs of these ids, or all that the filter finds. Failed, poisoned and suspended ones begin anew, with no
    crash counted; others stay as they are."""

    job_ids: Annotated[list[Uuid], Meta(max_length=JOBS_MAX)] = []
    filter: JobFilter | None = None
    dry_run: Annotated[bool, Meta(description="Only count.")] = False
    reason: Reason = ""
    identity: Label = ""


class Redriven(msgspec.Struct, kw_only=True):
    count: Annotated[int, Meta(description="That began anew, or would.")]


class JobsQuery(Query, kw_only=True):
    user_id: Key = ""
    status: Statuses = msgspec.field(default_factory=list)
    task_id: Key = ""
    queue: Key = ""
    schedule_id: Key = ""
    batch_id: Key = ""
    start_time: Annotated[Instant, Meta(description="Scheduled at or after.")] | UnsetType = UNSET
    end_time: Annotated[Instant, Meta(description="Scheduled before.")] | UnsetType = UNSET
    failure_type: Key = ""
    oldest_first: Annotated[
        bool, Meta(description="By the scheduled time; else the newest come first.")
    ] = False
    archived: ArchivedInstead = False
    limit: Limit = 0
    page_token: PageToken = ""


class RunsQuery(Query, kw_only=True):
    status: Statuses = msgspec.field(default_factory=list)
    archived: ArchivedInstead = False
    limit: Limit = 0
    page_token: PageToken = ""


class CancelQuery(Query, kw_only=True):
    reason: Reason = ""
