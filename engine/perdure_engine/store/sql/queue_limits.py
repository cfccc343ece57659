"""`queue_limits`: how many jobs of a queue may start in a second; few rows, changed by conflict token."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.jobs import QueueLimitRow
from perdure_engine.store.sql import audit
from perdure_engine.store.sql.parameters import Int8, Uuid

LIST: Final[LiteralString] = """\
select q.namespace_id, q.queue, q.rate_per_s, q.conflict_token
from queue_limits as q order by q.namespace_id, q.queue"""

# $1 namespace, $2 queue, $3 token, $4 rate; the audit log's row follows, or none.
CREATE: Final[LiteralString] = (
    """\
with w as (
  insert into queue_limits as t (namespace_id, queue, rate_per_s, conflict_token)
  values ($1::uuid, $2::text, $4::float8, $3::int8 + 1)
  on conflict (namespace_id, queue) do nothing
  returning t.conflict_token),
"""
    + audit.BEHIND_FOUR
    + """
select w.conflict_token from w"""
)

# As in `deployments`: one that is not there divides by zero.
UPDATE: Final[LiteralString] = (
    """\
with w as (
  insert into queue_limits as t (namespace_id, queue, rate_per_s, conflict_token)
  values ($1::uuid, $2::text, $4::float8, $3::int8)
  on conflict (namespace_id, queue) do update set rate_per_s = excluded.rate_per_s,
    conflict_token = t.conflict_token + 1
  where t.conflict_token = excluded.conflict_token
  returning t.conflict_token),
"""
    + audit.BEHIND_FOUR
    + """
select div(1::numeric, (case when w.conflict_token > $3::int8 then 1 else 0 end)::numeric)::int8
  as guard
from w"""
)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "queue_limits.list": LIST,
    "queue_limits.create": CREATE,
    "queue_limits.update": UPDATE,
}


def parameters(row: QueueLimitRow, audited: AuditRow | None) -> list[object]:
    return [
        Uuid(row.namespace_id),
        row.queue,
        Int8(row.conflict_token),
        row.rate_per_s,
        *audit.rows_parameters([] if audited is None else [audited]),
    ]
