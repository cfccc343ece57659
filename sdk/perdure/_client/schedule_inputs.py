"""What interceptors of a client see of what it asks about schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure._schedules.definition import Schedule, ScheduleBackfill, ScheduleOverlapPolicy
from perdure._schedules.times import ScheduleSpec
from perdure._schedules.told import ScheduleSlotOutcome, ScheduleUpdate, ScheduleUpdateInput

__all__ = [
    "BackfillScheduleInput",
    "CreateScheduleInput",
    "DeleteScheduleInput",
    "DescribeScheduleInput",
    "ListScheduleSlotsInput",
    "ListSchedulesInput",
    "PauseScheduleInput",
    "PreviewScheduleInput",
    "TriggerScheduleInput",
    "UnpauseScheduleInput",
    "UpdateScheduleInput",
]

Updater = Callable[[ScheduleUpdateInput], ScheduleUpdate | Awaitable[ScheduleUpdate | None] | None]


@dataclass(kw_only=True)
class CreateScheduleInput:
    """What is to travel to the workers' interceptors stands in the headers of its action."""

    id: str
    schedule: Schedule
    trigger_immediately: bool
    user_id: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class ListSchedulesInput:
    id_prefix: str
    user_id: str
    page_size: int
    limit: int | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class PreviewScheduleInput:
    spec: ScheduleSpec
    after: datetime | None
    count: int
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DescribeScheduleInput:
    id: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class UpdateScheduleInput:
    """The whole update: `updater` is asked behind the interceptors, again when another was faster."""

    id: str
    updater: Updater
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class PauseScheduleInput:
    id: str
    note: str | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class UnpauseScheduleInput:
    id: str
    note: str | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class TriggerScheduleInput:
    id: str
    overlap: ScheduleOverlapPolicy | None
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class BackfillScheduleInput:
    id: str
    backfills: Sequence[ScheduleBackfill]
    dry_run: bool
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class DeleteScheduleInput:
    id: str
    reason: str
    rpc_timeout: timedelta | None


@dataclass(kw_only=True)
class ListScheduleSlotsInput:
    id: str
    outcomes: Sequence[ScheduleSlotOutcome]
    start_at: datetime | None
    end_at: datetime | None
    page_size: int
    limit: int | None
    rpc_timeout: timedelta | None
