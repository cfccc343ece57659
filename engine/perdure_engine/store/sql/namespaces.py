"""`namespaces`: few rows, changed by conflict token."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.store import NamespaceRow
from perdure_engine.store.sql import audit
from perdure_engine.store.sql.parameters import Int8, Uuid

LIST: Final[LiteralString] = """\
select n.namespace_id, n.name, n.description, n.retention_ms, n.conflict_token,
  coalesce(n.archive, true) as archive
from namespaces as n order by n.name"""

CREATE: Final[LiteralString] = (
    """\
with w as (
  insert into namespaces as t (namespace_id, name, description, retention_ms, conflict_token,
    archive)
  values ($1::uuid, $2::text, $3::text, $4::int8, $5::int8, $15::bool)
  on conflict (name) do nothing
  returning t.namespace_id),
"""
    + audit.NAMESPACE_CHANGED
    + """
select w.namespace_id from w"""
)

# An upsert like all others; a namespace that is not there keeps the token it was proposed with, and
# divides by zero (22012), so that an update never makes one.
UPDATE: Final[LiteralString] = (
    """\
with w as (
  insert into namespaces as t (namespace_id, name, description, retention_ms, conflict_token,
    archive)
  values ($1::uuid, $2::text, $3::text, $4::int8, $5::int8, $15::bool)
  on conflict (namespace_id) do update set name = excluded.name,
    description = excluded.description, retention_ms = excluded.retention_ms,
    archive = excluded.archive, conflict_token = t.conflict_token + 1
  where t.conflict_token = excluded.conflict_token
  returning t.conflict_token),
"""
    + audit.NAMESPACE_CHANGED
    + """
select div(1::numeric, (case when w.conflict_token > $5::int8 then 1 else 0 end)::numeric)::int8
  as guard
from w"""
)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "namespaces.list": LIST,
    "namespaces.create": CREATE,
    "namespaces.update": UPDATE,
}


def parameters(row: NamespaceRow, audited: AuditRow | None) -> list[object]:
    return [
        Uuid(row.namespace_id),
        row.name,
        row.description,
        Int8(row.retention_ms),
        Int8(row.conflict_token),
        *audit.rows_parameters([] if audited is None else [audited]),
        row.archive,
    ]
