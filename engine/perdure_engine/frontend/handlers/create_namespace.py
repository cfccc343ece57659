"""CreateNamespace: a new tenant."""

from __future__ import annotations

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.audit import Action, Entry
from perdure_engine.core.errors import invalid
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.store import NamespaceRow

HOUR_MS = 3_600_000
RETENTION_MS_DEFAULT = 7 * 24 * HOUR_MS
RETENTION_MS_MIN = HOUR_MS  # shorter, and a client that was away for lunch finds its run gone
FIRST_CONFLICT_TOKEN = 1


async def create_namespace(
    frontend: Frontend,
    name: str,
    description: str,
    retention_ms: int,
    identity: str = "",
    reason: str = "",
    *,
    archive: bool = True,
) -> NamespaceRow:
    """`retention_ms` 0 is a week. Raises ALREADY_EXISTS."""
    checks.namespace_name("name", name)
    checks.prose("description", description)
    checks.label("identity", identity)
    checks.prose("reason", reason)
    if retention_ms:
        check_retention(retention_ms)
    row = NamespaceRow(
        frontend.ids.new_id(),
        name,
        description,
        retention_ms or RETENTION_MS_DEFAULT,
        FIRST_CONFLICT_TOKEN,
        archive,
    )
    entry = Entry(
        time_us=frontend.db_now_us(),
        action=Action.CREATE_NAMESPACE,
        namespace_id=row.namespace_id,
        identity=identity,
        reason=reason,
        subject=name,
        after=settings(row),
    )
    await frontend.ledger.write(entry, lambda audited: frontend.namespaces.create(row, audited))
    return row


def settings(row: NamespaceRow) -> str:
    """For the audit log."""
    told = {
        "description": row.description,
        "retention_ms": row.retention_ms,
        "archive": row.archive,
    }
    return msgspec.json.encode(told).decode()


def check_retention(retention_ms: int) -> None:
    if not RETENTION_MS_MIN <= retention_ms <= limits.DURATION_MS_MAX:
        raise invalid(
            "retention_ms",
            f"must lie between {RETENTION_MS_MIN} and {limits.DURATION_MS_MAX} ms",
        )
