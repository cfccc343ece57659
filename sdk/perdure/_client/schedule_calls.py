"""What is asked about schedules that are there, behind the interceptors."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from perdure._client.core import ClientCore
from perdure._client.paging import read_pages
from perdure._client.schedule_actions import read_action, wire_action
from perdure._client.schedule_inputs import (
    BackfillScheduleInput,
    DeleteScheduleInput,
    DescribeScheduleInput,
    ListSchedulesInput,
    ListScheduleSlotsInput,
    PauseScheduleInput,
    PreviewScheduleInput,
    TriggerScheduleInput,
    UnpauseScheduleInput,
    UpdateScheduleInput,
)
from perdure._schedules.told import (
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleListDescription,
    SchedulePreview,
    ScheduleSlot,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from perdure._wire.schedule_service import Asked, ScheduleTarget
from perdure.errors import RPCError, RPCStatusCode

T = TypeVar("T")

# Tries of an update that others come before: so many in a row are no accident.
_UPDATES_MAX = 20
_PAUSED = "Paused via Python SDK"
_UNPAUSED = "Unpaused via Python SDK"


def list_schedules(
    core: ClientCore, asked: ListSchedulesInput
) -> AsyncIterator[ScheduleListDescription]:
    page = partial(core.schedule_service.list, core.namespace, asked.id_prefix, asked.user_id)
    return read_pages(core, page, asked.page_size, asked.limit, asked.rpc_timeout)


async def preview(core: ClientCore, asked: PreviewScheduleInput) -> SchedulePreview:
    preview = partial(core.schedule_service.preview, asked.spec, asked.after, asked.count)
    return await core.unary(preview, asked.rpc_timeout)


async def describe(core: ClientCore, asked: DescribeScheduleInput) -> ScheduleDescription:
    return await _describe(core, asked.id, asked.rpc_timeout, keeps_unreadable=True)


async def update(core: ClientCore, asked: UpdateScheduleInput) -> Sequence[ScheduleSlot]:
    tries = 0
    while True:
        found = await _describe(core, asked.id, asked.rpc_timeout, keeps_unreadable=False)
        wanted = asked.updater(ScheduleUpdateInput(found))
        update = await wanted if inspect.isawaitable(wanted) else wanted
        if update is None:
            return ()
        try:
            return await _save(core, asked, update, found.conflict_token)
        except RPCError as error:
            tries += 1
            if error.status is not RPCStatusCode.ABORTED or tries == _UPDATES_MAX:
                raise


async def pause(core: ClientCore, asked: PauseScheduleInput) -> Sequence[ScheduleSlot]:
    note = _PAUSED if asked.note is None else asked.note
    pause = partial(core.schedule_service.pause, _target(core, asked.id), note)
    return await one_request(core, pause, asked.rpc_timeout)


async def unpause(core: ClientCore, asked: UnpauseScheduleInput) -> None:
    note = _UNPAUSED if asked.note is None else asked.note
    unpause = partial(core.schedule_service.unpause, _target(core, asked.id), note)
    await one_request(core, unpause, asked.rpc_timeout)


async def trigger(core: ClientCore, asked: TriggerScheduleInput) -> ScheduleSlot:
    trigger = partial(core.schedule_service.trigger, _target(core, asked.id), asked.overlap)
    return await one_request(core, trigger, asked.rpc_timeout)


async def backfill(core: ClientCore, asked: BackfillScheduleInput) -> ScheduleBackfillResult:
    if not asked.backfills:
        raise ValueError("give at least one ScheduleBackfill")
    target = _target(core, asked.id)
    acted: list[datetime] = []
    before: list[datetime] = []
    for span in asked.backfills:
        send = partial(core.schedule_service.backfill, target, span, dry_run=asked.dry_run)
        told = await one_request(core, send, asked.rpc_timeout)
        acted += told.action_times
        before += told.fired_before
    return ScheduleBackfillResult(action_times=acted, fired_before=before)


async def delete(core: ClientCore, asked: DeleteScheduleInput) -> Sequence[ScheduleSlot]:
    delete = partial(core.schedule_service.delete, _target(core, asked.id), asked.reason)
    return await one_request(core, delete, asked.rpc_timeout)


def list_slots(core: ClientCore, asked: ListScheduleSlotsInput) -> AsyncIterator[ScheduleSlot]:
    page = partial(
        core.schedule_service.list_slots,
        *(_target(core, asked.id), asked.outcomes, (asked.start_at, asked.end_at)),
    )
    return read_pages(core, page, asked.page_size, asked.limit, asked.rpc_timeout)


async def _describe(
    core: ClientCore, id: str, rpc_timeout: timedelta | None, *, keeps_unreadable: bool
) -> ScheduleDescription:
    describe = partial(
        core.schedule_service.describe,
        *(_target(core, id), read_action),
        keeps_unreadable=keeps_unreadable,
    )
    return await core.unary(describe, rpc_timeout)


async def _save(
    core: ClientCore, asked: UpdateScheduleInput, update: ScheduleUpdate, conflict_token: int
) -> Sequence[ScheduleSlot]:
    schedule = update.schedule
    action = wire_action(schedule.action, core.converter)
    target = _target(core, asked.id)
    save = partial(core.schedule_service.update, target, schedule, action, conflict_token)
    return await one_request(core, save, asked.rpc_timeout)


def _target(core: ClientCore, id: str) -> ScheduleTarget:
    return ScheduleTarget(core.namespace, id)


async def one_request(
    core: ClientCore, send: Callable[[Asked, float], Awaitable[T]], rpc_timeout: timedelta | None
) -> T:
    """However often it goes out, it is one request."""
    asked = Asked(core.surroundings.new_uuid(), core.identity)
    return await core.unary(partial(send, asked), rpc_timeout)
