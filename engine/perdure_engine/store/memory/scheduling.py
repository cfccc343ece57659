"""Schedules in memory."""

from __future__ import annotations

from perdure_engine.ports.rows import ScheduleRow, ScheduleSlotRow
from perdure_engine.store.memory.faults import Faults, Moment
from perdure_engine.store.memory.tables import Tables


class MemorySchedules:
    """`ScheduleStore` in memory."""

    tables: Tables
    faults: Faults

    async def load_schedules(
        self, shard_id: int, after: tuple[bytes, str] | None, limit: int
    ) -> list[ScheduleRow]:
        await self.faults.meet("load_schedules", Moment.BEFORE)
        rows = self.tables.schedules.in_order(shard_id)
        return [
            row for row in rows if after is None or (row.namespace_id, row.schedule_id) > after
        ][:limit]

    async def load_schedule(
        self, shard_id: int, namespace_id: bytes, schedule_id: str
    ) -> ScheduleRow | None:
        await self.faults.meet("load_schedule", Moment.BEFORE)
        return self.tables.schedules.get(shard_id, (namespace_id, schedule_id))

    async def list_schedules(
        self, namespace_id: bytes, id_prefix: str, user_id: str, after_id: str, limit: int
    ) -> list[ScheduleRow]:
        await self.faults.meet("list_schedules", Moment.BEFORE)
        rows = [
            row
            for row in self.tables.schedules.all()
            if row.namespace_id == namespace_id
            and row.schedule_id.startswith(id_prefix)
            and row.schedule_id > after_id
            and user_id in ("", row.user_id)
            and not row.gone
        ]
        return sorted(rows, key=lambda row: row.schedule_id)[:limit]

    async def list_slots(
        self,
        shard_id: int,
        namespace_id: bytes,
        schedule_id: str,
        outcomes: tuple[int, ...],
        from_us: int,
        to_us: int,
        past: tuple[int, int] | None,
        limit: int,
    ) -> list[ScheduleSlotRow]:
        await self.faults.meet("list_slots", Moment.BEFORE)
        rows = [
            row
            for row in self.tables.schedule_slots.in_order(shard_id)
            if (row.namespace_id, row.schedule_id) == (namespace_id, schedule_id)
            and (not outcomes or row.outcome in outcomes)
            and row.nominal_us >= from_us
            and (not to_us or row.nominal_us < to_us)
            and (past is None or (row.nominal_us, row.origin) < past)
        ]
        return rows[::-1][:limit]
