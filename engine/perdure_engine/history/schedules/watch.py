"""Looks each minute for schedules that nothing would wake, and for open job runs that have ended without being heard
of: silence is the worst failure (bug report 1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure_engine.core.schedules.intents import MendSchedules
from perdure_engine.core.schedules.model import ScheduleRecord
from perdure_engine.core.schedules.overlap import is_job
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.schedules.schedules import Schedules

EVERY_S = 60.0
OVERDUE_US = 2_000_000  # after its time: an engine that is well decides within a second
OPEN_US = 600_000_000  # a job run that is open for so long is looked at
LOOKED_AT_MAX = 1_000  # schedules with such runs, at each look


class ScheduleWatch:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._task: asyncio.Task[None] | None = None
        self._seen = b""  # up to which uid open job runs were looked at
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
        await self._look_at_jobs(low_us)

    async def _look_at_jobs(self, low_us: int) -> None:
        """Some each time, in the order of their uids."""
        schedules = self._schedules
        long_open = sorted(
            record.uid
            for record in schedules.records.values()
            if any(
                is_job(action) and action.nominal_us < low_us - OPEN_US
                for action in record.state.actions
            )
        )
        looked_at = [uid for uid in long_open if uid > self._seen][:LOOKED_AT_MAX]
        self._seen = looked_at[-1] if len(looked_at) == LOOKED_AT_MAX else b""
        await schedules.loading.load_jobs([schedules.records[uid] for uid in looked_at])

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
