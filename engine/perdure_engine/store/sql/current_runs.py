"""`current_runs`: the one open run of each workflow id."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql import executions
from perdure_engine.store.sql.parameters import Int2s, Int4s, Int8s, Texts, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="current_runs",
    write="""\
w_current_runs as (
  insert into current_runs as t (shard_id, namespace_id, workflow_id, run_id, status, version)
  select u.shard_id, u.namespace_id, u.workflow_id, u.run_id, u.status, u.version
  from unnest($43::int4[], $44::uuid[], $45::text[], $46::uuid[], $47::int2[], $48::int8[])
    as u(shard_id, namespace_id, workflow_id, run_id, status, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, namespace_id, workflow_id) do update set run_id = excluded.run_id,
    status = excluded.status, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_current_runs where w_current_runs.version > 0)
          = cardinality($48::int8[])""",
    first=43,
    columns=(Int4s, Uuids, Texts, Uuids, Int2s, Int8s),
)

# LATERAL with a limit: a probe of the primary key for each id, whatever the statistics say.
READ_KEYS: Final[LiteralString] = """\
select c.shard_id, c.namespace_id, c.workflow_id, c.run_id, c.status, c.version
from unnest($1::int4[], $2::uuid[], $3::text[]) as u(shard_id, namespace_id, workflow_id)
cross join lateral (
  select k.shard_id, k.namespace_id, k.workflow_id, k.run_id, k.status, k.version
  from current_runs as k
  where k.shard_id = u.shard_id and k.namespace_id = u.namespace_id
    and k.workflow_id = u.workflow_id limit 1) as c"""

# The current run of the id that run $2 has or had.
READ_OF_RUN: Final[LiteralString] = (
    """\
select c.shard_id, c.namespace_id, c.workflow_id, c.run_id, c.status, c.version
from current_runs as c
where c.shard_id = $1::int4 and c.namespace_id = """
    + executions.NAMESPACE_ID
    + """
  and c.workflow_id = """
    + executions.WORKFLOW_ID
)

# The id of a run that goes; not when it has had another run since.
REMOVE: Final[LiteralString] = """\
d_current_runs as (
  delete from current_runs as t
  using unnest($7::uuid[], $8::text[], $6::uuid[]) as u(namespace_id, workflow_id, run_id)
  where t.shard_id = any($1::int4[]) and t.namespace_id = u.namespace_id
    and t.workflow_id = u.workflow_id and t.run_id = u.run_id and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "current_runs.read_keys": READ_KEYS,
    "current_runs.read_of_run": READ_OF_RUN,
}
