"""ListAudit: what operators did, newest first."""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import Broken, Entry, Head, entry_of
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.limits import NAME_BYTES_MAX
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.audit import AuditFilter

SCOPE = b"list_audit"


class Shown(msgspec.Struct, frozen=True):
    """A row of the log, with the name of its namespace if there is one of that id."""

    place: Head
    entry: Entry
    namespace: str
    content: bytes


class AuditAnswer(msgspec.Struct, frozen=True):
    rows: list[Shown]
    next_page_token: bytes


class Last(msgspec.Struct, frozen=True, array_like=True):
    time_us: int
    chain: int
    seq: int


async def list_audit(
    frontend: Frontend, where: AuditFilter, page_size: int, page_token: bytes
) -> AuditAnswer:
    """Raises DATA_LOSS for a row that cannot be read: verify says where the chain is broken."""
    if where.workflow_id:
        checks.workflow_id("workflow_id", where.workflow_id)
        if where.namespace_id is None:
            raise invalid("namespace", "is required with a workflow_id")
    checks.label("action", where.action, NAME_BYTES_MAX)
    for field in ("time_min_us", "time_max_us"):
        checks.instant(field, getattr(where, field))
    size = checks.page_size("page_size", page_size)
    scope = SCOPE + msgspec.msgpack.encode(where)
    before = None
    if page_token:
        last = frontend.sealer.open_page("page_token", page_token, scope, Last)
        before = (last.time_us, last.chain, last.seq)
    rows = await frontend.audit.list_audit(where, before, size + 1)
    names = {row.namespace_id: row.name for row in await frontend.namespaces.list()}
    try:
        shown = [
            Shown(
                Head(row.shard_id, row.seq, row.hash, row.time_us),
                entry_of(row),
                names.get(row.namespace_id, ""),
                row.content,
            )
            for row in rows[:size]
        ]
    except Broken as broken:
        raise Rejected(Code.DATA_LOSS, "AUDIT_BROKEN", str(broken)) from None
    if len(rows) <= size:
        return AuditAnswer(shown, b"")
    end = rows[size - 1]
    token = frontend.sealer.seal_page(Last(end.time_us, end.shard_id, end.seq), scope)
    return AuditAnswer(shown, token)


async def audit_heads(frontend: Frontend) -> list[Head]:
    """Where each chain ends: to be kept elsewhere, so that a tail that was cut off shows."""
    return await frontend.audit.load_audit_heads(chains(frontend))


def chains(frontend: Frontend) -> list[int]:
    return list(range(frontend.history.number_of_shards + 1))
