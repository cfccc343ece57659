"""`job_keys`: who holds a unique key. It goes with the job that holds it."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Instants, Int2s, Int4s, Int8s, Texts, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="job_keys",
    write="""\
w_job_keys as (
  insert into job_keys as t (shard_id, namespace_id, kind, key, job_id, until_at, version)
  select u.shard_id, u.namespace_id, u.kind, u.key, u.job_id, u.until_at, u.version
  from unnest($100::int4[], $101::uuid[], $102::int2[], $103::text[], $104::uuid[],
      $105::timestamptz[], $106::int8[])
    as u(shard_id, namespace_id, kind, key, job_id, until_at, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, namespace_id, kind, key) do update set job_id = excluded.job_id,
    until_at = excluded.until_at, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_job_keys where w_job_keys.version > 0) = cardinality($106::int8[])""",
    first=100,
    columns=(Int4s, Uuids, Int2s, Texts, Uuids, Instants, Int8s),
)

# LATERAL with a limit: a probe of the primary key for each key, whatever the statistics say.
READ_KEYS: Final[LiteralString] = """\
select k.shard_id, k.namespace_id, k.kind, k.key, k.job_id, k.until_at, k.version
from unnest($1::int4[], $2::uuid[], $3::int2[], $4::text[])
  as u(shard_id, namespace_id, kind, key)
cross join lateral (
  select r.shard_id, r.namespace_id, r.kind, r.key, r.job_id, r.until_at, r.version
  from job_keys as r
  where r.shard_id = u.shard_id and r.namespace_id = u.namespace_id and r.kind = u.kind
    and r.key = u.key limit 1) as k"""

# The keys of jobs that go; not one that another job has taken since.
REMOVE: Final[LiteralString] = """\
d_job_keys as (
  delete from job_keys as t
  using unnest($7::uuid[], $8::int2[], $9::text[], $10::uuid[])
    as u(namespace_id, kind, key, job_id)
  where t.shard_id = any($1::int4[]) and t.namespace_id = u.namespace_id and t.kind = u.kind
    and t.key = u.key and t.job_id = u.job_id and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {"job_keys.read_keys": READ_KEYS}
