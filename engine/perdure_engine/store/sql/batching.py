"""Batch operations' part of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.batches import (
    BatchKey,
    BatchRow,
    PartRow,
    Target,
    TargetPage,
    decode_job,
    decode_pending,
    rows_to_look_at,
    target_page,
)
from perdure_engine.ports.store import GuardFailed, VisibilityFilter
from perdure_engine.store.sql import batch_operations, batch_parts, visibility
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.parameters import Int4s, Uuid


class SqlBatches:
    """`BatchStore` on SQL."""

    _access: Access

    async def start_batch(self, row: BatchRow, audited: AuditRow) -> bool:
        values = batch_operations.start_parameters(row, audited)
        return bool(await self._access.write_repeatedly(batch_operations.START, values))

    async def stop_batch(self, row: BatchRow, audited: AuditRow) -> bool:
        values = batch_operations.stop_parameters(row, audited)
        try:
            return bool(await self._access.write_repeatedly(batch_operations.STOP, values))
        except GuardFailed:  # there is none, or another of that id
            return False

    async def load_batch(self, namespace_id: bytes, job_id: str) -> BatchRow | None:
        rows = await self._access.read(batch_operations.READ, (Uuid(namespace_id), job_id))
        return _batch(rows[0]) if rows else None

    async def load_batch_parts(self, namespace_id: bytes, job_id: str) -> list[PartRow]:
        rows = await self._access.read(batch_parts.READ_JOB, (Uuid(namespace_id), job_id))
        return [_part(row) for row in rows]

    async def list_batches(
        self, namespace_id: bytes, before: BatchKey | None, limit: int
    ) -> list[BatchRow]:
        values = batch_operations.page_parameters(namespace_id, before, limit)
        return [_batch(row) for row in await self._access.read(batch_operations.LIST, values)]

    async def load_open_batch_parts(self, shard_ids: list[int]) -> list[PartRow]:
        rows = await self._access.read(batch_parts.READ_OPEN, [Int4s(shard_ids)])
        return [_part(row) for row in rows]

    async def save_batch_part(self, row: PartRow) -> bool:
        values = batch_parts.save_parameters(row)
        try:
            return bool(await self._access.write_repeatedly(batch_parts.SAVE, values))
        except GuardFailed:  # it is gone
            return False

    async def load_batch_targets(
        self, shard_id: int, where: VisibilityFilter, after_run_id: bytes, limit: int
    ) -> TargetPage:
        looked_at = rows_to_look_at(limit)
        text, values = visibility.targets_statement(where, shard_id, after_run_id, looked_at)
        rows = await self._access.read(text, values, prepare=where.expression is None)
        found = [
            (Target(run_id, workflow_id), found) for run_id, workflow_id, found in sorted(rows)
        ]
        return target_page(found, looked_at, limit)

    async def remove_batch(self, namespace_id: bytes, job_id: str) -> None:
        parts = await self.load_batch_parts(namespace_id, job_id)
        values = (Uuid(namespace_id), job_id, Int4s([part.shard_id for part in parts]))
        await self._access.write_repeatedly(batch_operations.REMOVE, values)


def _batch(row: Sequence[Any]) -> BatchRow:
    namespace_id, job_id, started_us, stopped_us, job = row
    return BatchRow(namespace_id, job_id, started_us, stopped_us, decode_job(job))


def _part(row: Sequence[Any]) -> PartRow:
    part = PartRow._make(row)
    return part._replace(pending=decode_pending(row[5]) if row[5] else ())
