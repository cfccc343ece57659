"""`schedules`: the definition of each schedule, and what it has come to. One that is gone waits for the sweep."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Blobs, Bools, Instants, Int4s, Int8s, Texts, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="schedules",
    write="""\
w_schedules as (
  insert into schedules as t (shard_id, namespace_id, schedule_id, user_id, paused, next_at,
    created_at, spec, state, conflict_token, version, gone)
  select u.shard_id, u.namespace_id, u.schedule_id, u.user_id, u.paused, u.next_at, u.created_at,
    u.spec, u.state, u.conflict_token, u.version, u.gone
  from unnest($115::int4[], $116::uuid[], $117::text[], $118::text[], $119::bool[],
      $120::timestamptz[], $121::timestamptz[], $122::bytea[], $123::bytea[], $124::int8[],
      $125::int8[], $126::bool[])
    as u(shard_id, namespace_id, schedule_id, user_id, paused, next_at, created_at, spec, state,
      conflict_token, version, gone)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, namespace_id, schedule_id) do update set user_id = excluded.user_id,
    paused = excluded.paused, next_at = excluded.next_at, created_at = excluded.created_at,
    spec = case when excluded.spec = ''::bytea then t.spec else excluded.spec end,
    state = excluded.state, conflict_token = excluded.conflict_token,
    version = t.version + 1, gone = excluded.gone
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_schedules where w_schedules.version > 0) = cardinality($125::int8[])""",
    first=115,
    columns=(
        *(Int4s, Uuids, Texts, Texts, Bools, Instants),
        *(Instants, Blobs, Blobs, Int8s, Int8s, Bools),
    ),
)

READ: Final[LiteralString] = """\
select s.shard_id, s.namespace_id, s.schedule_id, s.user_id, s.paused, s.next_at, s.created_at,
  s.spec, s.state, s.conflict_token, s.version, s.gone
from schedules as s
where s.shard_id = $1::int4 and s.namespace_id = $2::uuid and s.schedule_id = $3::text"""

READ_AFTER: Final[LiteralString] = """\
select s.shard_id, s.namespace_id, s.schedule_id, s.user_id, s.paused, s.next_at, s.created_at,
  s.spec, s.state, s.conflict_token, s.version, s.gone
from schedules as s
where s.shard_id = $1::int4 and s.namespace_id >= $2::uuid
  and (s.namespace_id, s.schedule_id) > ($2::uuid, $3::text)
order by s.shard_id, s.namespace_id, s.schedule_id limit $4::int8"""

# $1 namespace, $2 the last id seen, $3 prefix, $4 user, $5 limit. Bytes decide the order of texts, so that those
# with a prefix follow each other from the prefix itself on.
LIST: Final[LiteralString] = """\
select s.shard_id, s.namespace_id, s.schedule_id, s.user_id, s.paused, s.next_at, s.created_at,
  s.spec, s.state, s.conflict_token, s.version, s.gone
from schedules as s
where s.namespace_id = $1::uuid and s.schedule_id > $2::text and s.schedule_id >= $3::text
  and substring(s.schedule_id, 1, length($3::text)) = $3::text
  and ($4::text = '' or s.user_id = $4::text) and not s.gone
order by s.namespace_id, s.schedule_id limit $5::int8"""

SWEEP: Final[LiteralString] = """\
d_schedules as (
  delete from schedules as t
  using unnest($15::uuid[], $16::text[]) as u(namespace_id, schedule_id)
  where t.shard_id = any($1::int4[]) and t.namespace_id = u.namespace_id
    and t.schedule_id = u.schedule_id and (select g.held from g)
  returning t.gone)"""
NOT_GONE: Final[LiteralString] = """\
(select count(*) from d_schedules where not d_schedules.gone)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "schedules.read": READ,
    "schedules.read_after": READ_AFTER,
    "schedules.list": LIST,
}
