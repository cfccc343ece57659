"""The part of `Client` that is about schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from perdure._client import schedule_calls
from perdure._client.core import ClientCore
from perdure._client.schedule_actions import wire_action
from perdure._client.schedule_handle import ScheduleHandle
from perdure._client.schedule_inputs import (
    CreateScheduleInput,
    ListSchedulesInput,
    PreviewScheduleInput,
)
from perdure._schedules.definition import Schedule
from perdure._schedules.times import ScheduleSpec
from perdure._schedules.told import ScheduleListDescription, SchedulePreview
from perdure._wire.schedule_service import NewSchedule, ScheduleTarget
from perdure.errors import RPCError, RPCStatusCode, ScheduleAlreadyRunningError

_PAGE_SIZE = 100


class ScheduleAsyncIterator:
    """The schedules of a list, fetched as they are read. It can be read once."""

    def __init__(self, found: AsyncIterator[ScheduleListDescription]) -> None:
        self._found = found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ScheduleListDescription:
        return await anext(self._found)


class Schedules:
    """`client.schedules`. Every method takes `rpc_timeout` and raises RPCError."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    async def create(
        self,
        id: str,
        schedule: Schedule,
        *,
        trigger_immediately: bool = False,
        user_id: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleHandle:
        """Returns when it is saved: from then on its slots are acted for.

        With `trigger_immediately` once at once, too. `user_id`: whose it is, for lists. Raises
        ScheduleAlreadyRunningError when the id is taken, and INVALID_ARGUMENT for times that never
        come, say.
        """
        asked = CreateScheduleInput(
            id=id,
            schedule=schedule,
            trigger_immediately=trigger_immediately,
            user_id=user_id,
            rpc_timeout=rpc_timeout,
        )
        outbound = self._core.outbound
        if outbound is None:
            return await create_schedule(self._core, asked)
        return await outbound.create_schedule(asked)

    def get(self, id: str) -> ScheduleHandle:
        """Asks nobody: that there is no such schedule is told by the first call."""
        return ScheduleHandle(self._core, id)

    def list(
        self,
        *,
        id_prefix: str = "",
        user_id: str = "",
        page_size: int = _PAGE_SIZE,
        limit: int | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleAsyncIterator:
        """Schedules that fit every filter given, by id. `rpc_timeout` is each page's."""
        asked = ListSchedulesInput(
            id_prefix=id_prefix,
            user_id=user_id,
            page_size=page_size,
            limit=limit,
            rpc_timeout=rpc_timeout,
        )
        outbound = self._core.outbound
        if outbound is None:
            return ScheduleAsyncIterator(schedule_calls.list_schedules(self._core, asked))
        return ScheduleAsyncIterator(outbound.list_schedules(asked))

    async def preview(
        self,
        spec: ScheduleSpec,
        *,
        after: datetime | None = None,
        count: int = 10,
        rpc_timeout: timedelta | None = None,
    ) -> SchedulePreview:
        """The next `count` times of a spec, 1,000 at most, past `after` (now) and without jitter.
        Nothing is saved. Raises INVALID_ARGUMENT for a spec that no schedule could have."""
        asked = PreviewScheduleInput(spec=spec, after=after, count=count, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await schedule_calls.preview(self._core, asked)
        return await outbound.preview_schedule(asked)


class ClientSchedules:
    """The same under the names that temporalio has."""

    _core: ClientCore

    @property
    def schedules(self) -> Schedules:
        return Schedules(self._core)

    async def create_schedule(
        self,
        id: str,
        schedule: Schedule,
        *,
        trigger_immediately: bool = False,
        user_id: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleHandle:
        """As `schedules.create`."""
        return await self.schedules.create(
            id,
            schedule,
            trigger_immediately=trigger_immediately,
            user_id=user_id,
            rpc_timeout=rpc_timeout,
        )

    def get_schedule_handle(self, id: str) -> ScheduleHandle:
        """As `schedules.get`."""
        return self.schedules.get(id)

    async def list_schedules(
        self,
        *,
        id_prefix: str = "",
        user_id: str = "",
        page_size: int = _PAGE_SIZE,
        limit: int | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> ScheduleAsyncIterator:
        """As `schedules.list`; awaited, as in temporalio, though it fetches nothing yet."""
        return self.schedules.list(
            id_prefix=id_prefix,
            user_id=user_id,
            page_size=page_size,
            limit=limit,
            rpc_timeout=rpc_timeout,
        )


async def create_schedule(core: ClientCore, asked: CreateScheduleInput) -> ScheduleHandle:
    """Behind the interceptors."""
    new = NewSchedule(
        schedule=asked.schedule,
        action=wire_action(asked.schedule.action, core.converter),
        user_id=asked.user_id,
        trigger_immediately=asked.trigger_immediately,
    )
    target = ScheduleTarget(core.namespace, asked.id)
    create = partial(core.schedule_service.create, target, new)
    try:
        await schedule_calls.one_request(core, create, asked.rpc_timeout)
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            raise ScheduleAlreadyRunningError(asked.id) from None
        raise
    return ScheduleHandle(core, asked.id)
