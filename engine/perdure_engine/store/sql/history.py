"""`history`: batches of events. Plain inserts: an event id that exists must fail."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql import snapshots
from perdure_engine.store.sql.parameters import Blobs, Int2s, Int4s, Int8s, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="history",
    write="""\
w_history as (
  insert into history as t (shard_id, run_id, first_event_id, part, payload)
  select u.shard_id, u.run_id, u.first_event_id, u.part, u.payload
  from unnest($15::int4[], $16::uuid[], $17::int8[], $18::int2[], $19::bytea[])
    as u(shard_id, run_id, first_event_id, part, payload)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  returning t.shard_id)""",
    complete="(select count(*) from w_history) = cardinality($15::int4[])",
    first=15,
    columns=(Int4s, Uuids, Int8s, Int2s, Blobs),
)

# The tail after the snapshot, all of it when there is none.
READ_TAIL: Final[LiteralString] = (
    """\
select h.shard_id, h.run_id, h.first_event_id, h.part, h.payload
from history as h
where h.shard_id = $1::int4 and h.run_id = $2::uuid and h.first_event_id > coalesce("""
    + snapshots.EVENT_ID
    + """, 0)
order by h.shard_id, h.run_id, h.first_event_id, h.part"""
)

# From the batch that contains event $3 (it begins at the last first_event_id that is not past it)
# to the batch that begins the next page ($4 batches later, if there is one), which is not part of
# the page. The bounds are subqueries of their own, so that both ends of the range are index conditions: as a
# join they were a filter, and each page read the whole run (W8: 2.6 s instead of 0.2 s).
READ_PAGE: Final[LiteralString] = """\
with b as (
  select h.first_event_id from history as h
  where h.shard_id = $1::int4 and h.run_id = $2::uuid and h.part = 0::int2
    and h.first_event_id >= coalesce(
      (select max(p.first_event_id) from history as p
       where p.shard_id = $1::int4 and p.run_id = $2::uuid and p.first_event_id <= $3::int8), 1)
  order by h.shard_id, h.run_id, h.first_event_id limit $4::int8 + 1)
select h.shard_id, h.run_id, h.first_event_id, h.part, h.payload,
  (select count(*) from b) > $4::int8 as more
from history as h
where h.shard_id = $1::int4 and h.run_id = $2::uuid
  and h.first_event_id >= (select min(b.first_event_id) from b)
  and h.first_event_id <= (select max(b.first_event_id) from b)
  and (h.first_event_id < (select max(b.first_event_id) from b)
    or (select count(*) from b) <= $4::int8)
order by h.shard_id, h.run_id, h.first_event_id, h.part"""

# Whole, of runs whose histories are small.
READ_MANY: Final[LiteralString] = """\
select h.shard_id, h.run_id, h.first_event_id, h.part, h.payload
from history as h
where h.shard_id = $1::int4 and h.run_id = any($2::uuid[])
order by h.shard_id, h.run_id, h.first_event_id, h.part"""

REMOVE: Final[LiteralString] = """\
d_history as (
  delete from history as t
  where t.shard_id = any($1::int4[]) and t.run_id = any($6::uuid[]) and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "history.read_tail": READ_TAIL,
    "history.read_page": READ_PAGE,
    "history.read_many": READ_MANY,
}
