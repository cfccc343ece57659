"""The audit log's door to the store. What a row is and how it is chained: core.audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from perdure_engine.core.audit import AuditRow, Entry, Head

UNIQUE_VIOLATION = "23505"
"""The sqlstate of a `BatchRefused` that says: the place in the chain is taken, look at its head again."""


class AuditFilter(msgspec.Struct, frozen=True):
    """All conditions hold together; empty or 0 means "any". Times in µs: from inclusive, to exclusive.

    `workflow_id` needs `namespace_id`. `namespace_id` None: what belongs to any namespace, or to none.
    """

    namespace_id: bytes | None = None
    workflow_id: str = ""
    action: str = ""
    time_min_us: int = 0
    time_max_us: int = 0


T = TypeVar("T")

AuditKey = tuple[int, int, int]
"""The last row of a page: time, chain, seq."""


class AuditStore(Protocol):
    async def load_audit_heads(self, chains: list[int]) -> list[Head]:
        """The last row of each of the chains that has rows, by chain."""
        ...

    async def load_audit_begins(self) -> list[Head]:
        """Of the chains whose oldest rows have gone: the last row that went, by chain."""
        ...

    async def load_audit(self, chain: int, after_seq: int, limit: int) -> list[AuditRow]:
        """Rows of one chain past a place, in order."""
        ...

    async def list_audit(
        self, where: AuditFilter, before: AuditKey | None, limit: int
    ) -> list[AuditRow]:
        """Newest first, strictly past `before`."""
        ...

    async def append_audit(self, row: AuditRow) -> None:
        """An action that changes no other row. Raises BatchRefused UNIQUE_VIOLATION when the place is taken."""
        ...

    async def load_audit_expired(self, chain: int, before_us: int, limit: int) -> Head | None:
        """The last of the chain's first `limit` rows that is older. Never the chain's last row."""
        ...

    async def drop_audit(self, begin: Head) -> None:
        """Delete the chain's rows up to and with `begin`, which is remembered instead of them."""
        ...


class Ledger(Protocol):
    """The installation's own chain, to which any node may add."""

    async def write(self, entry: Entry, save: Callable[[AuditRow], Awaitable[T]]) -> T:
        """Give `save` the entry at its place, again when the place is taken; what `save` returns."""
        ...
