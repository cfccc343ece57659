"""What has been kept long enough: rows of the audit log, and batch operations that are over.

A chain of the log loses rows from its front only. First the installation's chain says which is the last
row that goes, and its hash; then they go, and the same is kept as the chain's beginning, so that what is
left can be verified and a beginning that nobody wrote down is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from perdure_engine.core.audit import ENGINE, INSTALLATION, Action, Entry, begins_at
from perdure_engine.core.limits import AUDIT_KEPT_US
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.audit import AuditStore, Ledger
from perdure_engine.ports.batches import BatchKey, BatchRow, BatchStore, PartState
from perdure_engine.ports.store import NamespaceRow

ROWS_PER_SWEEP = 5_000
JOBS_PER_PAGE = 100


class ExpiryStore(AuditStore, BatchStore, Protocol):
    async def list_namespaces(self) -> list[NamespaceRow]: ...


class Expiry:
    def __init__(
        self,
        rooms: Rooms,
        store: ExpiryStore,
        ledger: Ledger,
        shards: Callable[[], Iterable[Shard]],
    ) -> None:
        self._rooms = rooms
        self._store = store
        self._ledger = ledger
        self._shards = shards

    async def run_once(self) -> None:
        """The installation's chain and jobs are everybody's: two nodes that meet do no harm. Raises StoreError."""
        now_us = self._rooms.database_clock.low_us()
        for chain in (INSTALLATION, *(shard.shard_id for shard in self._shards())):
            await self._expire(chain, now_us)
        for namespace in await self._store.list_namespaces():
            await self._remove_jobs(namespace, now_us)

    async def _expire(self, chain: int, now_us: int) -> None:
        while begin := await self._store.load_audit_expired(
            chain, now_us - AUDIT_KEPT_US, ROWS_PER_SWEEP
        ):
            entry = Entry(
                time_us=now_us,
                action=Action.EXPIRE_AUDIT,
                identity=ENGINE,
                subject=str(chain),
                after=begins_at(begin),
            )
            await self._ledger.write(entry, self._store.append_audit)
            await self._store.drop_audit(begin)

    async def _remove_jobs(self, namespace: NamespaceRow, now_us: int) -> None:
        before: BatchKey | None = None
        while rows := await self._store.list_batches(namespace.namespace_id, before, JOBS_PER_PAGE):
            for row in rows:
                closed_us = await self._closed_us(row)
                if closed_us and closed_us + namespace.retention_ms * 1_000 <= now_us:
                    await self._store.remove_batch(row.namespace_id, row.job_id)
            before = (rows[-1].started_us, rows[-1].job_id)

    async def _closed_us(self, row: BatchRow) -> int:
        """0: some part of it is still worked on."""
        parts = await self._store.load_batch_parts(row.namespace_id, row.job_id)
        if any(part.state == PartState.OPEN for part in parts):
            return 0
        return max((part.saved_us for part in parts), default=row.started_us)
