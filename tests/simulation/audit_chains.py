"""The audit log of a room's database, walked."""

from __future__ import annotations

from perdure_engine.core.audit import AuditRow, Head, check, entry_of
from perdure_engine.store.memory.tables import Tables


def log_of(tables: Tables, chain: int = 1) -> list[tuple[str, str]]:
    """What was done to which workflow, in the chain's order. Every link is verified."""
    rows: list[AuditRow] = tables.audit.in_order(chain)
    head = tables.audit_begins.get(chain, Head(chain))
    for row in rows:
        head = check(head, row)
    return [(entry.action, entry.workflow_id) for entry in map(entry_of, rows)]


def all_of(tables: Tables) -> list[tuple[str, str]]:
    """Of all chains."""
    chains = [0, *tables.fences]
    return [one for chain in chains for one in log_of(tables, chain)]
