"""What shards and lists read of schedules."""

from __future__ import annotations

from typing import Final

from perdure_engine.ports.rows import ScheduleRow, ScheduleSlotRow
from perdure_engine.store.sql import schedule_slots, schedules
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.parameters import Int4, Int8, Uuid

_BEFORE_ALL: Final = (bytes(16), "")


class SqlSchedules:
    """`ScheduleStore` on SQL."""

    _access: Access

    async def load_schedules(
        self, shard_id: int, after: tuple[bytes, str] | None, limit: int
    ) -> list[ScheduleRow]:
        namespace_id, schedule_id = after or _BEFORE_ALL
        values = (Int4(shard_id), Uuid(namespace_id), schedule_id, Int8(limit))
        rows = await self._access.read(schedules.READ_AFTER, values)
        return [ScheduleRow._make(row) for row in rows]

    async def load_schedule(
        self, shard_id: int, namespace_id: bytes, schedule_id: str
    ) -> ScheduleRow | None:
        values = (Int4(shard_id), Uuid(namespace_id), schedule_id)
        rows = await self._access.read(schedules.READ, values)
        return ScheduleRow._make(rows[0]) if rows else None

    async def list_schedules(
        self, namespace_id: bytes, id_prefix: str, user_id: str, after_id: str, limit: int
    ) -> list[ScheduleRow]:
        values = (Uuid(namespace_id), after_id, id_prefix, user_id, Int8(limit))
        rows = await self._access.read_list(schedules.LIST, values, prepare=True)
        return [ScheduleRow._make(row) for row in rows]

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
        values = schedule_slots.list_parameters(
            shard_id, namespace_id, schedule_id, outcomes, from_us, to_us, past, limit
        )
        rows = await self._access.read_list(schedule_slots.LIST, values, prepare=True)
        return [ScheduleSlotRow._make(row) for row in rows]
