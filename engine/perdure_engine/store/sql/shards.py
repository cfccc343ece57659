"""`shards`: where a shard is served and how far its timers are swept. The fence says who may
write.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql import shard_fence

LIST: Final[LiteralString] = (
    """\
select f.shard_id, coalesce(s.node_id, '00000000-0000-0000-0000-000000000000'::uuid) as node_id,
  coalesce(s.address, '') as address,
  coalesce(s.timer_mark, '1970-01-01 00:00:00+00'::timestamptz) as timer_mark
from """
    + shard_fence.EACH_SHARD
    + """ as f left join shards as s on s.shard_id = f.shard_id
order by f.shard_id"""
)

PUT: Final[LiteralString] = """\
insert into shards as t (shard_id, node_id, address, timer_mark)
values ($1::int4, $2::uuid, $3::text, '1970-01-01 00:00:00+00'::timestamptz)
on conflict (shard_id) do update set node_id = excluded.node_id, address = excluded.address"""

# Part of the sweep; $14 holds the mark or nothing. What lies before a mark stays swept, so it never
# goes back.
MARK: Final[LiteralString] = """\
w_mark as (
  insert into shards as t (shard_id, node_id, address, timer_mark)
  select f.shard_id, '00000000-0000-0000-0000-000000000000'::uuid, '', u.timer_mark
  from f cross join unnest($14::timestamptz[]) as u(timer_mark)
  where f.commit_seq > 0
  on conflict (shard_id) do update set timer_mark = greatest(t.timer_mark, excluded.timer_mark))"""

STATEMENTS: Final[dict[str, LiteralString]] = {"shards.list": LIST, "shards.put": PUT}
