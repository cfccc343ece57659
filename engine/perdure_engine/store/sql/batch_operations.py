"""`batch_operations`: what was asked of many runs at once. Few rows; the work stands in `batch_parts`."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.batches import BatchJob, BatchKey, BatchRow, encode_job
from perdure_engine.store.sql import audit, batch_parts
from perdure_engine.store.sql.parameters import LAST_US, Instant, Instants, Int8, Uuid
from perdure_engine.store.sql.readable import to_json

# $1 namespace, $2 id, $3 start, $4 the job; the audit log's row follows, then $14 for people. All or
# nothing: the others are joined to the job's row, which is not written when there is one of that id.
START: Final[LiteralString] = (
    """\
with w as (
  insert into batch_operations as t (namespace_id, job_id, started_at, job, readable)
  values ($1::uuid, $2::text, $3::timestamptz, $4::bytea, $14::text::jsonb)
  on conflict (namespace_id, job_id) do nothing
  returning t.namespace_id, t.job_id, t.started_at),
"""
    + batch_parts.OF_NEW_JOB
    + ",\n"
    + audit.BEHIND_FOUR
    + """
select w.job_id from w"""
)

# $14 when it was stopped. $4 is empty: one that is not there would be inserted without a job, and divides
# by zero (22012).
STOP: Final[LiteralString] = (
    """\
with w as (
  insert into batch_operations as t (namespace_id, job_id, started_at, job, stopped_at)
  select $1::uuid, $2::text, $3::timestamptz, $4::bytea, u.stopped_at
  from unnest($14::timestamptz[]) as u(stopped_at)
  on conflict (namespace_id, job_id) do update set stopped_at = excluded.stopped_at
  where t.stopped_at is null
  returning t.started_at, t.job),
"""
    + audit.BEHIND_FOUR
    + """
select div(1::numeric, (case when w.started_at = $3::timestamptz and length(w.job) > 0
  then 1 else 0 end)::numeric)::int8 as guard
from w"""
)

READ: Final[LiteralString] = """\
select b.namespace_id, b.job_id, b.started_at, b.stopped_at, b.job
from batch_operations as b
where b.namespace_id = $1::uuid and b.job_id = $2::text"""

LIST: Final[LiteralString] = """\
select b.namespace_id, b.job_id, b.started_at, b.stopped_at, b.job
from batch_operations as b
where b.namespace_id = $1::uuid and b.started_at <= $2::timestamptz
  and (b.started_at, b.job_id) < ($2::timestamptz, $3::text)
order by b.started_at desc, b.job_id desc limit $4::int8"""

REMOVE: Final[LiteralString] = (
    "with "
    + batch_parts.REMOVE
    + """,
d_jobs as (
  delete from batch_operations as t where t.namespace_id = $1::uuid and t.job_id = $2::text)
select 1 as removed"""
)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "batch_operations.start": START,
    "batch_operations.stop": STOP,
    "batch_operations.read": READ,
    "batch_operations.list": LIST,
    "batch_operations.remove": REMOVE,
}


def start_parameters(row: BatchRow, audited: AuditRow) -> list[object]:
    return [*_parameters(row, encode_job(row.job), audited), _readable(row.job)]


def stop_parameters(row: BatchRow, audited: AuditRow) -> list[object]:
    assert row.stopped_us is not None
    return [*_parameters(row, b"", audited), Instants([row.stopped_us])]


def _parameters(row: BatchRow, job: bytes, audited: AuditRow) -> list[object]:
    head = [Uuid(row.namespace_id), row.job_id, Instant(row.started_us), job]
    return [*head, *audit.rows_parameters([audited])]


def _readable(job: BatchJob) -> str:
    """For `perdure_v1_batch_operations`."""
    return to_json(
        {
            "operation": job.operation.name,
            "query": job.query,
            "reason": job.reason,
            "identity": job.identity,
            "rps": job.rps,
            "total": job.total,
        }
    )


def page_parameters(namespace_id: bytes, before: BatchKey | None, limit: int) -> list[object]:
    started_us, job_id = before or (LAST_US, "")
    return [Uuid(namespace_id), Instant(started_us), job_id, Int8(limit)]
