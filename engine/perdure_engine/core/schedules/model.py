"""A schedule as it is asked for (`Schedule`), and what it has come to (`ScheduleState`). At rest both are msgpack
arrays, appended to only, like events. Durations in ms, instants in µs; 0 is "none" unless said otherwise."""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.model import JobSpec

CATCH_UP_WINDOW_MS_DEFAULT = 365 * 24 * 3_600_000
CATCH_UP_WINDOW_MS_MIN = 10_000
CATCH_UP_MOST_DEFAULT = 1_000
BACKFILL_MOST = 1_000


class GapPolicy(enum.IntEnum):
    RUN_AFTER = 1
    SKIP = 2


class RepeatPolicy(enum.IntEnum):
    FIRST = 1
    BOTH = 2


class OverlapPolicy(enum.IntEnum):
    SKIP = 1
    BUFFER_ONE = 2
    BUFFER_ALL = 3
    CANCEL_OTHER = 4
    TERMINATE_OTHER = 5
    ALLOW_ALL = 6


class CatchUpPolicy(enum.IntEnum):
    ALL = 1
    LAST = 2
    NONE = 3


class SlotOutcome(enum.IntEnum):
    FIRING = 1
    FIRED = 2
    SKIPPED = 3
    MISSED = 4
    PAUSED = 5
    BACKFILLED = 6
    BUFFERED = 7
    FAILED = 8


class SlotOrigin(enum.IntEnum):
    SPEC = 1
    MANUAL = 2
    BACKFILL = 3


class IntervalSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    every_ms: int
    phase_ms: int = 0


class CalendarRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    start: int
    end: int = 0  # 0: `start` alone
    step: int = 1


class CalendarSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    second: tuple[CalendarRange, ...] = ()
    minute: tuple[CalendarRange, ...] = ()
    hour: tuple[CalendarRange, ...] = ()
    day_of_month: tuple[CalendarRange, ...] = ()
    month: tuple[CalendarRange, ...] = ()
    day_of_week: tuple[CalendarRange, ...] = ()
    year: tuple[CalendarRange, ...] = ()
    comment: str = ""


class ScheduleSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    cron: tuple[str, ...] = ()
    intervals: tuple[IntervalSpec, ...] = ()
    calendars: tuple[CalendarSpec, ...] = ()
    dates_us: tuple[int, ...] = ()
    exclude: tuple[CalendarSpec, ...] = ()
    start_us: int = 0
    end_us: int = 0
    jitter_ms: int = 0
    timezone: str = "UTC"
    seconds_first: bool = False
    gap: GapPolicy = GapPolicy.RUN_AFTER
    repeat: RepeatPolicy = RepeatPolicy.FIRST
    tzdata_version: str = ""  # that its times were last computed with


class JobAction(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="job"):
    task_name: str
    queue: str
    spec: JobSpec
    priority: int = 3
    user_id: str = ""


class WorkflowAction(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="workflow"):
    """`start` as it would be asked for, but for namespace, workflow id, request id and run id, which each slot has of
    its own."""

    workflow_id: str  # of each start: this, "-" and the nominal time; the schedule's id when ''
    start: StartWorkflow


Action = JobAction | WorkflowAction


class SchedulePolicies(msgspec.Struct, frozen=True, array_like=True, gc=False):
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    catch_up_window_ms: int = CATCH_UP_WINDOW_MS_DEFAULT
    catch_up: CatchUpPolicy = CatchUpPolicy.ALL
    catch_up_most: int = CATCH_UP_MOST_DEFAULT
    pause_on_failure: bool = False


class Schedule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`remaining_actions` None: without limit."""

    spec: ScheduleSpec
    action: Action
    policies: SchedulePolicies = SchedulePolicies()
    paused: bool = False
    note: str = ""
    remaining_actions: int | None = None
