"""Batch operations in memory."""

from __future__ import annotations

from collections.abc import Callable

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.batches import (
    BatchKey,
    BatchRow,
    PartRow,
    PartState,
    Target,
    TargetPage,
    rows_to_look_at,
    target_page,
)
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.memory.audit import insert_audit
from perdure_engine.store.memory.faults import Faults, Moment
from perdure_engine.store.memory.filters import listed
from perdure_engine.store.memory.tables import Tables


class MemoryBatches:
    """`BatchStore` in memory."""

    tables: Tables
    faults: Faults
    clock: Callable[[], int]

    async def start_batch(self, row: BatchRow, audited: AuditRow) -> bool:
        await self.faults.meet("start_batch", Moment.BEFORE)
        key = (row.namespace_id, row.job_id)
        if key in self.tables.batch_operations:
            return False
        insert_audit(self.tables, audited)
        self.tables.batch_operations[key] = row._replace(stopped_us=None)
        for shard_id in self.tables.fences:
            part = PartRow(
                *(shard_id, row.namespace_id, row.job_id, PartState.OPEN, bytes(16), ()),
                *(0, 0, "", row.started_us, 1),
            )
            self.tables.batch_parts.put(part)
        await self.faults.meet("start_batch", Moment.AFTER)
        return True

    async def stop_batch(self, row: BatchRow, audited: AuditRow) -> bool:
        await self.faults.meet("stop_batch", Moment.BEFORE)
        key = (row.namespace_id, row.job_id)
        stored = self.tables.batch_operations.get(key)
        if stored is None or stored.stopped_us is not None or stored.started_us != row.started_us:
            return False
        insert_audit(self.tables, audited)
        self.tables.batch_operations[key] = stored._replace(stopped_us=row.stopped_us)
        await self.faults.meet("stop_batch", Moment.AFTER)
        return True

    async def load_batch(self, namespace_id: bytes, job_id: str) -> BatchRow | None:
        await self.faults.meet("load_batch", Moment.BEFORE)
        return self.tables.batch_operations.get((namespace_id, job_id))

    async def load_batch_parts(self, namespace_id: bytes, job_id: str) -> list[PartRow]:
        await self.faults.meet("load_batch_parts", Moment.BEFORE)
        return self._parts(namespace_id, job_id)

    async def list_batches(
        self, namespace_id: bytes, before: BatchKey | None, limit: int
    ) -> list[BatchRow]:
        await self.faults.meet("list_batches", Moment.BEFORE)
        rows = [
            row
            for row in self.tables.batch_operations.values()
            if row.namespace_id == namespace_id and (before is None or _key(row) < before)
        ]
        return sorted(rows, key=_key, reverse=True)[:limit]

    async def load_open_batch_parts(self, shard_ids: list[int]) -> list[PartRow]:
        await self.faults.meet("load_open_batch_parts", Moment.BEFORE)
        rows = [
            row for one in sorted(set(shard_ids)) for row in self.tables.batch_parts.in_order(one)
        ]
        return [row for row in rows if row.state == PartState.OPEN]

    async def save_batch_part(self, row: PartRow) -> bool:
        await self.faults.meet("save_batch_part", Moment.BEFORE)
        stored = self.tables.batch_parts.get(row.shard_id, (row.namespace_id, row.job_id))
        if stored is None or stored.version != row.version:
            return False
        self.tables.batch_parts.put(row._replace(version=row.version + 1))
        await self.faults.meet("save_batch_part", Moment.AFTER)
        return True

    async def load_batch_targets(
        self, shard_id: int, where: VisibilityFilter, after_run_id: bytes, limit: int
    ) -> TargetPage:
        await self.faults.meet("load_batch_targets", Moment.BEFORE)
        looked_at = rows_to_look_at(limit)
        rows = [
            row for row in self.tables.visibility.in_order(shard_id) if row.run_id > after_run_id
        ]
        found = [(Target(row.run_id, row.workflow_id), listed(where, row)) for row in rows]
        return target_page(found[:looked_at], looked_at, limit)

    async def remove_batch(self, namespace_id: bytes, job_id: str) -> None:
        await self.faults.meet("remove_batch", Moment.BEFORE)
        self.tables.batch_operations.pop((namespace_id, job_id), None)
        for part in self._parts(namespace_id, job_id):
            self.tables.batch_parts.delete(part)
        await self.faults.meet("remove_batch", Moment.AFTER)

    def _parts(self, namespace_id: bytes, job_id: str) -> list[PartRow]:
        found = [
            self.tables.batch_parts.get(shard_id, (namespace_id, job_id))
            for shard_id in sorted(self.tables.fences)
        ]
        return [part for part in found if part is not None]


def _key(row: BatchRow) -> BatchKey:
    return row.started_us, row.job_id
