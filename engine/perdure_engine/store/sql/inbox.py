"""`inbox`: buffered events of a run. Plain inserts, as for history."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql import executions
from perdure_engine.store.sql.parameters import Blobs, Int4s, Int8s, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="inbox",
    write="""\
w_inbox as (
  insert into inbox as t (shard_id, run_id, seq, payload)
  select u.shard_id, u.run_id, u.seq, u.payload
  from unnest($20::int4[], $21::uuid[], $22::int8[], $23::bytea[])
    as u(shard_id, run_id, seq, payload)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  returning t.shard_id)""",
    complete="(select count(*) from w_inbox) = cardinality($20::int4[])",
    first=20,
    columns=(Int4s, Uuids, Int8s, Blobs),
)

# Live rows only: those past the head's inbox_done.
READ_LIVE: Final[LiteralString] = (
    """\
select i.shard_id, i.run_id, i.seq, i.payload
from inbox as i
where i.shard_id = $1::int4 and i.run_id = $2::uuid and i.seq > coalesce("""
    + executions.INBOX_DONE
    + """, 0)
order by i.shard_id, i.run_id, i.seq"""
)

SWEEP: Final[LiteralString] = """\
d_inbox as (
  delete from inbox as t
  using unnest($12::uuid[], $13::int8[]) as u(run_id, seq)
  where t.shard_id = any($1::int4[]) and t.run_id = u.run_id and t.seq = u.seq
    and (select g.held from g)
  returning t.shard_id, t.run_id, t.seq)"""

REMOVE: Final[LiteralString] = """\
d_inbox as (
  delete from inbox as t
  where t.shard_id = any($1::int4[]) and t.run_id = any($6::uuid[]) and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {"inbox.read_live": READ_LIVE}
