"""Lists and counts of jobs (`job_runs`).

A list merges short index scans: sixteen buckets for each status that is asked for, or one for each status of a
user's, a schedule's or a batch's jobs, and reads the rows of the page that comes out by key. So a page costs the same
whatever lies around it, as long as only status, one of these owners and time are asked for. Dead letters of one task
(failed, suspended, poisoned) have an index of their own.

What else a filter asks for (a task, a queue, a second owner) is looked for along the time, and no index knows where the
next such job is. So there `end_statement` comes first: how far the next `look` jobs of each scan reach, whatever the
filter finds among them; the list reads no further, and the next page goes on there. Task and queue are in the list
index, so that looking for them reads no rows.
"""

from __future__ import annotations

from typing import Final, LiteralString, NamedTuple

from perdure_engine.ports.jobs import LISTED_SPEC_BYTES_MAX, LISTED_STATES_BYTES_MAX, JobFilter
from perdure_engine.store.sql.job_runs import AS_R, ROWS
from perdure_engine.store.sql.parameters import LAST_US, Instant, Int2s, Int8, Uuid

Key = tuple[int, bytes]
"""Scheduled, and job id."""

# $1 namespace, $2 statuses, $3 and $4 scheduled, $5 user, $6 schedule, $7 batch, $8 task, $9 queue


class _Path(NamedTuple):
    """Where the jobs are looked for: some scans of an index, which part of it each one reads, and what is left of the
    filter then, by the columns of the index where it has them."""

    scans: LiteralString
    where: LiteralString
    otherwise: LiteralString


_STATUSES: Final[LiteralString] = """\
unnest($2::int2[]) as s(status)
  cross join """
_TASK_AND_QUEUE: Final[LiteralString] = """
      and ($8::text = '' or r.task_name = $8::text) and ($9::text = '' or r.queue = $9::text)"""
_OTHERWISE: Final[LiteralString] = (
    """
      and ($5::text = '' or r.user_id = $5::text) and ($6::text = '' or r.schedule_id = $6::text)
      and ($7::text = '' or r.batch_id = $7::text)"""
    + _TASK_AND_QUEUE
)
# Then nobody's jobs are asked for: that it says so keeps the scan inside its index.
_NO_OWNER: Final[LiteralString] = """
      and $5::text = '' and $6::text = '' and $7::text = ''"""
_ALL: Final = _Path(
    _STATUSES + "generate_series(0::int8, 15::int8) as b(bucket)\n  cross join ",
    """\
    where r.namespace_id = $1::uuid and r.status = s.status and r.bucket = b.bucket::int2""",
    _TASK_AND_QUEUE + _NO_OWNER,
)


def _of(owner: LiteralString) -> _Path:
    where = "    where r.namespace_id = $1::uuid and " + owner + "\n      and r.status = s.status"
    return _Path(_STATUSES, where, _OTHERWISE)


_OF_USER: Final = _of("r.user_id = $5::text and r.user_id <> ''")
_OF_SCHEDULE: Final = _of("r.schedule_id = $6::text and r.schedule_id <> ''")
_OF_BATCH: Final = _of("r.batch_id = $7::text and r.batch_id <> ''")
_DEAD_OF_TASK: Final = _Path(
    _STATUSES,
    """\
    where r.namespace_id = $1::uuid and r.task_name = $8::text and (r.status = 5 or r.status = 8 or r.status = 9)
      and r.status = s.status""",
    _OTHERWISE,
)
_SCHEDULED: Final[LiteralString] = """
      and r.scheduled_at >= $3::timestamptz and r.scheduled_at < $4::timestamptz"""

# ---- pages: $10 and $11 the last job seen, $12 how many; $13 and $14 the last one to look at

assert LISTED_SPEC_BYTES_MAX == 4_096, "the text below says 4096"
assert LISTED_STATES_BYTES_MAX == 4_194_304, "the text below says 4194304"
_PAGE: Final[LiteralString] = """\
select j.shard_id, j.job_id, j.namespace_id, j.bucket, j.task_name, j.queue, j.queue_no,
  j.user_id, j.schedule_id, j.concurrency_key, j.batch_id, j.status, j.attempt, j.priority,
  j.created_at, j.scheduled_at, j.closed_at, j.task_id, j.start_no,
  case when length(j.spec) <= 4096 then j.spec else ''::bytea end as spec,
  case when sum(length(j.state)) over (order by """
_WITH_STATE: Final[LiteralString] = """) - length(j.state) < 4194304 then j.state end as state,
  ''::bytea as result, j.version
from (
  select r.shard_id, r.job_id, r.scheduled_at
  from """
_KEYS: Final[LiteralString] = (
    """lateral (
    select r.shard_id, r.job_id, r.scheduled_at
    """
    + AS_R
)
_ROWS_OF_PAGE: Final[LiteralString] = (
    """) as p
cross join lateral (
"""
    + ROWS
    + """where r.shard_id = p.shard_id and r.job_id = p.job_id limit 1) as j
order by """
)


class _Direction(NamedTuple):
    past: LiteralString
    until: LiteralString
    order: LiteralString
    order_of_page: LiteralString


_NEWEST_FIRST: Final = _Direction(
    """
      and r.scheduled_at <= $10::timestamptz
      and (r.scheduled_at, r.job_id) < ($10::timestamptz, $11::uuid)""",
    """
      and (r.scheduled_at, r.job_id) >= ($13::timestamptz, $14::uuid)""",
    "r.scheduled_at desc, r.job_id desc",
    "p.scheduled_at desc, p.job_id desc",
)
_OLDEST_FIRST: Final = _Direction(
    """
      and r.scheduled_at >= $10::timestamptz
      and (r.scheduled_at, r.job_id) > ($10::timestamptz, $11::uuid)""",
    """
      and (r.scheduled_at, r.job_id) <= ($13::timestamptz, $14::uuid)""",
    "r.scheduled_at, r.job_id",
    "p.scheduled_at, p.job_id",
)


def _list(path: _Path, direction: _Direction) -> LiteralString:
    until, order = direction.until, direction.order
    limited = "\n    order by " + order + " limit $12::int8) as r"
    page = "\n  order by " + order + " limit $12::int8"
    rows = _ROWS_OF_PAGE + direction.order_of_page
    return (
        _PAGE + direction.order_of_page + _WITH_STATE + path.scans + _KEYS + path.where + _SCHEDULED
    ) + (direction.past + until + path.otherwise + limited + page + rows)


# ---- where the scans of a page end: $12 the number of jobs to look at in each. Only for what a filter asks for beside
# its path: without it there is no end to find.

_ENDS: Final[LiteralString] = """\
select e.scheduled_at, e.job_id
from """
_END_OF_SCAN: Final[LiteralString] = (
    """lateral (
    select r.scheduled_at, r.job_id
    """
    + AS_R
)
_ASKED_BESIDE: Final[LiteralString] = """
      and ($5::text, $6::text, $7::text, $8::text, $9::text) <> ('', '', '', '', '')"""


def _end(path: _Path, direction: _Direction) -> LiteralString:
    """Of the scans that end, the first end: beyond it one of them has not been read."""
    order = direction.order
    last = "\n    order by " + order + " limit 1 offset $12::int8 - 1::int8) as e\norder by "
    first = "e.scheduled_at desc, e.job_id desc limit 1"
    if direction is _OLDEST_FIRST:
        first = "e.scheduled_at, e.job_id limit 1"
    where = path.where + _SCHEDULED + direction.past + _ASKED_BESIDE
    return _ENDS + path.scans + _END_OF_SCAN + where + last + first


# ---- counts: $1 to $9. Where status, time and one owner, task or queue are all that is asked for, the index alone
# answers.

_COUNT: Final[LiteralString] = """\
select s.status, sum(c.jobs)::int8 as jobs
from """
_JOBS: Final[LiteralString] = (
    """lateral (
    select count(*) as jobs
    """
    + AS_R
)
_NO_USER: Final[LiteralString] = """
      and $5::text = ''"""
_NO_SCHEDULE: Final[LiteralString] = """
      and $6::text = ''"""
_BY_STATUS: Final[LiteralString] = """) as c
group by s.status
order by s.status"""


def _count(path: _Path, otherwise: LiteralString) -> LiteralString:
    return _COUNT + path.scans + _JOBS + path.where + _SCHEDULED + otherwise + _BY_STATUS


_PATHS: Final = (_ALL, _OF_USER, _OF_SCHEDULE, _OF_BATCH, _DEAD_OF_TASK)
_LISTS: Final = {
    (path, oldest_first): _list(path, _OLDEST_FIRST if oldest_first else _NEWEST_FIRST)
    for path in _PATHS
    for oldest_first in (False, True)
}
_LIST_ENDS: Final = {
    (path, oldest_first): _end(path, _OLDEST_FIRST if oldest_first else _NEWEST_FIRST)
    for path in _PATHS
    for oldest_first in (False, True)
}
_COUNTS: Final = {
    path: _count(path, path.otherwise) for path in (_ALL, _OF_USER, _OF_SCHEDULE, _OF_BATCH)
}
_COUNTS_OF_INDEX: Final = {
    _ALL: _count(_ALL, ""),
    _OF_USER: _count(_OF_USER, ""),
    _OF_SCHEDULE: _count(_OF_SCHEDULE, _NO_USER),
    _OF_BATCH: _count(_OF_BATCH, _NO_USER + _NO_SCHEDULE),
}

_NAMES_OF_PATHS: Final[dict[_Path, LiteralString]] = {
    _ALL: "all",
    _OF_USER: "user",
    _OF_SCHEDULE: "schedule",
    _OF_BATCH: "batch",
    _DEAD_OF_TASK: "dead",
}
STATEMENTS: Final[dict[str, LiteralString]] = {
    **{
        f"job_lists.{kind}_{_NAMES_OF_PATHS[path]}{'_oldest' if oldest_first else ''}": text
        for kind, texts in (("list", _LISTS), ("end", _LIST_ENDS))
        for (path, oldest_first), text in texts.items()
    },
    **{
        f"job_lists.{kind}_{_NAMES_OF_PATHS[path]}": text
        for kind, texts in (("count", _COUNTS), ("count_index", _COUNTS_OF_INDEX))
        for path, text in texts.items()
    },
}

# How many names a count of the index has.
_OWNERS: Final = {_ALL: 0, _OF_USER: 1, _OF_SCHEDULE: 2, _OF_BATCH: 3}
_DEAD: Final = {5, 8, 9}
_EACH_STATUS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9)
_FIRST: Final = (-1, bytes(16))
_LAST: Final = (LAST_US, b"\xff" * 16)


def needs_end(where: JobFilter) -> bool:
    """Whether the filter asks for more than its path finds by its index."""
    owners = [where.user_id, where.schedule_id, where.batch_id]
    asked = sum(map(bool, [*owners, where.task_name, where.queue]))
    by_the_path = any(owners) or _path(where) is _DEAD_OF_TASK
    return asked > by_the_path


def end_statement(
    where: JobFilter, past: Key | None, look: int, *, oldest_first: bool
) -> tuple[LiteralString, list[object]]:
    """How far the next `look` jobs of each scan reach: one row, (scheduled, job id), or none when there are fewer."""
    places, page = _page(where, past, None, oldest_first=oldest_first)
    values = [*places, *_names(where), *page, Int8(look)]
    return _LIST_ENDS[_path(where), oldest_first], values


def list_statement(
    where: JobFilter, past: Key | None, until: Key | None, limit: int, *, oldest_first: bool
) -> tuple[LiteralString, list[object]]:
    """Past the one, up to the other inclusive; None: from the beginning, to the end."""
    places, page = _page(where, past, until, oldest_first=oldest_first)
    scheduled_us, job_id = until or (_LAST if oldest_first else _FIRST)
    values = [*places, *_names(where), *page, Int8(limit), Instant(scheduled_us), Uuid(job_id)]
    return _LISTS[_path(where), oldest_first], values


def count_statement(where: JobFilter) -> tuple[LiteralString, list[object]]:
    path = _path_of_owner(where)
    places, names = _places(where, where.from_us, where.to_us or LAST_US), _names(where)
    owners = [name for name in names[:3] if name]
    if len(owners) > 1 or where.task_name or where.queue:
        return _COUNTS[path], [*places, *names]
    return _COUNTS_OF_INDEX[path], [*places, *names[: _OWNERS[path]]]


def _path(where: JobFilter) -> _Path:
    path = _path_of_owner(where)
    if path is _ALL and where.task_name and where.statuses and _DEAD.issuperset(where.statuses):
        return _DEAD_OF_TASK
    return path


def _path_of_owner(where: JobFilter) -> _Path:
    if where.schedule_id:
        return _OF_SCHEDULE
    if where.batch_id:
        return _OF_BATCH
    return _OF_USER if where.user_id else _ALL


def _page(
    where: JobFilter, past: Key | None, until: Key | None, *, oldest_first: bool
) -> tuple[list[object], list[object]]:
    """$1 to $4, and $10 and $11."""
    scheduled_us, job_id = past or (_FIRST if oldest_first else _LAST)
    from_us, to_us = where.from_us, where.to_us or LAST_US
    # The conditions of the page alone do not tell PostgreSQL where to begin (18: beside another bound it begins
    # there, and the tenth page reads nine for nothing), and where to end.
    newest, oldest = (until, past) if oldest_first else (past, until)
    if newest is not None:
        to_us = min(to_us, newest[0] + 1)
    if oldest is not None:
        from_us = max(from_us, oldest[0])
    return _places(where, from_us, to_us), [Instant(scheduled_us), Uuid(job_id)]


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
