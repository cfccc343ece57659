"""`visibility`: what lists and counts read; one row per run, in the same statement as its head.

The row's identity (namespace, bucket, ids, type, queue, start) never changes: an update leaves the
index alone and stays on its page. A list merges sixteen short index scans, one for each bucket.

Status, type, id prefix and most of what the filter language knows have no index: each would cost
every start and close more than the whole table does now. So such a list is told where to end before
it is full (`end_statement`): it looks at the next runs of each bucket, whatever it finds among them,
and the next page goes on there. An index (namespace, bucket, workflow_id) is the answer when
namespaces of millions are searched by prefix. Nor has the close time one: with it no close would
stay on its page. Lists by close time sort what they find.

A filter of the language adds its condition to one of a few texts (`store.sql.filters`). Where it
demands an attribute, what the GIN index finds is sorted; no planner knows that this is less than to
walk along the start times until a page is full. The index holds rows with attributes only.
"""

from __future__ import annotations

from typing import Final, LiteralString

import msgspec

from perdure_engine.ports.filters import Expression, Group, Order
from perdure_engine.ports.store import PageKey, VisibilityFilter
from perdure_engine.store.sql.filters import Conditions, indexed
from perdure_engine.store.sql.parameters import (
    LAST_US,
    Blobs,
    Instant,
    Instants,
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
    name="visibility",
    write="""\
w_visibility as (
  insert into visibility as t (shard_id, run_id, namespace_id, bucket, workflow_id, workflow_type,
    task_queue, status, start_time, close_time, history_events, history_bytes, memo, attrs)
  select u.shard_id, u.run_id, u.namespace_id, u.bucket, u.workflow_id, u.workflow_type,
    u.task_queue, u.status, u.start_time, u.close_time, u.history_events, u.history_bytes, u.memo,
    u.attrs::jsonb
  from unnest($49::int4[], $50::uuid[], $51::uuid[], $52::int2[], $53::text[], $54::text[],
      $55::text[], $56::int2[], $57::timestamptz[], $58::timestamptz[], $59::int8[], $60::int8[],
      $61::bytea[], $62::text[])
    as u(shard_id, run_id, namespace_id, bucket, workflow_id, workflow_type, task_queue, status,
      start_time, close_time, history_events, history_bytes, memo, attrs)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, run_id) do update set status = excluded.status,
    close_time = excluded.close_time, history_events = excluded.history_events,
    history_bytes = excluded.history_bytes, memo = excluded.memo, attrs = excluded.attrs
  returning t.shard_id)""",
    complete="(select count(*) from w_visibility) = cardinality($49::int4[])",
    first=49,
    columns=(
        *(Int4s, Uuids, Uuids, Int2s, Texts, Texts, Texts),
        *(Int2s, Instants, Instants, Int8s, Int8s, Blobs, Texts),
    ),
)

# $1 namespace, $2 statuses, $3 type, $4 prefix, $5 and $6 start
_STARTED: Final[LiteralString] = """
    and r.start_time >= $5::timestamptz and r.start_time < $6::timestamptz"""
# The same, such that no index is read for it: beside the GIN index it would be read whole.
_STARTED_OF_FOUND: Final[LiteralString] = """
    and coalesce(r.start_time >= $5::timestamptz and r.start_time < $6::timestamptz, false)"""
_OTHERWISE: Final[LiteralString] = """
    and (cardinality($2::int2[]) = 0 or r.status = any($2::int2[]))
    and ($3::text = '' or r.workflow_type = $3::text)
    and substring(r.workflow_id, 1, length($4::text)) = $4::text"""
_WHERE: Final[LiteralString] = _STARTED + _OTHERWISE

# ---- by start time, along the index: $7 and $8 the last row seen, $9 limit, $10 and $11 the last row to look at

_BUCKETS: Final[LiteralString] = """\
select v.shard_id, v.run_id, v.namespace_id, v.bucket, v.workflow_id, v.workflow_type,
  v.task_queue, v.status, v.start_time, v.close_time, v.history_events, v.history_bytes, v.memo,
  v.attrs
from generate_series(0::int8, 15::int8) as b(bucket)
cross join lateral (
  select r.shard_id, r.run_id, r.namespace_id, r.bucket, r.workflow_id, r.workflow_type,
    r.task_queue, r.status, r.start_time, r.close_time, r.history_events, r.history_bytes, r.memo,
    r.attrs::text as attrs
  from visibility as r
  where r.namespace_id = $1::uuid and r.bucket = b.bucket::int2"""
_BEFORE: Final[LiteralString] = """
    and r.start_time <= $7::timestamptz
    and (r.start_time, r.run_id) < ($7::timestamptz, $8::uuid)
    and (r.start_time, r.run_id) >= ($10::timestamptz, $11::uuid)"""
_AFTER: Final[LiteralString] = """
    and r.start_time >= $7::timestamptz
    and (r.start_time, r.run_id) > ($7::timestamptz, $8::uuid)
    and (r.start_time, r.run_id) <= ($10::timestamptz, $11::uuid)"""
_NEWEST_FIRST: Final[LiteralString] = """
  order by r.start_time desc, r.run_id desc limit $9::int8) as v
order by v.start_time desc, v.run_id desc limit $9::int8"""
_OLDEST_FIRST: Final[LiteralString] = """
  order by r.start_time, r.run_id limit $9::int8) as v
order by v.start_time, v.run_id limit $9::int8"""

LIST: Final[LiteralString] = _BUCKETS + _WHERE + _BEFORE + _NEWEST_FIRST

# ---- where a page ends: of the buckets that have so many more runs, the first end. $1 namespace, $2 and $3 start,
# $4 and $5 the last row seen, $6 how many runs of each bucket are looked at

_ENDS: Final[LiteralString] = """\
select e.start_time, e.run_id
from generate_series(0::int8, 15::int8) as b(bucket)
cross join lateral (
  select r.start_time, r.run_id
  from visibility as r
  where r.namespace_id = $1::uuid and r.bucket = b.bucket::int2
    and r.start_time >= $2::timestamptz and r.start_time < $3::timestamptz"""
END: Final[LiteralString] = (
    _ENDS
    + """
    and r.start_time <= $4::timestamptz
    and (r.start_time, r.run_id) < ($4::timestamptz, $5::uuid)
  order by r.start_time desc, r.run_id desc limit 1 offset $6::int8 - 1::int8) as e
order by e.start_time desc, e.run_id desc limit 1"""
)
END_OLDEST: Final[LiteralString] = (
    _ENDS
    + """
    and r.start_time >= $4::timestamptz
    and (r.start_time, r.run_id) > ($4::timestamptz, $5::uuid)
  order by r.start_time, r.run_id limit 1 offset $6::int8 - 1::int8) as e
order by e.start_time, e.run_id limit 1"""
)

# ---- sorted: $1 to $9 as before; by close time $10 too, the close of the last row seen

_FOUND: Final[LiteralString] = """\
with m as materialized (
  select r.shard_id, r.run_id, r.namespace_id, r.bucket, r.workflow_id, r.workflow_type,
    r.task_queue, r.status, r.start_time, r.close_time, r.history_events, r.history_bytes, r.memo,
    r.attrs::text as attrs,
    coalesce(r.close_time, '9999-12-31T00:00:00Z'::timestamptz) as close_order
  from visibility as r
  where r.namespace_id = $1::uuid"""
_PAGE: Final[LiteralString] = """)
select m.shard_id, m.run_id, m.namespace_id, m.bucket, m.workflow_id, m.workflow_type,
  m.task_queue, m.status, m.start_time, m.close_time, m.history_events, m.history_bytes, m.memo,
  m.attrs
from m
where """
_SORTED: Final[dict[Order, LiteralString]] = {
    Order.START_DESC: """(m.start_time, m.run_id) < ($7::timestamptz, $8::uuid)
order by m.start_time desc, m.run_id desc limit $9::int8""",
    Order.START_ASC: """(m.start_time, m.run_id) > ($7::timestamptz, $8::uuid)
order by m.start_time, m.run_id limit $9::int8""",
    Order.CLOSE_DESC: """(m.close_order, m.start_time, m.run_id)
  < ($10::timestamptz, $7::timestamptz, $8::uuid)
order by m.close_order desc, m.start_time desc, m.run_id desc limit $9::int8""",
    Order.CLOSE_ASC: """(m.close_order, m.start_time, m.run_id)
  > ($10::timestamptz, $7::timestamptz, $8::uuid)
order by m.close_order, m.start_time, m.run_id limit $9::int8""",
}

# ---- counts

_COUNT: Final[LiteralString] = """\
select count(*) as runs
from visibility as r
where r.namespace_id = $1::uuid"""
_COUNT_BY: Final[dict[Group, tuple[LiteralString, LiteralString]]] = {
    Group.STATUS: (
        """\
select r.status, count(*) as runs
from visibility as r
where r.namespace_id = $1::uuid""",
        "\ngroup by r.status",
    ),
    Group.WORKFLOW_TYPE: (
        """\
select r.workflow_type, count(*) as runs
from visibility as r
where r.namespace_id = $1::uuid""",
        "\ngroup by r.workflow_type",
    ),
}

COUNT: Final[LiteralString] = _COUNT + _WHERE

# By key, open runs and closed ones: what has closed is for the reader to see. A condition here would make
# one page read the whole shard when few rows meet it.
READ_AFTER: Final[LiteralString] = """\
select v.run_id, v.namespace_id, v.workflow_id, v.close_time, v.history_bytes
from visibility as v
where v.shard_id = $1::int4 and v.run_id > $2::uuid
order by v.shard_id, v.run_id limit $3::int8"""

# For the archive.
READ_KEYS: Final[LiteralString] = """\
select v.shard_id, v.run_id, v.namespace_id, v.bucket, v.workflow_id, v.workflow_type,
  v.task_queue, v.status, v.start_time, v.close_time, v.history_events, v.history_bytes, v.memo,
  v.attrs::text as attrs
from visibility as v
where v.shard_id = $1::int4 and v.run_id = any($2::uuid[])"""

# By key too, for batch operations: $7 shard, $8 the last run seen, $9 rows to look at. Whether the filter finds
# a row is said of each and conditions none, for the same reason. The reader puts them in order.
_TARGETS: Final[LiteralString] = """\
select r.run_id, r.workflow_id, (r.namespace_id = $1::uuid"""
_TARGETS_OF: Final[LiteralString] = """) as found
from (
  select v.shard_id, v.run_id, v.namespace_id, v.workflow_id, v.workflow_type, v.task_queue,
    v.status, v.start_time, v.close_time, v.history_events, v.history_bytes, v.attrs
  from visibility as v
  where v.shard_id = $7::int4 and v.run_id > $8::uuid
  order by v.shard_id, v.run_id limit $9::int8) as r"""

REMOVE: Final[LiteralString] = """\
d_visibility as (
  delete from visibility as t
  where t.shard_id = any($1::int4[]) and t.run_id = any($6::uuid[]) and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "visibility.read_after": READ_AFTER,
    "visibility.read_keys": READ_KEYS,
    "visibility.targets": _TARGETS + _WHERE + _TARGETS_OF,
    "visibility.list": LIST,
    "visibility.list_oldest": _BUCKETS + _WHERE + _AFTER + _OLDEST_FIRST,
    "visibility.end": END,
    "visibility.end_oldest": END_OLDEST,
    "visibility.list_closed": _FOUND + _WHERE + _PAGE + _SORTED[Order.CLOSE_DESC],
    "visibility.list_closed_oldest": _FOUND + _WHERE + _PAGE + _SORTED[Order.CLOSE_ASC],
    "visibility.count": COUNT,
    "visibility.count_by_status": _WHERE.join(_COUNT_BY[Group.STATUS]),
    "visibility.count_by_type": _WHERE.join(_COUNT_BY[Group.WORKFLOW_TYPE]),
}

# The partial index is used where its own condition stands in the statement.
_HAS_ATTRIBUTES: Final[LiteralString] = "\n    and r.attrs <> '{}'::jsonb"

_LAST_RUN_ID: Final = b"\xff" * 16
_FIRST: Final = (-1, bytes(16), -1)
_LAST: Final = (LAST_US, _LAST_RUN_ID, LAST_US)
_BY_CLOSE: Final = (Order.CLOSE_DESC, Order.CLOSE_ASC)


def needs_end(where: VisibilityFilter, order: Order) -> bool:
    """Whether a list along the start times may pass over many runs."""
    asked = where.statuses or where.workflow_type or where.workflow_id_prefix or where.expression
    return bool(asked) and not _is_sorted(where, order)


def end_statement(
    where: VisibilityFilter, order: Order, before: PageKey | None, look: int
) -> tuple[LiteralString, list[object]]:
    """How far the next `look` runs of each bucket reach: one row, (start, run id), or none when there are fewer."""
    where = _of_page(where, order, before, None)
    values = [
        Uuid(where.namespace_id),
        Instant(where.start_min_us),
        Instant(where.start_max_us or LAST_US),
        *page_parameters(order, before, look),
    ]
    return (END_OLDEST if order is Order.START_ASC else END), values


def list_statement(
    where: VisibilityFilter,
    order: Order,
    before: PageKey | None,
    until: PageKey | None,
    limit: int,
) -> tuple[LiteralString, list[object]]:
    """Past the one, up to the other inclusive; None: from the beginning, to the end. `until` is for those along the
    start times."""
    values = filter_parameters(_of_page(where, order, before, until))
    values += page_parameters(order, before, limit)
    is_sorted = _is_sorted(where, order)
    if not is_sorted:
        start_us, run_id = (until or (_LAST if order is Order.START_ASC else _FIRST))[:2]
        values += [Instant(start_us), Uuid(run_id)]
    holds, more = _where(where.expression, len(values))
    values += more
    if is_sorted:
        return _FOUND + holds + _PAGE + _SORTED[order], values
    if order is Order.START_ASC:
        return _BUCKETS + holds + _AFTER + _OLDEST_FIRST, values
    return _BUCKETS + holds + _BEFORE + _NEWEST_FIRST, values


def _is_sorted(where: VisibilityFilter, order: Order) -> bool:
    expression = where.expression
    return order in _BY_CLOSE or (expression is not None and indexed(expression))


def _of_page(
    where: VisibilityFilter, order: Order, before: PageKey | None, until: PageKey | None
) -> VisibilityFilter:
    """The scans along the start times begin and end where the page does: beside the filter's own bound PostgreSQL 18
    would begin at that, and the tenth page read nine for nothing.
    """
    if order in _BY_CLOSE:
        return where
    newest, oldest = (until, before) if order is Order.START_ASC else (before, until)
    start_us, end_us = where.start_min_us, where.start_max_us or LAST_US
    if oldest is not None:
        start_us = max(start_us, oldest[0])
    if newest is not None:
        end_us = min(end_us, newest[0] + 1)
    return msgspec.structs.replace(where, start_min_us=start_us, start_max_us=end_us)


def count_statement(
    where: VisibilityFilter, group: Group | None
) -> tuple[LiteralString, list[object]]:
    values = filter_parameters(where)
    holds, more = _where(where.expression, len(values))
    head, tail = (_COUNT, "") if group is None else _COUNT_BY[group]
    return head + holds + tail, values + more


def targets_statement(
    where: VisibilityFilter, shard_id: int, after_run_id: bytes, rows: int
) -> tuple[LiteralString, list[object]]:
    values = filter_parameters(where)
    values += [Int4(shard_id), Uuid(after_run_id), Int8(rows)]
    holds = _WHERE
    if where.expression is not None:
        conditions = Conditions(len(values))
        holds += "\n    and " + conditions.text(where.expression)
        values += conditions.values
    return _TARGETS + holds + _TARGETS_OF, values


def _where(expression: Expression | None, taken: int) -> tuple[LiteralString, list[object]]:
    if expression is None:
        return _WHERE, []
    conditions = Conditions(taken)
    text = "\n    and " + conditions.text(expression)
    if indexed(expression):
        return _STARTED_OF_FOUND + _OTHERWISE + text + _HAS_ATTRIBUTES, conditions.values
    return _WHERE + text, conditions.values


def filter_parameters(where: VisibilityFilter) -> list[object]:
    """$1 to $6."""
    return [
        Uuid(where.namespace_id),
        Int2s(where.statuses),
        where.workflow_type,
        where.workflow_id_prefix,
        Instant(where.start_min_us),
        Instant(where.start_max_us or LAST_US),
    ]


def page_parameters(order: Order, before: PageKey | None, limit: int) -> list[object]:
    """$7 to $9, and $10 of a list by close time."""
    if before is None:
        before = _FIRST if order in (Order.START_ASC, Order.CLOSE_ASC) else _LAST
    page = [Instant(before[0]), Uuid(before[1]), Int8(limit)]
    if order in _BY_CLOSE:
        page.append(Instant((before[2] if len(before) == 3 else 0) or LAST_US))
    return page
