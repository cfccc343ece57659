"""`audit_begins`: where a chain of the audit log begins, once its oldest rows have gone."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql import audit

LIST: Final[LiteralString] = """\
select b.shard_id, b.seq, b.hash, b.logged_at
from audit_begins as b order by b.shard_id"""

# Never back: of two that drop at the same time the further one counts.
DROP: Final[LiteralString] = (
    "with "
    + audit.DROP
    + """,
w as (
  insert into audit_begins as t (shard_id, seq, hash, logged_at)
  values ($1::int4, $2::int8, $3::bytea, $4::timestamptz)
  on conflict (shard_id) do update set seq = excluded.seq, hash = excluded.hash,
    logged_at = excluded.logged_at
  where t.seq < excluded.seq
  returning t.seq)
select count(*) as begins from w"""
)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "audit_begins.list": LIST,
    "audit_begins.drop": DROP,
}
