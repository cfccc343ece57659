"""Schedules."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure_engine.core import limits
from perdure_engine.core.schedules.model import BACKFILL_MOST, SlotOutcome
from perdure_engine.transport.http.rest.bodies.fields import (
    INTEGER_MAX,
    Duration,
    Instant,
    Label,
    Limit,
    NextPageToken,
    PageToken,
    Reason,
    Uuid,
    one_of,
)
from perdure_engine.transport.http.rest.bodies.jobs import Expression, JobSettings, TimeZone
from perdure_engine.transport.http.rest.bodies.workflows import WorkflowSettings
from perdure_engine.transport.http.rest.operations import Query

INT_MAX = 2**31 - 1
PARTS_MAX = 100  # of a spec, of one kind

Outcome = Annotated[str, one_of(SlotOutcome)]
OutcomeChoice = Literal[
    "FIRING", "FIRED", "SKIPPED", "MISSED", "PAUSED", "BACKFILLED", "BUFFERED", "FAILED"
]
Overlap = Literal[
    "SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER", "TERMINATE_OTHER", "ALLOW_ALL"
]
ScheduleId = Annotated[
    str, Meta(min_length=1, max_length=limits.NAME_BYTES_MAX, description="Also the job's id.")
]


class Interval(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Every so often from the epoch on, `phase` later."""

    every: Annotated[float, Meta(ge=1, le=limits.DURATION_MS_MAX // 1000)]
    phase: Annotated[float, Meta(ge=0, le=limits.DURATION_MS_MAX // 1000)] = 0.0


class Range(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Both ends inclusive. `end` 0: the start alone."""

    start: Annotated[int, Meta(ge=0, le=INT_MAX)]
    end: Annotated[int, Meta(ge=0, le=INT_MAX)] = 0
    step: Annotated[int, Meta(ge=1, le=INT_MAX)] = 1


Ranges = Annotated[list[Range], Meta(max_length=PARTS_MAX)]


class Calendar(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All of its fields match; an empty one matches anything, but second, minute and hour, which then are 0."""

    second: Ranges = []
    minute: Ranges = []
    hour: Ranges = []
    day_of_month: Ranges = []
    month: Ranges = []
    day_of_week: Annotated[Ranges, Meta(description="0 is Sunday.")] = []
    year: Ranges = []
    comment: Annotated[str, Meta(max_length=1_000)] = ""


class Spec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The times of all its parts together, without those that `exclude` names."""

    cron: Annotated[list[Expression], Meta(max_length=PARTS_MAX)] = []
    intervals: Annotated[list[Interval], Meta(max_length=PARTS_MAX)] = []
    calendars: Annotated[list[Calendar], Meta(max_length=PARTS_MAX)] = []
    dates: Annotated[list[Instant], Meta(max_length=1_000)] = []
    exclude: Annotated[list[Calendar], Meta(max_length=PARTS_MAX)] = []
    start_time: Annotated[Instant, Meta(description="No slot before it.")] | None = None
    end_time: Annotated[Instant, Meta(description="No slot after it.")] | None = None
    jitter: Annotated[
        float,
        Meta(
            ge=0,
            le=limits.DURATION_MS_MAX // 1000,
            description="Each slot starts up to so many seconds later, always the same for a slot.",
        ),
    ] = 0.0
    timezone: TimeZone = "UTC"
    seconds_first: Annotated[bool, Meta(description="Cron with six fields.")] = False
    gap: Annotated[
        Literal["RUN_AFTER", "SKIP"], Meta(description="A fixed time that the clocks skip.")
    ] = "RUN_AFTER"
    repeat: Annotated[
        Literal["FIRST", "BOTH"], Meta(description="A fixed time that comes twice.")
    ] = "FIRST"


class ScheduledWorkflow(WorkflowSettings, kw_only=True):
    workflow_id: Annotated[
        str,
        Meta(
            max_length=limits.NAME_BYTES_MAX,
            description='Of each start: this, "-" and the nominal time; the schedule\'s id without.',
        ),
    ] = ""


class Action(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One of them."""

    job: JobSettings | None = None
    workflow: ScheduledWorkflow | None = None


class Policies(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    overlap: Annotated[Overlap, Meta(description="When the one before has not ended.")] = "SKIP"
    catch_up_window: Annotated[
        Duration | None,
        Meta(description="How late a slot may still fire, at least 10 s; a year without."),
    ] = None
    catch_up: Annotated[
        Literal["ALL", "LAST", "NONE"], Meta(description="Which slots that were missed fire.")
    ] = "ALL"
    catch_up_most: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SCHEDULE_CATCH_UP_MOST_MAX,
            description="So many in a row; those after them are missed.",
        ),
    ] = limits.SCHEDULE_CATCH_UP_MOST_MAX
    pause_on_failure: bool = False


class Schedule(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When, what, and how."""

    spec: Spec
    action: Action
    policies: Policies = msgspec.field(default_factory=Policies)
    paused: bool = False
    note: Reason = ""
    remaining_actions: Annotated[
        Annotated[int, Meta(le=INTEGER_MAX)] | None,
        Meta(description="So many times more; any without."),
    ] = None


class NewSchedule(Schedule, kw_only=True):
    schedule_id: ScheduleId
    user_id: Label = ""
    trigger_immediately: bool = False
    identity: Label = ""


class ScheduleUpdate(Schedule, kw_only=True):
    """The whole of it: what is left out has its default."""

    identity: Label = ""


class Slot(msgspec.Struct, kw_only=True):
    """What became of one of its times."""

    nominal_time: Instant
    outcome: Outcome
    acted_time: Instant | UnsetType = UNSET
    job_id: Uuid | UnsetType = UNSET
    workflow_id: str | UnsetType = UNSET
    run_id: Uuid | UnsetType = UNSET
    detail: str = ""
    manual: Annotated[bool, Meta(description="Triggered by a call.")] = False


class ScheduleSaved(msgspec.Struct, kw_only=True):
    schedule_id: str
    next_time: Annotated[Instant, Meta(description="Nominal.")] | UnsetType = UNSET
    firing: Annotated[
        list[Slot], Meta(description="Claimed before the call, and still on their way.")
    ]


class ScheduleInfo(msgspec.Struct, kw_only=True):
    schedule_id: str
    user_id: str
    paused: bool
    note: str
    create_time: Instant
    update_time: Instant | UnsetType = UNSET
    next_time: Annotated[Instant, Meta(description="Nominal.")] | UnsetType = UNSET
    last_time: Annotated[Instant, Meta(description="Nominal.")] | UnsetType = UNSET
    last_outcome: Outcome | UnsetType = UNSET
    action_name: Annotated[str, Meta(description="The task's or the workflow type's.")]
    description: Annotated[str, Meta(description="The spec in words.")]


class ScheduleList(msgspec.Struct, kw_only=True):
    schedules: list[ScheduleInfo]
    next_page_token: NextPageToken | UnsetType = UNSET


class ScheduleDescription(msgspec.Struct, kw_only=True):
    """Its ETag, sent back as If-Match with PUT, keeps a change of somebody else's."""

    info: ScheduleInfo
    schedule: Schedule
    next_times: Annotated[list[Instant], Meta(description="Nominal, at most 10.")]
    recent: Annotated[list[Slot], Meta(description="Newest first, at most 10.")]
    open: Annotated[
        list[Slot],
        Meta(description="Firing, buffered, and those whose action has not ended."),
    ]
    tzdata_version: Annotated[str, Meta(description="That the times were computed with.")]


class Slots(msgspec.Struct, kw_only=True):
    slots: list[Slot]
    next_page_token: NextPageToken | UnsetType = UNSET


class Note(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    note: Reason = ""
    identity: Label = ""


class Trigger(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    overlap: Annotated[Overlap | None, Meta(description="The schedule's without.")] = None
    identity: Label = ""


class Triggered(msgspec.Struct, kw_only=True):
    slot: Slot


class Backfill(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    start_time: Annotated[Instant, Meta(description="Inclusive.")]
    end_time: Annotated[
        Instant, Meta(description=f"Inclusive. At most {BACKFILL_MOST:,} slots lie between.")
    ]
    overlap: Annotated[Overlap | None, Meta(description="The schedule's without.")] = None
    dry_run: bool = False
    identity: Label = ""


class Backfilled(msgspec.Struct, kw_only=True):
    nominal_times: Annotated[list[Instant], Meta(description="That are acted for, or would be.")]
    fired_before: Annotated[list[Instant], Meta(description="That are left alone.")]


class Preview(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    spec: Spec
    after: Annotated[Instant | None, Meta(description="Exclusive; now without.")] = None
    count: Annotated[int, Meta(ge=1, le=limits.PREVIEW_TIMES_MAX)] = limits.PREVIEW_TIMES_DEFAULT


class Previewed(msgspec.Struct, kw_only=True):
    times: list[Instant]
    description: str
    tzdata_version: str


class SchedulesQuery(Query, kw_only=True):
    id_prefix: Annotated[str, Meta(max_length=limits.NAME_BYTES_MAX)] = ""
    user_id: Label = ""
    limit: Limit = 0
    page_token: PageToken = ""


class SlotsQuery(Query, kw_only=True):
    start_time: Annotated[Instant, Meta(description="Nominal, inclusive.")] | UnsetType = UNSET
    end_time: Annotated[Instant, Meta(description="Nominal, exclusive.")] | UnsetType = UNSET
    outcome: Annotated[list[OutcomeChoice], Meta(description="One of these; any without.")] = (
        msgspec.field(default_factory=list)
    )
    limit: Limit = 0
    page_token: PageToken = ""


class DeleteQuery(Query, kw_only=True):
    reason: Reason = ""
