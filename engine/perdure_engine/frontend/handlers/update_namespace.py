"""UpdateNamespace: change what is given, if nobody was faster."""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import Action, Entry
from perdure_engine.core.errors import invalid
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.create_namespace import check_retention, settings
from perdure_engine.ports.store import NamespaceRow


async def update_namespace(
    frontend: Frontend,
    name: str,
    description: str | None,
    retention_ms: int | None,
    conflict_token: int,
    identity: str = "",
    reason: str = "",
    *,
    archive: bool | None = None,
) -> NamespaceRow:
    """None leaves a field as it is. Raises ABORTED when another update came first."""
    checks.label("identity", identity)
    checks.prose("reason", reason)
    if conflict_token < 1:
        raise invalid("conflict_token", "is required, as it was described")
    if description is not None:
        checks.prose("description", description)
    if retention_ms is not None:
        check_retention(retention_ms)
    row = await frontend.namespaces.describe(name)
    changed = msgspec.structs.replace(
        row,
        description=row.description if description is None else description,
        retention_ms=row.retention_ms if retention_ms is None else retention_ms,
        conflict_token=conflict_token,
        archive=row.archive if archive is None else archive,
    )
    entry = Entry(
        time_us=frontend.db_now_us(),
        action=Action.UPDATE_NAMESPACE,
        namespace_id=row.namespace_id,
        identity=identity,
        reason=reason,
        subject=name,
        before=settings(row),
        after=settings(changed),
    )
    return await frontend.ledger.write(
        entry, lambda audited: frontend.namespaces.update(changed, audited)
    )
