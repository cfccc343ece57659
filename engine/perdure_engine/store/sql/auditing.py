"""The audit log's part of the store."""

from __future__ import annotations

from perdure_engine.core.audit import AuditRow, Head
from perdure_engine.ports.audit import AuditFilter, AuditKey
from perdure_engine.store.sql import audit, audit_begins
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.parameters import Instant, Int4, Int4s, Int8


class SqlAudit:
    """`AuditStore` on SQL."""

    _access: Access

    async def load_audit_heads(self, chains: list[int]) -> list[Head]:
        rows = await self._access.read(audit.HEADS, [Int4s(chains)])
        return [Head(*row) for row in rows]

    async def load_audit_begins(self) -> list[Head]:
        return [Head(*row) for row in await self._access.read(audit_begins.LIST)]

    async def load_audit(self, chain: int, after_seq: int, limit: int) -> list[AuditRow]:
        values = (Int4(chain), Int8(after_seq), Int8(limit))
        return [AuditRow._make(row) for row in await self._access.read(audit.READ, values)]

    async def list_audit(
        self, where: AuditFilter, before: AuditKey | None, limit: int
    ) -> list[AuditRow]:
        text, values = audit.list_statement(where, before, limit)
        rows = await self._access.read_list(text, values, prepare=True)
        return [AuditRow._make(row) for row in rows]

    async def append_audit(self, row: AuditRow) -> None:
        await self._access.write_repeatedly(audit.APPEND, audit.rows_parameters([row]))

    async def load_audit_expired(self, chain: int, before_us: int, limit: int) -> Head | None:
        values = (Int4(chain), Instant(before_us), Int8(limit))
        rows = await self._access.read(audit.EXPIRED, values)
        return Head(*rows[0]) if rows else None

    async def drop_audit(self, begin: Head) -> None:
        values = (Int4(begin.chain), Int8(begin.seq), begin.hash, Instant(begin.time_us))
        await self._access.write_repeatedly(audit_begins.DROP, values)
