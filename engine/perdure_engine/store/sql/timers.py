"""`timers`: the only time-ordered table."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Instants, Int2s, Int4s, Int8s, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="timers",
    write="""\
w_timers as (
  insert into timers as t (shard_id, wake_at, timer_id, run_id, kind, reference, state, due_at,
    version)
  select u.shard_id, u.wake_at, u.timer_id, u.run_id, u.kind, u.reference, u.state, u.due_at,
    u.version
  from unnest($34::int4[], $35::timestamptz[], $36::int8[], $37::uuid[], $38::int2[], $39::int8[],
      $40::int2[], $41::timestamptz[], $42::int8[])
    as u(shard_id, wake_at, timer_id, run_id, kind, reference, state, due_at, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, wake_at, timer_id) do update set state = excluded.state,
    version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_timers where w_timers.version > 0) = cardinality($42::int8[])""",
    first=34,
    columns=(Int4s, Instants, Int8s, Uuids, Int2s, Int8s, Int2s, Instants, Int8s),
)

READ_WINDOW: Final[LiteralString] = """\
select t.shard_id, t.wake_at, t.timer_id, t.run_id, t.kind, t.reference, t.state, t.due_at,
  t.version
from timers as t
where t.shard_id = $1::int4 and t.wake_at >= $2::timestamptz
  and (t.wake_at, t.timer_id) > ($2::timestamptz, $3::int8) and t.wake_at < $4::timestamptz
order by t.shard_id, t.wake_at, t.timer_id limit $5::int8"""

# One row of bounds for each key, and one for the range. They are looked up first (LATERAL with a
# limit far beyond any range goes by key whatever the planner believes) and deleted by whole keys: a
# join on ranges alone may read the table from its beginning.
SWEEP: Final[LiteralString] = """\
e_timers as (
  select r.wake_at, r.timer_id
  from unnest($8::timestamptz[], $9::timestamptz[], $10::int8[], $11::int8[])
    as u(first_wake, end_wake, first_id, last_id)
  cross join lateral (
    select k.wake_at, k.timer_id
    from timers as k
    where k.shard_id = any($1::int4[]) and k.wake_at >= u.first_wake and k.wake_at < u.end_wake
      and k.timer_id >= u.first_id and k.timer_id <= u.last_id
    order by k.wake_at, k.timer_id limit 1000000) as r),
d_timers as (
  delete from timers as t
  using e_timers as u
  where t.shard_id = any($1::int4[]) and t.wake_at = u.wake_at and t.timer_id = u.timer_id
    and (select g.held from g)
  returning t.state)"""

STATEMENTS: Final[dict[str, LiteralString]] = {"timers.read_window": READ_WINDOW}
