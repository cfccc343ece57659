"""`shard_fence`: who owns a shard, and how many batches it has seen.

Only upserts touch this table: an UPDATE finds its row through an index and takes a page-wide
predicate lock at SERIALIZABLE, and the fences of many shards share a page.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, LiteralString

from perdure_engine.ports.store import Fence
from perdure_engine.store.sql.parameters import Int4s, Int8s, Uuid, Uuids

# $1 to $5. The proposed row carries the negative sequence, so that a missing row is noticed (f
# returns it with a negative sequence, and the statement fails) and never looks like one that holds.
ADVANCE: Final[LiteralString] = """\
f as (
  insert into shard_fence as t (shard_id, range_id, commit_seq, owner_id, batch_id)
  select u.shard_id, u.range_id, -u.commit_seq, u.owner_id, $5::uuid
  from unnest($1::int4[], $2::int8[], $3::int8[], $4::uuid[])
    as u(shard_id, range_id, commit_seq, owner_id)
  on conflict (shard_id) do update set commit_seq = t.commit_seq + 1, batch_id = excluded.batch_id
  where t.range_id = excluded.range_id and t.commit_seq = -excluded.commit_seq
    and t.owner_id = excluded.owner_id
  returning t.shard_id, t.commit_seq),
g as (
  select count(*) = cardinality($1::int4[]) as held from f where f.commit_seq > 0)"""

ADVANCE_PARAMETERS: Final = 5

_SHARD_ID: Final = attrgetter("shard_id")

# What the statement answers when a fence is lost: a text that is no number (22P02). It must raise:
# the fences that did hold would otherwise stay advanced under our batch id with nothing written,
# and the bump would take that for saved.
LOST: Final[LiteralString] = """\
concat('fence lost; held: ',
      (select string_agg(f.shard_id::text, ' ') from f where f.commit_seq > 0))::int8"""
LOST_MARK: Final = "fence lost"


def guarded(writes: Iterable[LiteralString], conditions: Iterable[LiteralString]) -> LiteralString:
    """The statement that advances the fence, writes, and raises when the fence is lost (22P02) or a condition does
    not hold of what was written (22012). It answers with database time: clock_timestamp() is a lower bound of that
    when the answer arrives.
    """
    return (
        "with " + ",\n".join([ADVANCE, *writes]) + "\n"
        "select clock_timestamp() as db_now,\n"
        "  case when (select g.held from g)\n"
        "    then div(1::numeric, (case when " + "\n        and ".join(conditions) + "\n"
        "      then 1 else 0 end)::numeric)::int8\n"
        "    else " + LOST + "\n"
        "  end as guard"
    )


# excluded.batch_id carries the expected (old) owner. A row that is missing would be inserted with
# sequence -1: that divides by zero (22012), so that it is not.
BUMP: Final[LiteralString] = """\
with b as (
  insert into shard_fence as t (shard_id, range_id, commit_seq, owner_id, batch_id)
  select u.shard_id, u.range_id, -1, $4::uuid, u.owner_id
  from unnest($1::int4[], $2::int8[], $3::uuid[]) as u(shard_id, range_id, owner_id)
  on conflict (shard_id) do update set range_id = t.range_id + 1, owner_id = excluded.owner_id
  where t.range_id = excluded.range_id and t.owner_id = excluded.batch_id
  returning t.shard_id, t.range_id, t.commit_seq, t.owner_id, t.batch_id)
select b.shard_id, b.range_id, b.commit_seq, b.owner_id, b.batch_id,
  div(1::numeric, (case when b.commit_seq > 0 then 1 else 0 end)::numeric)::int8 as guard
from b"""

READ: Final[LiteralString] = """\
select s.shard_id, s.range_id, s.commit_seq, s.owner_id, s.batch_id
from shard_fence as s where s.shard_id = any($1::int4[]) order by s.shard_id"""

# The table for the list of shards: it has a row for each, served or not.
EACH_SHARD: Final[LiteralString] = "(select s.shard_id from shard_fence as s)"

STATEMENTS: Final[dict[str, LiteralString]] = {
    "shard_fence.bump": BUMP,
    "shard_fence.read": READ,
}


def advance_parameters(fences: list[Fence], batch_id: bytes) -> list[object]:
    """$1 to $5, in shard order: two statements that share shards then meet at the first one."""
    fences = sorted(fences, key=_SHARD_ID)
    return [
        Int4s([fence.shard_id for fence in fences]),
        Int8s([fence.range_id for fence in fences]),
        Int8s([fence.commit_seq for fence in fences]),
        Uuids([fence.owner_id for fence in fences]),
        Uuid(batch_id),
    ]


def bump_parameters(fences: list[Fence], new_owner_id: bytes) -> list[object]:
    fences = sorted(fences, key=_SHARD_ID)
    return [
        Int4s([fence.shard_id for fence in fences]),
        Int8s([fence.range_id for fence in fences]),
        Uuids([fence.owner_id for fence in fences]),
        Uuid(new_owner_id),
    ]
