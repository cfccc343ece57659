"""Entries in the installation's own chain of the audit log, which no shard owns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure_engine.core.audit import INSTALLATION, AuditRow, Entry, Head, append
from perdure_engine.core.errors import unavailable
from perdure_engine.ports.audit import UNIQUE_VIOLATION, AuditStore
from perdure_engine.ports.store import BatchRefused

T = TypeVar("T")
TRIES_MAX = 20  # actions on namespaces and jobs are rare: so many at once are no accident


class InstallationLedger:
    """Implements ports.audit.Ledger: looks where the chain ends, and lets the database say who was first."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    async def write(self, entry: Entry, save: Callable[[AuditRow], Awaitable[T]]) -> T:
        """Raises UNAVAILABLE when others are always first."""
        for _ in range(TRIES_MAX):
            heads = await self._store.load_audit_heads([INSTALLATION])
            row, _ = append(heads[0] if heads else Head(INSTALLATION), entry)
            try:
                return await save(row)
            except BatchRefused as error:
                if error.sqlstate != UNIQUE_VIOLATION:
                    raise
        raise unavailable("AUDIT_BUSY", "too many changes at the same time; try again")
