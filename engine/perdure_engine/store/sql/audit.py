"""`audit`: the log of what operators did, a chain of hashes in each shard (core.audit).

Plain inserts: a place in a chain that is taken must fail. Rows are never changed, and deleted only from
the front, when they are over their time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from perdure_engine.core.audit import AuditRow, entry_of
from perdure_engine.core.ids import uuid_text
from perdure_engine.ports.audit import AuditFilter, AuditKey
from perdure_engine.store.sql.parameters import (
    LAST_US,
    Blobs,
    Column,
    Instant,
    Instants,
    Int4,
    Int4s,
    Int8,
    Int8s,
    Texts,
    Uuid,
    Uuids,
)
from perdure_engine.store.sql.readable import to_json
from perdure_engine.store.sql.table import BatchTable

COLUMNS: Final[tuple[type[Column], ...]] = (
    *(Int4s, Int8s, Instants, Uuids),
    *(Texts, Texts, Blobs, Blobs, Texts),
)

BATCH: Final = BatchTable(
    name="audit",
    write="""\
w_audit as (
  insert into audit as t (shard_id, seq, logged_at, namespace_id, workflow_id, action, content,
    hash, readable)
  select u.shard_id, u.seq, u.logged_at, u.namespace_id, u.workflow_id, u.action, u.content, u.hash,
    u.readable::jsonb
  from unnest($68::int4[], $69::int8[], $70::timestamptz[], $71::uuid[], $72::text[], $73::text[],
      $74::bytea[], $75::bytea[], $76::text[])
    as u(shard_id, seq, logged_at, namespace_id, workflow_id, action, content, hash, readable)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  returning t.shard_id)""",
    complete="(select count(*) from w_audit) = cardinality($68::int4[])",
    first=68,
    columns=COLUMNS,
    pack=lambda rows: rows_parameters(rows),
)

# In the removal: the same with its own numbers.
REMOVED: Final[LiteralString] = """\
w_audit as (
  insert into audit as t (shard_id, seq, logged_at, namespace_id, workflow_id, action, content,
    hash, readable)
  select u.shard_id, u.seq, u.logged_at, u.namespace_id, u.workflow_id, u.action, u.content, u.hash,
    u.readable::jsonb
  from unnest($9::int4[], $10::int8[], $11::timestamptz[], $12::uuid[], $13::text[], $14::text[],
      $15::bytea[], $16::bytea[], $17::text[])
    as u(shard_id, seq, logged_at, namespace_id, workflow_id, action, content, hash, readable)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  returning t.shard_id)"""
REMOVED_COMPLETE: Final[LiteralString] = "(select count(*) from w_audit) = cardinality($9::int4[])"

# Beside a namespace's change: for each row that `w` has written, and so for none when it wrote none.
NAMESPACE_CHANGED: Final[LiteralString] = """\
w_audit as (
  insert into audit as t (shard_id, seq, logged_at, namespace_id, workflow_id, action, content,
    hash, readable)
  select u.shard_id, u.seq, u.logged_at, u.namespace_id, u.workflow_id, u.action, u.content, u.hash,
    u.readable::jsonb
  from unnest($6::int4[], $7::int8[], $8::timestamptz[], $9::uuid[], $10::text[], $11::text[],
      $12::bytea[], $13::bytea[], $14::text[])
    as u(shard_id, seq, logged_at, namespace_id, workflow_id, action, content, hash, readable)
  cross join w
  returning t.shard_id)"""

# Beside a batch operation's row, and a deployment's: the same behind four parameters.
BEHIND_FOUR: Final[LiteralString] = """\
w_audit as (
  insert into audit as t (shard_id, seq, logged_at, namespace_id, workflow_id, action, content,
    hash, readable)
  select u.shard_id, u.seq, u.logged_at, u.namespace_id, u.workflow_id, u.action, u.content, u.hash,
    u.readable::jsonb
  from unnest($5::int4[], $6::int8[], $7::timestamptz[], $8::uuid[], $9::text[], $10::text[],
      $11::bytea[], $12::bytea[], $13::text[])
    as u(shard_id, seq, logged_at, namespace_id, workflow_id, action, content, hash, readable)
  cross join w
  returning t.shard_id)"""

APPEND: Final[LiteralString] = """\
insert into audit as t (shard_id, seq, logged_at, namespace_id, workflow_id, action, content, hash,
  readable)
select u.shard_id, u.seq, u.logged_at, u.namespace_id, u.workflow_id, u.action, u.content, u.hash,
  u.readable::jsonb
from unnest($1::int4[], $2::int8[], $3::timestamptz[], $4::uuid[], $5::text[], $6::text[],
    $7::bytea[], $8::bytea[], $9::text[])
  as u(shard_id, seq, logged_at, namespace_id, workflow_id, action, content, hash, readable)
returning t.seq"""

HEADS: Final[LiteralString] = """\
select a.shard_id, a.seq, a.hash, a.logged_at
from unnest($1::int4[]) as u(shard_id)
cross join lateral (
  select r.shard_id, r.seq, r.hash, r.logged_at from audit as r
  where r.shard_id = u.shard_id
  order by r.shard_id desc, r.seq desc limit 1) as a
order by a.shard_id"""

READ: Final[LiteralString] = """\
select a.shard_id, a.seq, a.logged_at, a.namespace_id, a.workflow_id, a.action, a.content, a.hash
from audit as a
where a.shard_id = $1::int4 and a.seq > $2::int8
order by a.shard_id, a.seq limit $3::int8"""

# $1 and $2 time, $3 to $5 the last row seen, $6 action, $7 limit, $8 namespaces (none: any)
LIST: Final[LiteralString] = """\
select a.shard_id, a.seq, a.logged_at, a.namespace_id, a.workflow_id, a.action, a.content, a.hash
from audit as a
where a.logged_at >= $1::timestamptz and a.logged_at < $2::timestamptz
  and a.logged_at <= $3::timestamptz
  and (a.logged_at, a.shard_id, a.seq) < ($3::timestamptz, $4::int4, $5::int8)
  and ($6::text = '' or a.action = $6::text)
  and (cardinality($8::uuid[]) = 0 or a.namespace_id = any($8::uuid[]))
order by a.logged_at desc, a.shard_id desc, a.seq desc limit $7::int8"""

# The same for one workflow id: $8 its namespace, $9 the id
LIST_WORKFLOW: Final[LiteralString] = """\
select a.shard_id, a.seq, a.logged_at, a.namespace_id, a.workflow_id, a.action, a.content, a.hash
from audit as a
where a.namespace_id = $8::uuid and a.workflow_id = $9::text
  and a.logged_at >= $1::timestamptz and a.logged_at < $2::timestamptz
  and a.logged_at <= $3::timestamptz
  and (a.logged_at, a.shard_id, a.seq) < ($3::timestamptz, $4::int4, $5::int8)
  and ($6::text = '' or a.action = $6::text)
order by a.logged_at desc, a.shard_id desc, a.seq desc limit $7::int8"""

# Up to $3 rows from the front, but never the last row of the chain, from which it goes on.
EXPIRED: Final[LiteralString] = """\
with front as (
  select a.shard_id, a.seq, a.hash, a.logged_at from audit as a
  where a.shard_id = $1::int4
    and a.seq < (select max(r.seq) from audit as r where r.shard_id = $1::int4)
  order by a.shard_id, a.seq limit $3::int8)
select front.shard_id, front.seq, front.hash, front.logged_at from front
where front.logged_at < $2::timestamptz
order by front.shard_id desc, front.seq desc limit 1"""

DROP: Final[LiteralString] = """\
d_audit as (
  delete from audit as t where t.shard_id = $1::int4 and t.seq <= $2::int8)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "audit.append": APPEND,
    "audit.heads": HEADS,
    "audit.read": READ,
    "audit.list": LIST,
    "audit.list_workflow": LIST_WORKFLOW,
    "audit.expired": EXPIRED,
}

_LAST: Final = (LAST_US, 2**31 - 1, 2**63 - 1)


def rows_parameters(rows: Sequence[AuditRow]) -> list[object]:
    if not rows:
        return [column() for column in COLUMNS]
    columns = (*zip(*rows, strict=True), [_readable(row) for row in rows])
    return [column(values) for column, values in zip(COLUMNS, columns, strict=True)]


def _readable(row: AuditRow) -> str:
    """For `perdure_v1_audit`: what `content` says besides the columns. Nobody verifies this copy."""
    entry = entry_of(row)
    return to_json(
        {
            "run_id": uuid_text(entry.run_id) if entry.run_id else None,
            "identity": entry.identity,
            "reason": entry.reason,
            "request_id": uuid_text(entry.request_id) if entry.request_id else None,
            "subject": entry.subject,
            "before": entry.before,
            "after": entry.after,
        }
    )


def list_statement(
    where: AuditFilter, before: AuditKey | None, limit: int
) -> tuple[LiteralString, list[object]]:
    time_us, chain, seq = before or _LAST
    values: list[object] = [
        Instant(where.time_min_us),
        # the scan begins where the page does (store.sql.job_lists says why)
        Instant(min(where.time_max_us or LAST_US, time_us + 1)),
        Instant(time_us),
        Int4(chain),
        Int8(seq),
        where.action,
        Int8(limit),
    ]
    if where.workflow_id:
        assert where.namespace_id is not None, "a workflow id is one in its namespace"
        return LIST_WORKFLOW, [*values, Uuid(where.namespace_id), where.workflow_id]
    ids = [] if where.namespace_id is None else [where.namespace_id]
    return LIST, [*values, Uuids(ids)]
