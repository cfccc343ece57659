"""The audit log in memory."""

from __future__ import annotations

from perdure_engine.core.audit import AuditRow, Head
from perdure_engine.ports.audit import AuditFilter, AuditKey
from perdure_engine.ports.store import BatchRefused
from perdure_engine.store.memory.checks import CHECK_VIOLATION, CONSTRAINTS, UNIQUE_VIOLATION
from perdure_engine.store.memory.faults import Faults, Moment
from perdure_engine.store.memory.tables import Tables


def insert_audit(tables: Tables, row: AuditRow | None) -> None:
    """Before the change that it tells of: what is refused has left no trace."""
    if row is None:
        return
    if not CONSTRAINTS["audit"](row):
        raise BatchRefused(CHECK_VIOLATION, "a row of audit violates a check")
    if tables.audit.get(row.shard_id, row.seq) is not None:
        raise BatchRefused(UNIQUE_VIOLATION, "a key of audit exists")
    tables.audit.put(row)


class MemoryAudit:
    """`AuditStore` in memory."""

    tables: Tables
    faults: Faults

    async def load_audit_heads(self, chains: list[int]) -> list[Head]:
        await self.faults.meet("load_audit_heads", Moment.BEFORE)
        last = [
            rows[-1] for one in sorted(set(chains)) if (rows := self.tables.audit.in_order(one))
        ]
        return [_head(row) for row in last]

    async def load_audit_begins(self) -> list[Head]:
        await self.faults.meet("load_audit_begins", Moment.BEFORE)
        return [head for _, head in sorted(self.tables.audit_begins.items())]

    async def load_audit(self, chain: int, after_seq: int, limit: int) -> list[AuditRow]:
        await self.faults.meet("load_audit", Moment.BEFORE)
        return [row for row in self.tables.audit.in_order(chain) if row.seq > after_seq][:limit]

    async def list_audit(
        self, where: AuditFilter, before: AuditKey | None, limit: int
    ) -> list[AuditRow]:
        await self.faults.meet("list_audit", Moment.BEFORE)
        rows = [row for row in self.tables.audit.all() if _matches(where, row)]
        rows.sort(key=_key, reverse=True)
        return [row for row in rows if before is None or _key(row) < before][:limit]

    async def append_audit(self, row: AuditRow) -> None:
        await self.faults.meet("append_audit", Moment.BEFORE)
        insert_audit(self.tables, row)
        await self.faults.meet("append_audit", Moment.AFTER)

    async def load_audit_expired(self, chain: int, before_us: int, limit: int) -> Head | None:
        await self.faults.meet("load_audit_expired", Moment.BEFORE)
        front = self.tables.audit.in_order(chain)[:-1][:limit]
        expired = [row for row in front if row.time_us < before_us]
        return _head(expired[-1]) if expired else None

    async def drop_audit(self, begin: Head) -> None:
        await self.faults.meet("drop_audit", Moment.BEFORE)
        for row in self.tables.audit.in_order(begin.chain):
            if row.seq <= begin.seq:
                self.tables.audit.delete(row)
        known = self.tables.audit_begins.get(begin.chain)
        if known is None or known.seq < begin.seq:
            self.tables.audit_begins[begin.chain] = begin
        await self.faults.meet("drop_audit", Moment.AFTER)


def _key(row: AuditRow) -> AuditKey:
    return row.time_us, row.shard_id, row.seq


def _head(row: AuditRow) -> Head:
    return Head(row.shard_id, row.seq, row.hash, row.time_us)


def _matches(where: AuditFilter, row: AuditRow) -> bool:
    return (
        where.namespace_id in (None, row.namespace_id)
        and where.workflow_id in ("", row.workflow_id)
        and where.action in ("", row.action)
        and row.time_us >= where.time_min_us
        and (not where.time_max_us or row.time_us < where.time_max_us)
    )
