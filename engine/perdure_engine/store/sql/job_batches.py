"""`job_batches`: how far batches of jobs are."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Blobs, Bools, Int4s, Int8s, Texts, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="job_batches",
    write="""\
w_job_batches as (
  insert into job_batches as t (shard_id, namespace_id, batch_id, total, open, sealed, state,
    version)
  select u.shard_id, u.namespace_id, u.batch_id, u.total, u.open, u.sealed, u.state, u.version
  from unnest($107::int4[], $108::uuid[], $109::text[], $110::int8[], $111::int8[], $112::bool[],
      $113::bytea[], $114::int8[])
    as u(shard_id, namespace_id, batch_id, total, open, sealed, state, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, namespace_id, batch_id) do update set total = excluded.total,
    open = excluded.open, sealed = excluded.sealed, state = excluded.state, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_job_batches where w_job_batches.version > 0)
          = cardinality($114::int8[])""",
    first=107,
    columns=(Int4s, Uuids, Texts, Int8s, Int8s, Bools, Blobs, Int8s),
)

READ: Final[LiteralString] = """\
select b.shard_id, b.namespace_id, b.batch_id, b.total, b.open, b.sealed, b.state, b.version
from job_batches as b
where b.shard_id = $1::int4 and b.namespace_id = $2::uuid and b.batch_id = $3::text"""

READ_AFTER: Final[LiteralString] = """\
select b.shard_id, b.namespace_id, b.batch_id, b.total, b.open, b.sealed, b.state, b.version
from job_batches as b
where b.shard_id = $1::int4 and b.namespace_id >= $2::uuid
  and (b.namespace_id, b.batch_id) > ($2::uuid, $3::text)
order by b.shard_id, b.namespace_id, b.batch_id limit $4::int8"""

REMOVE: Final[LiteralString] = """\
d_job_batches as (
  delete from job_batches as t
  using unnest($11::uuid[], $12::text[]) as u(namespace_id, batch_id)
  where t.shard_id = any($1::int4[]) and t.namespace_id = u.namespace_id
    and t.batch_id = u.batch_id and (select g.held from g)
  returning t.open, t.sealed)"""
STILL_OPEN: Final[LiteralString] = """\
(select count(*) from d_job_batches where d_job_batches.open > 0 or not d_job_batches.sealed)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "job_batches.read": READ,
    "job_batches.read_after": READ_AFTER,
}
