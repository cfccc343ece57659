"""`batch_parts`: each shard's part of a batch operation, saved by whoever owns the shard.

Not in the shard's own statement: a part that two owners work on for a moment is harmless, because every
operation has a request id of its own, and the version lets one of them go on.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.ports.batches import PartRow, encode_pending
from perdure_engine.store.sql import shard_fence
from perdure_engine.store.sql.parameters import Instant, Int2, Int4, Int8, Uuid

OF_NEW_JOB: Final[LiteralString] = (
    """\
w_parts as (
  insert into batch_parts as t (shard_id, namespace_id, job_id, state, position, pending, done,
    failed, last_failure, saved_at, version)
  select s.shard_id, w.namespace_id, w.job_id, 1::int2,
    '00000000-0000-0000-0000-000000000000'::uuid, ''::bytea, 0, 0, '', w.started_at, 1
  from """
    + shard_fence.EACH_SHARD
    + """ as s
  cross join w
  returning t.shard_id)"""
)

READ_JOB: Final[LiteralString] = (
    """\
select p.shard_id, p.namespace_id, p.job_id, p.state, p.position, p.pending, p.done, p.failed,
  p.last_failure, p.saved_at, p.version
from """
    + shard_fence.EACH_SHARD
    + """ as s
join batch_parts as p on p.shard_id = s.shard_id and p.namespace_id = $1::uuid
  and p.job_id = $2::text
order by p.shard_id"""
)

READ_OPEN: Final[LiteralString] = """\
select p.shard_id, p.namespace_id, p.job_id, p.state, p.position, p.pending, p.done, p.failed,
  p.last_failure, p.saved_at, p.version
from batch_parts as p
where p.shard_id = any($1::int4[]) and p.state = 1
order by p.shard_id, p.namespace_id, p.job_id"""

# A part that is not there would be inserted with the stored version, and divides by zero (22012).
SAVE: Final[LiteralString] = """\
with w as (
  insert into batch_parts as t (shard_id, namespace_id, job_id, state, position, pending, done,
    failed, last_failure, saved_at, version)
  values ($1::int4, $2::uuid, $3::text, $4::int2, $5::uuid, $6::bytea, $7::int8, $8::int8,
    $9::text, $10::timestamptz, -($11::int8))
  on conflict (shard_id, namespace_id, job_id) do update set state = excluded.state,
    position = excluded.position, pending = excluded.pending, done = excluded.done,
    failed = excluded.failed, last_failure = excluded.last_failure, saved_at = excluded.saved_at,
    version = t.version + 1
  where t.version = -excluded.version
  returning t.version)
select div(1::numeric, (case when w.version > 0 then 1 else 0 end)::numeric)::int8 as guard
from w"""

REMOVE: Final[LiteralString] = """\
d_parts as (
  delete from batch_parts as t
  where t.shard_id = any($3::int4[]) and t.namespace_id = $1::uuid and t.job_id = $2::text)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "batch_parts.read_job": READ_JOB,
    "batch_parts.read_open": READ_OPEN,
    "batch_parts.save": SAVE,
}


def save_parameters(row: PartRow) -> list[object]:
    return [
        Int4(row.shard_id),
        Uuid(row.namespace_id),
        row.job_id,
        Int2(row.state),
        Uuid(row.position),
        encode_pending(row.pending),
        Int8(row.done),
        Int8(row.failed),
        row.last_failure,
        Instant(row.saved_us),
        Int8(row.version),
    ]
