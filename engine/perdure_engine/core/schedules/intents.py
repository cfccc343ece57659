"""What somebody wants of a schedule. All go to its shard (`core.ids.shard_of` of "schedule:" and its id). Those of the
shard itself carry many schedules each: thousands may fire in the same second."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.errands import Errand
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    Schedule,
    SlotOutcome,
)
from perdure_engine.core.status import Status


class CreateSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `ScheduleSaved`. Rejected ALREADY_EXISTS, unless it is the same request."""

    namespace_id: bytes
    schedule_id: str
    schedule: Schedule
    request_id: bytes
    identity: str = ""
    user_id: str = ""
    trigger_immediately: bool = False


class UpdateSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `ScheduleSaved`. Rejected NOT_FOUND, ABORTED (another conflict token; 0: whatever it is)."""

    namespace_id: bytes
    schedule_id: str
    schedule: Schedule
    conflict_token: int
    request_id: bytes
    identity: str = ""


class DeleteSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `ScheduleSaved`; of one that is not there too."""

    namespace_id: bytes
    schedule_id: str
    request_id: bytes
    identity: str = ""
    reason: str = ""


class PauseSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """`paused` False: unpause. Answered with `ScheduleSaved`. Rejected NOT_FOUND."""

    namespace_id: bytes
    schedule_id: str
    paused: bool
    note: str
    request_id: bytes
    identity: str = ""


class TriggerSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `SlotsActed` of one slot. `overlap` None: the schedule's. Rejected NOT_FOUND."""

    namespace_id: bytes
    schedule_id: str
    overlap: OverlapPolicy | None
    request_id: bytes
    identity: str = ""


class BackfillSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Both ends inclusive. Answered with `Backfilled`. Rejected NOT_FOUND, INVALID_ARGUMENT (over 1,000 slots)."""

    namespace_id: bytes
    schedule_id: str
    from_us: int
    to_us: int
    overlap: OverlapPolicy | None
    dry_run: bool
    request_id: bytes
    identity: str = ""


class DescribeSchedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `ScheduleDescription`. Rejected NOT_FOUND."""

    namespace_id: bytes
    schedule_id: str


ScheduleIntent = (
    CreateSchedule
    | UpdateSchedule
    | DeleteSchedule
    | PauseSchedule
    | TriggerSchedule
    | BackfillSchedule
    | DescribeSchedule
)


# ---- from the shard itself


class FireSlots(msgspec.Struct, frozen=True, gc=False):
    """Timers of schedules that are due: uid, wake_us, timer_id of each."""

    shard_id: int
    timers: Sequence[tuple[bytes, int, int]]


class Heard(msgspec.Struct, frozen=True, gc=False):
    """The answer to an errand. `refused`: why, if it was refused for good. `status`: of the run that was asked, None if
    there is no such run any more; `asked_us`: when it was asked, at the earliest."""

    uid: bytes
    errand: Errand
    refused: str = ""
    status: Status | None = None
    asked_us: int = 0


class HearErrands(msgspec.Struct, frozen=True, gc=False):
    shard_id: int
    heard: Sequence[Heard]


class JobEnd(msgspec.Struct, frozen=True, gc=False):
    """A job run of a schedule has ended. `status` None: there is no such job any more."""

    uid: bytes
    job_id: bytes
    status: JobStatus | None


class HearJobs(msgspec.Struct, frozen=True, gc=False):
    """Ends of job runs that could not be heard of in the step that decided them."""

    shard_id: int
    ends: Sequence[JobEnd]


class MendSchedules(msgspec.Struct, frozen=True, gc=False):
    """Schedules whose timer is nowhere (bug report 1), or whose times were made by other rules of their zone."""

    shard_id: int
    uids: Sequence[bytes]


ScheduleShardIntent = FireSlots | HearErrands | HearJobs | MendSchedules


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A slot as callers see it. Ids are texts; '' when there is none."""

    nominal_us: int
    outcome: SlotOutcome
    acted_us: int
    job_id: str = ""
    workflow_id: str = ""
    run_id: str = ""
    detail: str = ""
    manual: bool = False


class ScheduleSaved(msgspec.Struct, frozen=True, gc=False):
    conflict_token: int
    next_us: int  # nominal; 0: none
    firing: list[Slot]  # claimed before the call, and still on their way
    repeated: bool = False  # a creation that was answered before


class SlotsActed(msgspec.Struct, frozen=True, gc=False):
    slots: list[Slot]


class Backfilled(msgspec.Struct, frozen=True, gc=False):
    nominal_us: list[int]
    fired_before_us: list[int]


class ScheduleInfo(msgspec.Struct, frozen=True, gc=False):
    schedule_id: str
    user_id: str
    paused: bool
    note: str
    created_us: int
    updated_us: int
    next_us: int
    last_nominal_us: int
    last_outcome: SlotOutcome | None
    action_name: str
    schedule: Schedule


class ScheduleDescription(msgspec.Struct, frozen=True, gc=False):
    info: ScheduleInfo
    conflict_token: int
    open: list[Slot]  # firing, buffered, and those whose action has not ended


ScheduleReply = ScheduleSaved | SlotsActed | Backfilled | ScheduleDescription
