"""A schedule, as its handle knows it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from perdure._client.core import ClientCore
from perdure._client.paging import read_pages
from perdure._client.schedule_actions import read_action, wire_action
from perdure._schedules.definition import ScheduleBackfill, ScheduleOverlapPolicy
from perdure._schedules.told import (
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleSlot,
    ScheduleSlotOutcome,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from perdure._wire.schedule_service import Asked, ScheduleTarget
from perdure.errors import RPCError, RPCStatusCode

T = TypeVar("T")

Updater = Callable[[ScheduleUpdateInput], ScheduleUpdate | Awaitable[ScheduleUpdate | None] | None]

# Tries of an update that others come before: so many in a row are no accident.
_UPDATES_MAX = 20
_SLOTS_PAGE_SIZE = 100
_PAUSED = "Paused via Python SDK"
_UNPAUSED = "Unpaused via Python SDK"


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
        return await self._describe(rpc_timeout, keeps_unreadable=True)

    async def update(
        self, updater: Updater, *, rpc_timeout: timedelta | None = None
    ) -> Sequence[ScheduleSlot]:
        """Gives the schedule as it is to `updater`, a function or a coroutine function, and saves what
        that returns; None: it stays as it is.

        When somebody else was faster, `updater` is asked again with the new one. From the return on
        no slot follows the old one; slots that were on their way then are returned.
        """
        tries = 0
        while True:
            found = await self._describe(rpc_timeout, keeps_unreadable=False)
            wanted = updater(ScheduleUpdateInput(found))
            update = await wanted if inspect.isawaitable(wanted) else wanted
            if update is None:
                return ()
            try:
                return await self._save(update, found.conflict_token, rpc_timeout)
            except RPCError as error:
                tries += 1
                if error.status is not RPCStatusCode.ABORTED or tries == _UPDATES_MAX:
                    raise

    async def _save(
        self, update: ScheduleUpdate, conflict_token: int, rpc_timeout: timedelta | None
    ) -> Sequence[ScheduleSlot]:
        service = self._core.schedule_service
        action = wire_action(update.schedule.action, self._core.converter)
        return await self._send(
            partial(service.update, self._target, update.schedule, action, conflict_token),
            rpc_timeout,
        )

    async def pause(
        self, *, note: str | None = None, rpc_timeout: timedelta | None = None
    ) -> Sequence[ScheduleSlot]:
        """Its slots are recorded from now on, and not acted for. Returns those that are on their way."""
        service = self._core.schedule_service
        return await self._send(
            partial(service.pause, self._target, _PAUSED if note is None else note), rpc_timeout
        )

    async def unpause(
        self, *, note: str | None = None, rpc_timeout: timedelta | None = None
    ) -> None:
        service = self._core.schedule_service
        await self._send(
            partial(service.unpause, self._target, _UNPAUSED if note is None else note), rpc_timeout
        )

    async def trigger(
        self,
        *,
        overlap: ScheduleOverlapPolicy | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleSlot:
        """Its action now, as a slot of its own, also when it is paused. `overlap` instead of its
        policy; the outcome says whether it was taken."""
        service = self._core.schedule_service
        return await self._send(partial(service.trigger, self._target, overlap), rpc_timeout)

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
        if not backfill:
            raise ValueError("give at least one ScheduleBackfill")
        service = self._core.schedule_service
        acted: list[datetime] = []
        before: list[datetime] = []
        for span in backfill:
            send = partial(service.backfill, self._target, span, dry_run=dry_run)
            told = await self._send(send, rpc_timeout)
            acted += told.action_times
            before += told.fired_before
        return ScheduleBackfillResult(action_times=acted, fired_before=before)

    async def delete(
        self, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> Sequence[ScheduleSlot]:
        """What its slots have begun goes on; those that were on their way are returned."""
        service = self._core.schedule_service
        return await self._send(partial(service.delete, self._target, reason), rpc_timeout)

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
        service = self._core.schedule_service
        page = partial(service.list_slots, self._target, outcomes, (start_at, end_at))
        return read_pages(self._core, page, page_size, limit, rpc_timeout)

    @property
    def _target(self) -> ScheduleTarget:
        return ScheduleTarget(self._core.namespace, self._id)

    async def _describe(
        self, rpc_timeout: timedelta | None, *, keeps_unreadable: bool
    ) -> ScheduleDescription:
        send = partial(
            self._core.schedule_service.describe,
            self._target,
            read_action,
            keeps_unreadable=keeps_unreadable,
        )
        return await self._core.unary(send, rpc_timeout)

    async def _send(
        self, send: Callable[[Asked, float], Awaitable[T]], rpc_timeout: timedelta | None
    ) -> T:
        """However often it goes out, it is one request."""
        asked = Asked(self._core.surroundings.new_uuid(), self._core.identity)
        return await self._core.unary(partial(send, asked), rpc_timeout)
