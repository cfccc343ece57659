"""`snapshots`: the fold of a run at some event. A shortcut, never the truth, so it needs no
version.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Blobs, Int2s, Int4s, Int8s, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="snapshots",
    write="""\
w_snapshots as (
  insert into snapshots as t (shard_id, run_id, part, event_id, payload)
  select u.shard_id, u.run_id, u.part, u.event_id, u.payload
  from unnest($63::int4[], $64::uuid[], $65::int2[], $66::int8[], $67::bytea[])
    as u(shard_id, run_id, part, event_id, payload)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, run_id, part) do update set event_id = excluded.event_id,
    payload = excluded.payload
  returning t.shard_id)""",
    complete="(select count(*) from w_snapshots) = cardinality($63::int4[])",
    first=63,
    columns=(Int4s, Uuids, Int2s, Int8s, Blobs),
)

# The event that the snapshot of run $2 in shard $1 names; no row when there is none.
EVENT_ID: Final[LiteralString] = """\
(select p.event_id from snapshots as p
  where p.shard_id = $1::int4 and p.run_id = $2::uuid and p.part = 0::int2)"""

# A longer snapshot before this one may have left parts behind: they name an earlier event.
READ: Final[LiteralString] = (
    """\
select s.shard_id, s.run_id, s.part, s.event_id, s.payload
from snapshots as s
where s.shard_id = $1::int4 and s.run_id = $2::uuid and s.event_id = """
    + EVENT_ID
    + """
order by s.shard_id, s.run_id, s.part"""
)

REMOVE: Final[LiteralString] = """\
d_snapshots as (
  delete from snapshots as t
  where t.shard_id = any($1::int4[]) and t.run_id = any($6::uuid[]) and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {"snapshots.read": READ}
