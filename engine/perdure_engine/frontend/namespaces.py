"""The registry of namespaces: name -> row, remembered for a few seconds."""

from __future__ import annotations

import asyncio

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.core.errors import Code, Rejected, not_found
from perdure_engine.frontend import checks
from perdure_engine.ports.clock import Clock
from perdure_engine.ports.store import NamespaceRow, NamespaceStore

FRESH_S = 5.0  # design §4: how long an update may take to reach every node
# An unknown name is asked for again sooner, so that a namespace made on another node is soon usable
# here; not at once, so that a flood of unknown names is not a flood of reads.
UNKNOWN_FRESH_S = 1.0


class Namespaces:
    def __init__(self, store: NamespaceStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[str, NamespaceRow] = {}
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        # What was written while a read was on its way, which may not have seen it.
        self._written: dict[str, NamespaceRow] = {}

    def cached(self, name: str) -> NamespaceRow | None:
        """The row, when it is known and fresh. The path of nearly every call: no await."""
        if self._clock.monotonic() - self._read_at < FRESH_S:
            return self._rows.get(name)
        return None

    async def find(self, name: str) -> NamespaceRow:
        """Raises NOT_FOUND, or INVALID_ARGUMENT for what cannot be a name."""
        row = self.cached(name)
        if row is not None:
            return row
        checks.namespace_name("namespace", name)
        if self._clock.monotonic() - self._read_at >= UNKNOWN_FRESH_S:
            await self._read()
        return self._known(name)

    async def id_of(self, name: str) -> bytes:
        """The namespace's id; does not give up the loop when the name is known. As `find`."""
        row = self.cached(name)
        return (row or await self.find(name)).namespace_id

    async def list(self) -> list[NamespaceRow]:
        """As the store has them now, by name."""
        await self._read()
        return sorted(self._rows.values(), key=lambda row: row.name)

    async def describe(self, name: str) -> NamespaceRow:
        """As the store has it now. Raises as `find`."""
        checks.namespace_name("name", name)
        await self._read()
        return self._known(name)

    async def create(self, row: NamespaceRow, audited: AuditRow) -> None:
        """Raises ALREADY_EXISTS."""
        if not await self._store.create_namespace(row, audited):
            raise Rejected(
                Code.ALREADY_EXISTS,
                "NAMESPACE_ALREADY_EXISTS",
                f"namespace {row.name!r} exists already",
            )
        self._remember(row)

    async def update(self, row: NamespaceRow, audited: AuditRow) -> NamespaceRow:
        """Replace the row whose conflict token this one carries.

        Raises ABORTED when another came first.
        """
        if not await self._store.update_namespace(row, audited):
            raise Rejected(
                Code.ABORTED,
                "NAMESPACE_CONFLICT",
                f"namespace {row.name!r} was changed since it was described",
                field="conflict_token",
            )
        saved = msgspec.structs.replace(row, conflict_token=row.conflict_token + 1)
        self._remember(saved)
        return saved

    def _known(self, name: str) -> NamespaceRow:
        row = self._rows.get(name)
        if row is None:
            raise not_found("NAMESPACE", f"namespace {name!r} does not exist")
        return row

    def _remember(self, row: NamespaceRow) -> None:
        self._rows[row.name] = self._written[row.name] = row

    async def _read(self) -> None:
        """One read for all who ask at the same time.

        Shielded: who goes away does not take it from the others.
        """
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all())
        await asyncio.shield(self._reading)

    async def _read_all(self) -> None:
        try:
            asked_at = self._clock.monotonic()
            self._written.clear()
            rows = await self._store.list_namespaces()
            self._rows = {row.name: row for row in rows} | self._written
            self._read_at = asked_at
        finally:
            self._reading = None
