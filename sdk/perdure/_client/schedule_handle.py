"""A schedule, as its handle knows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from perdure._client import schedule_calls
from perdure._client.core import ClientCore
from perdure._client.schedule_inputs import (
    BackfillScheduleInput,
    DeleteScheduleInput,
    DescribeScheduleInput,
    ListScheduleSlotsInput,
    PauseScheduleInput,
    TriggerScheduleInput,
    UnpauseScheduleInput,
    Updater,
    UpdateScheduleInput,
)
from perdure._schedules.definition import ScheduleBackfill, ScheduleOverlapPolicy
from perdure._schedules.told import (
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleSlot,
    ScheduleSlotOutcome,
)

_SLOTS_PAGE_SIZE = 100


class ScheduleHandle:
    """Made by `Client.create_schedule` and `Client.get_schedule_handle`.

    Every method takes `rpc_timeout`, of each call that it makes, and raises RPCError: NOT_FOUND when
    there is no such schedule. What changes the schedule stands in the audit log.
    """

    def __init__(self, core: ClientCore, id: str) -> None:
        self._core = core
        self._id = id

    @property
    def id(self) -> str:
        return self._id

    async def describe(self, *, rpc_timeout: timedelta | None = None) -> ScheduleDescription:
        asked = DescribeScheduleInput(id=self._id, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.describe(self._core, asked)
        return await outbound.describe_schedule(asked)

    async def update(
        self, updater: Updater, *, rpc_timeout: timedelta | None = None
    ) -> Sequence[ScheduleSlot]:
        """Gives the schedule as it is to `updater`, a function or a coroutine function, and saves what
        that returns; None: it stays as it is.

        When somebody else was faster, `updater` is asked again with the new one. From the return on
        no slot follows the old one; slots that were on their way then are returned.
        """
        asked = UpdateScheduleInput(id=self._id, updater=updater, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.update(self._core, asked)
        return await outbound.update_schedule(asked)

    async def pause(
        self, *, note: str | None = None, rpc_timeout: timedelta | None = None
    ) -> Sequence[ScheduleSlot]:
        """Its slots are recorded from now on, and not acted for. Returns those that are on their way."""
        asked = PauseScheduleInput(id=self._id, note=note, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.pause(self._core, asked)
        return await outbound.pause_schedule(asked)

    async def unpause(
        self, *, note: str | None = None, rpc_timeout: timedelta | None = None
    ) -> None:
        asked = UnpauseScheduleInput(id=self._id, note=note, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            await schedule_calls.unpause(self._core, asked)
        else:
            await outbound.unpause_schedule(asked)

    async def trigger(
        self,
        *,
        overlap: ScheduleOverlapPolicy | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleSlot:
        """Its action now, as a slot of its own, also when it is paused. `overlap` instead of its
        policy; the outcome says whether it was taken."""
        asked = TriggerScheduleInput(id=self._id, overlap=overlap, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.trigger(self._core, asked)
        return await outbound.trigger_schedule(asked)

    async def backfill(
        self,
        *backfill: ScheduleBackfill,
        dry_run: bool = False,
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleBackfillResult:
        """Acts now for the slots of spans of time. What has had its action is left alone.

        With `dry_run` it only says what would be. The spans are separate calls, in order. Raises
        RPCError INVALID_ARGUMENT for a span of over 1,000 slots.
        """
        asked = BackfillScheduleInput(
            id=self._id, backfills=backfill, dry_run=dry_run, rpc_timeout=rpc_timeout
        )
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.backfill(self._core, asked)
        return await outbound.backfill_schedule(asked)

    async def delete(
        self, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> Sequence[ScheduleSlot]:
        """What its slots have begun goes on; those that were on their way are returned."""
        asked = DeleteScheduleInput(id=self._id, reason=reason, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.delete(self._core, asked)
        return await outbound.delete_schedule(asked)

    def slots(
        self,
        *,
        outcomes: Sequence[ScheduleSlotOutcome] = (),
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        page_size: int = _SLOTS_PAGE_SIZE,
        limit: int | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> AsyncIterator[ScheduleSlot]:
        """What became of each of its times, newest first, fetched as they are read.

        From `start_at`, inclusive, to `end_at`, exclusive.
        """
        asked = ListScheduleSlotsInput(
            id=self._id,
            outcomes=outcomes,
            start_at=start_at,
            end_at=end_at,
            page_size=page_size,
            limit=limit,
            rpc_timeout=rpc_timeout,
        )
        outbound = self._core.outbound
        if outbound is None:
            return schedule_calls.list_slots(self._core, asked)
        return outbound.list_schedule_slots(asked)
