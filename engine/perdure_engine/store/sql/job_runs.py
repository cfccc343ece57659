"""`job_runs`: the one row of each job run.

The common job is written twice, when it is made and when it ends. An update sends nothing for what it leaves as it is.

A list merges short index scans: sixteen buckets for each status that is asked for, or one for each status of a
user's, a schedule's or a batch's jobs, and reads the rows of the page that comes out by key. So a page costs the same
whatever lies around it, as long as only status, one of these owners and time are asked for. By task or queue it reads
along the time until the page is full (1.1 s when a million rows hold none); dead letters of one task have an index of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString, NamedTuple

from perdure_engine.ports.jobs import LISTED_SPEC_BYTES_MAX, JobFilter
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.store.sql.parameters import (
    LAST_US,
    Blobs,
    Column,
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

_KINDS: Final[tuple[type[Column], ...]] = (
    *(Int4s, Uuids, Uuids, Int2s, Texts, Texts, Int4s),
    *(Texts, Texts, Texts, Texts, Int2s, Int4s, Int2s),
    *(Instants, Instants, Instants, Int8s, Int8s),
    *(Blobs, Blobs, Blobs, Int8s),
)
# The key, and what an update changes.
_SENT_BY_UPDATES: Final = frozenset(
    {"shard_id", "job_id", "status", "attempt", "priority", "scheduled_us", "closed_us"}
    | {"task_id", "start_no", "state", "result", "version"}
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
    coalesce(u.task_name, ''), coalesce(u.queue, ''), coalesce(u.queue_no, 0),
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
  on conflict (shard_id, job_id) do update set status = excluded.status,
    attempt = excluded.attempt, priority = excluded.priority, scheduled_at = excluded.scheduled_at,
    closed_at = excluded.closed_at, task_id = excluded.task_id, start_no = excluded.start_no,
    state = excluded.state, result = excluded.result, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_job_runs where w_job_runs.version > 0) = cardinality($99::int8[])""",
    first=77,
    columns=_KINDS,
    pack=_parameters,
)

_ROWS: Final[LiteralString] = """\
select r.shard_id, r.job_id, r.namespace_id, r.bucket, r.task_name, r.queue, r.queue_no,
  r.user_id, r.schedule_id, r.concurrency_key, r.batch_id, r.status, r.attempt, r.priority,
  r.created_at, r.scheduled_at, r.closed_at, r.task_id, r.start_no, r.spec, r.state, r.result,
  r.version
from job_runs as r
"""

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
    + _ROWS
    + """where r.shard_id = $1::int4 and r.job_id = u.job_id limit 1) as j"""
)

READ_QUEUE: Final[LiteralString] = (
    _ROWS
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
    _ROWS
    + """\
where r.shard_id = $1::int4 and r.queue_no >= $2::int4
  and (r.queue_no, r.task_id) > ($2::int4, $3::int8) and r.task_id > 0
order by r.shard_id, r.queue_no, r.task_id limit $4::int8"""
)
READ_STARTED: Final[LiteralString] = (
    _ROWS
    + """\
where r.shard_id = $1::int4 and r.job_id > $2::uuid and r.status = 2
order by r.shard_id, r.job_id limit $3::int8"""
)

# $1 shard, $2 namespace, $3 key, $4 limit. The conditions of the partial indexes, word for word.
READ_HOLDING: Final[LiteralString] = (
    _ROWS
    + """\
where r.shard_id = $1::int4 and r.namespace_id = $2::uuid and r.concurrency_key = $3::text
  and r.concurrency_key <> '' and (r.status = 2 or r.task_id > 0)
order by r.created_at, r.job_id limit $4::int8"""
)
READ_WAITING: Final[LiteralString] = (
    _ROWS
    + """\
where r.shard_id = $1::int4 and r.namespace_id = $2::uuid and r.concurrency_key = $3::text
  and r.concurrency_key <> '' and r.task_id < 0
order by r.task_id desc limit $4::int8"""
)

# By key, open jobs and ended ones: what has ended is for the reader to see (store.sql.visibility says why).
READ_AFTER: Final[LiteralString] = """\
select j.job_id, j.namespace_id, j.closed_at,
  case when j.closed_at is null then ''::bytea else j.spec end as spec
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

# ---- lists: $1 namespace, $2 statuses, $3 and $4 scheduled, $5 user, $6 schedule, $7 batch, $8 task,
# $9 queue, $10 and $11 the last job seen, $12 limit


class _Path(NamedTuple):
    """Where the jobs are looked for: some scans of an index, and which part of it each one reads."""

    scans: LiteralString
    where: LiteralString


_STATUSES: Final[LiteralString] = """\
unnest($2::int2[]) as s(status)
  cross join """
_ALL: Final = _Path(
    _STATUSES + "generate_series(0::int8, 15::int8) as b(bucket)\n  cross join ",
    """
    where r.namespace_id = $1::uuid and r.status = s.status and r.bucket = b.bucket::int2""",
)
_OF_USER: Final = _Path(
    _STATUSES,
    """
    where r.namespace_id = $1::uuid and r.user_id = $5::text and r.user_id <> ''
      and r.status = s.status""",
)
_OF_SCHEDULE: Final = _Path(
    _STATUSES,
    """
    where r.namespace_id = $1::uuid and r.schedule_id = $6::text and r.schedule_id <> ''
      and r.status = s.status""",
)
_OF_BATCH: Final = _Path(
    _STATUSES,
    """
    where r.namespace_id = $1::uuid and r.batch_id = $7::text and r.batch_id <> ''
      and r.status = s.status""",
)
_FAILED_OF_TASK: Final = _Path(
    _STATUSES,
    """
    where r.namespace_id = $1::uuid and r.task_name = $8::text and r.status = 5
      and s.status = 5""",
)
_SCHEDULED: Final[LiteralString] = """
      and r.scheduled_at >= $3::timestamptz and r.scheduled_at < $4::timestamptz"""
_OTHERWISE: Final[LiteralString] = """
      and ($5::text = '' or r.user_id = $5::text) and ($6::text = '' or r.schedule_id = $6::text)
      and ($7::text = '' or r.batch_id = $7::text) and ($8::text = '' or r.task_name = $8::text)
      and ($9::text = '' or r.queue = $9::text)"""

assert LISTED_SPEC_BYTES_MAX == 4_096, "the text below says 4096"
_PAGE: Final[LiteralString] = """\
select j.shard_id, j.job_id, j.namespace_id, j.bucket, j.task_name, j.queue, j.queue_no,
  j.user_id, j.schedule_id, j.concurrency_key, j.batch_id, j.status, j.attempt, j.priority,
  j.created_at, j.scheduled_at, j.closed_at, j.task_id, j.start_no,
  case when length(j.spec) <= 4096 then j.spec else ''::bytea end as spec, j.state,
  ''::bytea as result, j.version
from (
  select r.shard_id, r.job_id, r.scheduled_at
  from """
_KEYS: Final[LiteralString] = """lateral (
    select r.shard_id, r.job_id, r.scheduled_at
    from job_runs as r"""
_NEWEST_FIRST: Final[LiteralString] = """
      and r.scheduled_at <= $10::timestamptz
      and (r.scheduled_at, r.job_id) < ($10::timestamptz, $11::uuid)
    order by r.scheduled_at desc, r.job_id desc limit $12::int8) as r
  order by r.scheduled_at desc, r.job_id desc limit $12::int8"""
_OLDEST_FIRST: Final[LiteralString] = """
      and r.scheduled_at >= $10::timestamptz
      and (r.scheduled_at, r.job_id) > ($10::timestamptz, $11::uuid)
    order by r.scheduled_at, r.job_id limit $12::int8) as r
  order by r.scheduled_at, r.job_id limit $12::int8"""
_ROWS_OF_PAGE: Final[LiteralString] = """) as p
cross join lateral (
  select k.shard_id, k.job_id, k.namespace_id, k.bucket, k.task_name, k.queue, k.queue_no,
    k.user_id, k.schedule_id, k.concurrency_key, k.batch_id, k.status, k.attempt, k.priority,
    k.created_at, k.scheduled_at, k.closed_at, k.task_id, k.start_no, k.spec, k.state, k.version
  from job_runs as k
  where k.shard_id = p.shard_id and k.job_id = p.job_id limit 1) as j
order by """
_NEWEST: Final[LiteralString] = _NEWEST_FIRST + _ROWS_OF_PAGE + "p.scheduled_at desc, p.job_id desc"
_OLDEST: Final[LiteralString] = _OLDEST_FIRST + _ROWS_OF_PAGE + "p.scheduled_at, p.job_id"

# ---- counts: $1 to $9. Where status, time and one owner are all that is asked for, the index alone answers.

_COUNT: Final[LiteralString] = """\
select s.status, sum(c.jobs)::int8 as jobs
from """
_JOBS: Final[LiteralString] = """lateral (
    select count(*) as jobs
    from job_runs as r"""
_NO_USER: Final[LiteralString] = """
      and $5::text = ''"""
_NO_SCHEDULE: Final[LiteralString] = """
      and $6::text = ''"""
_BY_STATUS: Final[LiteralString] = """) as c
group by s.status
order by s.status"""


def _list(path: _Path, rest: LiteralString) -> LiteralString:
    return _PAGE + path.scans + _KEYS + path.where + _SCHEDULED + _OTHERWISE + rest


def _count(path: _Path, otherwise: LiteralString) -> LiteralString:
    return _COUNT + path.scans + _JOBS + path.where + _SCHEDULED + otherwise + _BY_STATUS


_LISTS: Final = {
    (path, oldest_first): _list(path, _OLDEST if oldest_first else _NEWEST)
    for path in (_ALL, _OF_USER, _OF_SCHEDULE, _OF_BATCH, _FAILED_OF_TASK)
    for oldest_first in (False, True)
}
_COUNTS: Final = {
    path: _count(path, _OTHERWISE) for path in (_ALL, _OF_USER, _OF_SCHEDULE, _OF_BATCH)
}
_COUNTS_OF_INDEX: Final = {
    _ALL: _count(_ALL, ""),
    _OF_USER: _count(_OF_USER, ""),
    _OF_SCHEDULE: _count(_OF_SCHEDULE, _NO_USER),
    _OF_BATCH: _count(_OF_BATCH, _NO_USER + _NO_SCHEDULE),
}

STATEMENTS: Final[dict[str, LiteralString]] = {
    "job_runs.read_keys": READ_KEYS,
    "job_runs.read_queue": READ_QUEUE,
    "job_runs.read_ready": READ_READY,
    "job_runs.count_ready": COUNT_READY,
    "job_runs.read_started": READ_STARTED,
    "job_runs.read_holding": READ_HOLDING,
    "job_runs.read_waiting": READ_WAITING,
    "job_runs.read_after": READ_AFTER,
    "job_runs.list": _LISTS[_ALL, False],
    "job_runs.list_oldest": _LISTS[_ALL, True],
    "job_runs.list_user": _LISTS[_OF_USER, False],
    "job_runs.list_user_oldest": _LISTS[_OF_USER, True],
    "job_runs.list_schedule": _LISTS[_OF_SCHEDULE, False],
    "job_runs.list_schedule_oldest": _LISTS[_OF_SCHEDULE, True],
    "job_runs.list_batch": _LISTS[_OF_BATCH, False],
    "job_runs.list_batch_oldest": _LISTS[_OF_BATCH, True],
    "job_runs.list_failed": _LISTS[_FAILED_OF_TASK, False],
    "job_runs.list_failed_oldest": _LISTS[_FAILED_OF_TASK, True],
    "job_runs.count": _COUNTS[_ALL],
    "job_runs.count_user": _COUNTS[_OF_USER],
    "job_runs.count_schedule": _COUNTS[_OF_SCHEDULE],
    "job_runs.count_batch": _COUNTS[_OF_BATCH],
    "job_runs.count_index": _COUNTS_OF_INDEX[_ALL],
    "job_runs.count_index_user": _COUNTS_OF_INDEX[_OF_USER],
    "job_runs.count_index_schedule": _COUNTS_OF_INDEX[_OF_SCHEDULE],
    "job_runs.count_index_batch": _COUNTS_OF_INDEX[_OF_BATCH],
}

# How many names a count of the index has.
_OWNERS: Final = {_ALL: 0, _OF_USER: 1, _OF_SCHEDULE: 2, _OF_BATCH: 3}
_FAILED: Final = (5,)
_EACH_STATUS: Final = (1, 2, 3, 4, 5, 6, 7, 8)
_FIRST: Final = (-1, bytes(16))
_LAST: Final = (LAST_US, b"\xff" * 16)


def list_statement(
    where: JobFilter, past: tuple[int, bytes] | None, limit: int, *, oldest_first: bool
) -> tuple[LiteralString, list[object]]:
    path = _path(where)
    if path is _ALL and where.task_name and where.statuses == _FAILED:
        path = _FAILED_OF_TASK
    scheduled_us, job_id = past or (_FIRST if oldest_first else _LAST)
    from_us, to_us = where.from_us, where.to_us or LAST_US
    # The condition of the page alone does not tell PostgreSQL where to begin (18: beside another bound it begins
    # there, and the tenth page reads nine for nothing).
    if oldest_first:
        from_us = max(from_us, scheduled_us)
    else:
        to_us = min(to_us, scheduled_us + 1)
    page = [Instant(scheduled_us), Uuid(job_id), Int8(limit)]
    return _LISTS[path, oldest_first], [*_places(where, from_us, to_us), *_names(where), *page]


def count_statement(where: JobFilter) -> tuple[LiteralString, list[object]]:
    path = _path(where)
    places, names = _places(where, where.from_us, where.to_us or LAST_US), _names(where)
    owners = [name for name in names[:3] if name]
    if len(owners) > 1 or where.task_name or where.queue:
        return _COUNTS[path], [*places, *names]
    return _COUNTS_OF_INDEX[path], [*places, *names[: _OWNERS[path]]]


def _path(where: JobFilter) -> _Path:
    if where.schedule_id:
        return _OF_SCHEDULE
    if where.batch_id:
        return _OF_BATCH
    return _OF_USER if where.user_id else _ALL


def _places(where: JobFilter, from_us: int, to_us: int) -> list[object]:
    """$1 to $4. Each status once: a scan for it twice would find its jobs twice."""
    return [
        Uuid(where.namespace_id),
        Int2s(dict.fromkeys(where.statuses) or _EACH_STATUS),
        Instant(from_us),
        Instant(to_us),
    ]


def _names(where: JobFilter) -> list[object]:
    """$5 to $9."""
    return [where.user_id, where.schedule_id, where.batch_id, where.task_name, where.queue]
