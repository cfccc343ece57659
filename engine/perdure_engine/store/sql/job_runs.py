"""`job_runs`: the one row of each job run.

The common job is written twice, when it is made and when it ends. An update sends nothing for what it leaves as it is.
Lists and counts: `job_lists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from perdure_engine.ports.jobs import LISTED_SPEC_BYTES_MAX
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.store.sql.parameters import (
    Blobs,
    Column,
    Instants,
    Int2s,
    Int4s,
    Int8s,
    Texts,
    Uuids,
)
from perdure_engine.store.sql.table import BatchTable

_KINDS: Final[tuple[type[Column], ...]] = (
    *(Int4s, Uuids, Uuids, Int2s, Texts, Texts, Int4s),
    *(Texts, Texts, Texts, Texts, Int2s, Int4s, Int2s),
    *(Instants, Instants, Instants, Int8s, Int8s),
    *(Blobs, Blobs, Blobs, Int8s),
)
# The key, and what an update changes.
_SENT_BY_UPDATES: Final = frozenset(
    {"shard_id", "job_id", "queue_no", "status", "attempt", "priority", "scheduled_us"}
    | {"closed_us", "task_id", "start_no", "state", "result", "version"}
)
_COLUMNS: Final = [
    (kind, name in _SENT_BY_UPDATES) for kind, name in zip(_KINDS, JobRunRow._fields, strict=True)
]


def _parameters(rows: Sequence[JobRunRow]) -> list[object]:
    """New rows first. Of the others only what an update changes is sent: `unnest` fills the shorter arrays up with
    nulls, for which the statement has what such a row proposes and nobody reads.
    """
    new = [row for row in rows if row.version > 0]
    changed = [row for row in rows if row.version <= 0]
    of_all = list(zip(*new, *changed, strict=True)) or [()] * len(_COLUMNS)
    of_new = list(zip(*new, strict=True)) or [()] * len(_COLUMNS)
    return [
        kind(of_all[number] if of_updates_too else of_new[number])
        for number, (kind, of_updates_too) in enumerate(_COLUMNS)
    ]


BATCH: Final = BatchTable(
    name="job_runs",
    write="""\
w_job_runs as (
  insert into job_runs as t (shard_id, job_id, namespace_id, bucket, task_name, queue, queue_no,
    user_id, schedule_id, concurrency_key, batch_id, status, attempt, priority, created_at,
    scheduled_at, closed_at, task_id, start_no, spec, state, result, version)
  select u.shard_id, u.job_id,
    coalesce(u.namespace_id, '00000000-0000-0000-0000-000000000000'::uuid), coalesce(u.bucket, 0),
    coalesce(u.task_name, ''), coalesce(u.queue, ''), u.queue_no,
    coalesce(u.user_id, ''), coalesce(u.schedule_id, ''), coalesce(u.concurrency_key, ''),
    coalesce(u.batch_id, ''), u.status, u.attempt, u.priority,
    coalesce(u.created_at, u.scheduled_at), u.scheduled_at, u.closed_at, u.task_id, u.start_no,
    coalesce(u.spec, ''::bytea), u.state, u.result, u.version
  from unnest($77::int4[], $78::uuid[], $79::uuid[], $80::int2[], $81::text[], $82::text[],
      $83::int4[], $84::text[], $85::text[], $86::text[], $87::text[], $88::int2[], $89::int4[],
      $90::int2[], $91::timestamptz[], $92::timestamptz[], $93::timestamptz[], $94::int8[],
      $95::int8[], $96::bytea[], $97::bytea[], $98::bytea[], $99::int8[])
    as u(shard_id, job_id, namespace_id, bucket, task_name, queue, queue_no, user_id, schedule_id,
      concurrency_key, batch_id, status, attempt, priority, created_at, scheduled_at, closed_at,
      task_id, start_no, spec, state, result, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, job_id) do update set queue_no = excluded.queue_no,
    status = excluded.status, attempt = excluded.attempt, priority = excluded.priority,
    scheduled_at = excluded.scheduled_at, closed_at = excluded.closed_at,
    task_id = excluded.task_id, start_no = excluded.start_no, state = excluded.state,
    result = excluded.result, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_job_runs where w_job_runs.version > 0) = cardinality($99::int8[])""",
    first=77,
    columns=_KINDS,
    pack=_parameters,
)

AS_R: Final[LiteralString] = "from job_runs as r\n"
"""For statements that are put together elsewhere, as ROWS is."""

ROWS: Final[LiteralString] = (
    """\
select r.shard_id, r.job_id, r.namespace_id, r.bucket, r.task_name, r.queue, r.queue_no,
  r.user_id, r.schedule_id, r.concurrency_key, r.batch_id, r.status, r.attempt, r.priority,
  r.created_at, r.scheduled_at, r.closed_at, r.task_id, r.start_no, r.spec, r.state, r.result,
  r.version
"""
    + AS_R
)

# LATERAL with a limit: a probe of the primary key for each job, whatever the statistics say.
READ_KEYS: Final[LiteralString] = (
    """\
select j.shard_id, j.job_id, j.namespace_id, j.bucket, j.task_name, j.queue, j.queue_no,
  j.user_id, j.schedule_id, j.concurrency_key, j.batch_id, j.status, j.attempt, j.priority,
  j.created_at, j.scheduled_at, j.closed_at, j.task_id, j.start_no, j.spec, j.state, j.result,
  j.version
from unnest($2::uuid[]) as u(job_id)
cross join lateral (
"""
    + ROWS
    + """where r.shard_id = $1::int4 and r.job_id = u.job_id limit 1) as j"""
)

READ_QUEUE: Final[LiteralString] = (
    ROWS
    + """\
where r.shard_id = $1::int4 and r.queue_no = $2::int4 and r.task_id > $3::int8 and r.task_id > 0
order by r.shard_id, r.queue_no, r.task_id limit $4::int8"""
)
COUNT_READY: Final[LiteralString] = """\
select count(*) as jobs
from job_runs as r
where r.shard_id = $1::int4 and r.queue_no = $2::int4
  and r.task_id > $3::int8 and r.task_id < $4::int8 and r.task_id > 0"""
READ_READY: Final[LiteralString] = (
    ROWS
    + """\
where r.shard_id = $1::int4 and r.queue_no >= $2::int4
  and (r.queue_no, r.task_id) > ($2::int4, $3::int8) and r.task_id > 0
order by r.shard_id, r.queue_no, r.task_id limit $4::int8"""
)
READ_STARTED: Final[LiteralString] = (
    ROWS
    + """\
where r.shard_id = $1::int4 and r.job_id > $2::uuid and r.status = 2
order by r.shard_id, r.job_id limit $3::int8"""
)

# $1 shard, $2 namespace, $3 key, $4 limit. The conditions of the partial indexes, word for word.
READ_HOLDING: Final[LiteralString] = (
    ROWS
    + """\
where r.shard_id = $1::int4 and r.namespace_id = $2::uuid and r.concurrency_key = $3::text
  and r.concurrency_key <> '' and (r.status = 2 or r.task_id > 0)
order by r.created_at, r.job_id limit $4::int8"""
)
READ_WAITING: Final[LiteralString] = (
    ROWS
    + """\
where r.shard_id = $1::int4 and r.namespace_id = $2::uuid and r.concurrency_key = $3::text
  and r.concurrency_key <> '' and r.task_id < 0
order by r.task_id desc limit $4::int8"""
)

# By key, open jobs and ended ones: what has ended is for the reader to see (store.sql.visibility says why).
assert LISTED_SPEC_BYTES_MAX == 4_096, "the text below says 4096"
READ_AFTER: Final[LiteralString] = """\
select j.job_id, j.namespace_id, j.closed_at,
  case when j.closed_at is null or length(j.spec) > 4096 then ''::bytea else j.spec end as spec,
  length(j.spec) + length(j.state) + length(j.result) as row_bytes
from job_runs as j
where j.shard_id = $1::int4 and j.job_id > $2::uuid
order by j.shard_id, j.job_id limit $3::int8"""

REMOVE: Final[LiteralString] = """\
d_job_runs as (
  delete from job_runs as t
  where t.shard_id = any($1::int4[]) and t.job_id = any($6::uuid[]) and (select g.held from g)
  returning t.closed_at)"""
STILL_OPEN: Final[LiteralString] = """\
(select count(*) from d_job_runs where d_job_runs.closed_at is null)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "job_runs.read_keys": READ_KEYS,
    "job_runs.read_queue": READ_QUEUE,
    "job_runs.read_ready": READ_READY,
    "job_runs.count_ready": COUNT_READY,
    "job_runs.read_started": READ_STARTED,
    "job_runs.read_holding": READ_HOLDING,
    "job_runs.read_waiting": READ_WAITING,
    "job_runs.read_after": READ_AFTER,
}
