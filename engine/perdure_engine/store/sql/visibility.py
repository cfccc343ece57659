"""`visibility`: what lists and counts read; one row per run, in the same statement as its head.

The row's identity (namespace, bucket, ids, type, queue, start) never changes: an update leaves the
index alone and stays on its page. A list merges sixteen short index scans, one for each bucket.

Filters by type and id prefix have no index: on 100,000 rows the worst list (nothing found) takes 37
ms, and each index would cost every start and close more than the whole table does now. An index
(namespace, bucket, workflow_id) is the answer when namespaces of millions are searched by prefix.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.sql.parameters import (
    Blobs,
    Instant,
    Instants,
    Int2s,
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
    columns=(
        *(Int4s, Uuids, Uuids, Int2s, Texts, Texts, Texts),
        *(Int2s, Instants, Instants, Int8s, Int8s, Blobs, Texts),
    ),
)

# $1 namespace, $2 statuses, $3 type, $4 prefix, $5 and $6 start, $7 and $8 the last row seen, $9
# limit
LIST: Final[LiteralString] = """\
select v.shard_id, v.run_id, v.namespace_id, v.bucket, v.workflow_id, v.workflow_type,
  v.task_queue, v.status, v.start_time, v.close_time, v.history_events, v.history_bytes, v.memo,
  v.attrs
from generate_series(0::int8, 15::int8) as b(bucket)
cross join lateral (
  select r.shard_id, r.run_id, r.namespace_id, r.bucket, r.workflow_id, r.workflow_type,
    r.task_queue, r.status, r.start_time, r.close_time, r.history_events, r.history_bytes, r.memo,
    r.attrs::text as attrs
  from visibility as r
  where r.namespace_id = $1::uuid and r.bucket = b.bucket::int2
    and r.start_time >= $5::timestamptz and r.start_time < $6::timestamptz
    and r.start_time <= $7::timestamptz
    and (r.start_time, r.run_id) < ($7::timestamptz, $8::uuid)
    and (cardinality($2::int2[]) = 0 or r.status = any($2::int2[]))
    and ($3::text = '' or r.workflow_type = $3::text)
    and substring(r.workflow_id, 1, length($4::text)) = $4::text
  order by r.start_time desc, r.run_id desc limit $9::int8) as v
order by v.start_time desc, v.run_id desc limit $9::int8"""

COUNT: Final[LiteralString] = """\
select count(*) as runs
from visibility as r
where r.namespace_id = $1::uuid
  and r.start_time >= $5::timestamptz and r.start_time < $6::timestamptz
  and (cardinality($2::int2[]) = 0 or r.status = any($2::int2[]))
  and ($3::text = '' or r.workflow_type = $3::text)
  and substring(r.workflow_id, 1, length($4::text)) = $4::text"""

# By key, open runs and closed ones: what has closed is for the reader to see. A condition here would make
# one page read the whole shard when few rows meet it.
READ_AFTER: Final[LiteralString] = """\
select v.run_id, v.namespace_id, v.workflow_id, v.close_time, v.history_bytes
from visibility as v
where v.shard_id = $1::int4 and v.run_id > $2::uuid
order by v.shard_id, v.run_id limit $3::int8"""

REMOVE: Final[LiteralString] = """\
d_visibility as (
  delete from visibility as t
  where t.shard_id = any($1::int4[]) and t.run_id = any($6::uuid[]) and (select g.held from g))"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "visibility.read_after": READ_AFTER,
    "visibility.list": LIST,
    "visibility.count": COUNT,
}

# 9999-12-31: later than any start, and an instant that both databases can hold.
_LAST_US: Final = 253_402_214_400_000_000
_LAST_RUN_ID: Final = b"\xff" * 16


def filter_parameters(where: VisibilityFilter) -> list[object]:
    """$1 to $6."""
    return [
        Uuid(where.namespace_id),
        Int2s(where.statuses),
        where.workflow_type,
        where.workflow_id_prefix,
        Instant(where.start_min_us),
        Instant(where.start_max_us or _LAST_US),
    ]


def page_parameters(before: tuple[int, bytes] | None, limit: int) -> list[object]:
    """$7 to $9."""
    start_us, run_id = before or (_LAST_US, _LAST_RUN_ID)
    return [Instant(start_us), Uuid(run_id), Int8(limit)]
