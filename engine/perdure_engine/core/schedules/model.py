"""A schedule as it is asked for (`Schedule`), what it has come to (`ScheduleState`), and its shard's record of it in
memory (`ScheduleRecord`). At rest the first two are msgpack arrays, appended to only, like events. Durations in ms,
instants in µs; 0 is "none" unless said otherwise."""

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
    """What becomes of a fixed time that the clocks skip."""

    RUN_AFTER = 1  # it comes at the first minute after the gap
    SKIP = 2


class RepeatPolicy(enum.IntEnum):
    """When a fixed time comes that the clocks show twice."""

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


class Stop(enum.IntEnum):
    """What an action was asked to do for a later slot."""

    NONE = 0
    CANCEL = 1
    TERMINATE = 2


class SlotAction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a slot has started, or is about to, and of whose end nothing is known."""

    nominal_us: int
    origin: SlotOrigin
    target: bytes  # the job's id, or the first run's
    workflow_id: str = ""  # "": it is a job
    firing: bool = False  # the start is on its way
    backfill: bool = False
    stop: Stop = Stop.NONE
    told: bool = False  # of `stop`
    kept: int = (
        0  # place in `ScheduleState.kept` of what it was claimed with; 0: the schedule's own action
    )
    version: int = 1  # of its slot's row


class WaitingSlot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A slot that acts as soon as those before it have ended, if its policy lets it wait for so long."""

    nominal_us: int
    origin: SlotOrigin
    overlap: OverlapPolicy
    since_us: int
    backfill: bool = False
    version: int = 0  # of its row; 0: it has none yet
    job_id: bytes = b""  # of the run that was made for it before its time

    @property
    def called_for(self) -> bool:
        """By somebody, not by the spec."""
        return self.backfill or self.origin is not SlotOrigin.SPEC


class RequestMark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that was answered, and what a repeat of it is answered with: of a trigger, its slot."""

    request_id: bytes
    nominal_us: int = 0
    outcome: SlotOutcome = SlotOutcome.FIRED
    target: bytes = b""
    detail: str = ""
    body: bytes = b""  # see `core.repeats`


class ScheduleState(msgspec.Struct, array_like=True):
    """What a schedule has come to. `next_us` is nominal, and so is `done_us`: no slot of the spec up to there is open
    any more. `wake`: wake_us, timer_id and due_us of its timer's row.
    """

    created_us: int
    created_by: bytes  # request id
    updated_us: int
    done_us: int
    next_us: int = 0
    wake: tuple[int, int, int] | None = None
    job_id: bytes = b""  # of the run that is made for the next slot
    job_over: bool = False  # somebody has ended that one before its time
    last_us: int = 0  # nominal, of the latest slot with a record
    last_outcome: SlotOutcome | None = None
    manual_us: int = 0  # nominal, of the last slot by a call
    unpaused_us: int = 0
    late: int = 0  # slots in a row that were caught up with
    remaining: int | None = None
    actions: tuple[SlotAction, ...] = ()
    waiting: tuple[WaitingSlot, ...] = ()
    requests: tuple[RequestMark, ...] = ()  # the latest ones
    kept: tuple[Action, ...] = ()  # of before an update, while starts with them are on their way
    deleted: bool = False  # and gone as soon as nothing is on its way
    created_body: bytes = b""  # of the call that made it: see `core.repeats`


class ScheduleRecord(msgspec.Struct, eq=False):
    """A schedule in its shard's memory, as saved: replaced piece by piece once a step is saved, never changed before.

    `gone`: there is no such schedule (any more); `version` is that of the row that is left of it, 0 if there is none.
    """

    uid: bytes
    namespace_id: bytes
    schedule_id: str
    schedule: Schedule
    state: ScheduleState
    user_id: str = ""
    conflict_token: int = 1
    version: int = 0
    gone: bool = False


def absent(uid: bytes, namespace_id: bytes, schedule_id: str) -> ScheduleRecord:
    """Of a schedule that there is not."""
    nothing = Schedule(ScheduleSpec(), JobAction("", "", JobSpec()))
    state = ScheduleState(0, b"", 0, 0)
    return ScheduleRecord(uid, namespace_id, schedule_id, nothing, state, gone=True)
