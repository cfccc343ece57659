"""Looks each minute for schedules that nothing would wake: silence is the worst failure (bug report 1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure_engine.core.schedules.intents import MendSchedules
from perdure_engine.core.schedules.model import ScheduleRecord
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.schedules.schedules import Schedules

EVERY_S = 60.0
OVERDUE_US = (
    2_000_000  # after its time; a slot on an engine that is well is decided within a second
)


class ScheduleWatch:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._task: asyncio.Task[None] | None = None
        self.overdue = 0  # at the last look: without a timer in memory, or past their time

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        rooms = self._schedules.shard.rooms
        while True:
            await rooms.clock.sleep(EVERY_S)
            try:
                await self.run_once()
            except StoreError:
                continue
            except Exception as error:
                rooms.alarm("schedules_not_watched", error=error)

    async def run_once(self) -> None:
        """Raises StoreError."""
        schedules = self._schedules
        shard = schedules.shard
        if not schedules.loading.complete:
            return
        low_us = shard.rooms.database_clock.low_us()
        forgotten: list[ScheduleRecord] = []
        overdue = 0
        for record in schedules.records.values():
            state = record.state
            if record.gone or not state.next_us or record.uid in schedules.busy:
                continue
            if state.wake is None or not shard.timers.holds(*state.wake[:2]):
                forgotten.append(record)
            elif state.wake[0] < low_us - OVERDUE_US:
                overdue += 1
        self.overdue = overdue + len(forgotten)
        for record in forgotten:
            await self._mend(record)

    async def _mend(self, record: ScheduleRecord) -> None:
        schedules = self._schedules
        there = await schedules.loading.has_timer_row(record)
        if schedules.records.get(record.uid) is not record or record.uid in schedules.busy:
            return  # something has happened to it meanwhile
        shard = schedules.shard
        if there:
            shard.rooms.alarm("schedule_forgotten", schedule_id=record.schedule_id)
            shard.tell(MendSchedules(shard.shard_id, [record.uid]))
        else:
            schedules.loading.timer_lost(record)
