"""`schedule_slots`: what each schedule did at each of its times."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import (
    LAST_US,
    Instant,
    Instants,
    Int2,
    Int2s,
    Int4,
    Int4s,
    Int8,
    Int8s,
    Texts,
    Uuid,
    Uuids,
)
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="schedule_slots",
    write="""\
w_schedule_slots as (
  insert into schedule_slots as t (shard_id, namespace_id, schedule_id, nominal_at, origin,
    outcome, acted_at, target_id, detail, version)
  select u.shard_id, u.namespace_id, u.schedule_id, u.nominal_at, u.origin, u.outcome, u.acted_at,
    u.target_id, u.detail, u.version
  from unnest($127::int4[], $128::uuid[], $129::text[], $130::timestamptz[], $131::int2[],
      $132::int2[], $133::timestamptz[], $134::text[], $135::text[], $136::int8[])
    as u(shard_id, namespace_id, schedule_id, nominal_at, origin, outcome, acted_at, target_id,
      detail, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, namespace_id, schedule_id, nominal_at, origin) do update set
    outcome = excluded.outcome, acted_at = excluded.acted_at, target_id = excluded.target_id,
    detail = excluded.detail, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_schedule_slots where w_schedule_slots.version > 0)
          = cardinality($136::int8[])""",
    first=127,
    columns=(
        *(Int4s, Uuids, Texts, Instants, Int2s),
        *(Int2s, Instants, Texts, Texts, Int8s),
    ),
)

# $4 and $5 nominal time, $6 and $7 the last slot seen, $8 outcomes (none: any), $9 limit
LIST: Final[LiteralString] = """\
select s.shard_id, s.namespace_id, s.schedule_id, s.nominal_at, s.origin, s.outcome, s.acted_at,
  s.target_id, s.detail, s.version
from schedule_slots as s
where s.shard_id = $1::int4 and s.namespace_id = $2::uuid and s.schedule_id = $3::text
  and s.nominal_at >= $4::timestamptz and s.nominal_at < $5::timestamptz
  and s.nominal_at <= $6::timestamptz
  and (s.nominal_at, s.origin) < ($6::timestamptz, $7::int2)
  and (cardinality($8::int2[]) = 0 or s.outcome = any($8::int2[]))
order by s.nominal_at desc, s.origin desc limit $9::int8"""

READ_AFTER: Final[LiteralString] = """\
select s.shard_id, s.namespace_id, s.schedule_id, s.nominal_at, s.origin, s.outcome, s.acted_at,
  s.target_id, s.detail, s.version
from schedule_slots as s
where s.shard_id = $1::int4 and s.namespace_id >= $2::uuid
  and (s.namespace_id, s.schedule_id, s.nominal_at, s.origin)
    > ($2::uuid, $3::text, $4::timestamptz, $5::int2)
order by s.shard_id, s.namespace_id, s.schedule_id, s.nominal_at, s.origin limit $6::int8"""

REMOVE: Final[LiteralString] = """\
d_schedule_slots as (
  delete from schedule_slots as t
  using unnest($13::uuid[], $14::text[], $15::timestamptz[], $16::int2[])
    as u(namespace_id, schedule_id, nominal_at, origin)
  where t.shard_id = any($1::int4[]) and t.namespace_id = u.namespace_id
    and t.schedule_id = u.schedule_id and t.nominal_at = u.nominal_at and t.origin = u.origin
    and (select g.held from g)
  returning t.outcome)"""
# Firing, or buffered.
STILL_TO_ACT: Final[LiteralString] = """\
(select count(*) from d_schedule_slots
         where d_schedule_slots.outcome = 1 or d_schedule_slots.outcome = 7)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "schedule_slots.list": LIST,
    "schedule_slots.read_after": READ_AFTER,
}

_LAST: Final = (LAST_US, 2**15 - 1)


def list_parameters(
    shard_id: int,
    namespace_id: bytes,
    schedule_id: str,
    outcomes: tuple[int, ...],
    from_us: int,
    to_us: int,
    past: tuple[int, int] | None,
    limit: int,
) -> list[object]:
    nominal_us, origin = past or _LAST
    return [
        Int4(shard_id),
        Uuid(namespace_id),
        schedule_id,
        Instant(from_us),
        # the scan begins where the page does (store.sql.job_lists says why)
        Instant(min(to_us or LAST_US, nominal_us + 1)),
        Instant(nominal_us),
        Int2(origin),
        Int2s(outcomes),
        Int8(limit),
    ]
