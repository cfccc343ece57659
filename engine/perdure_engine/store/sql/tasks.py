"""`tasks`: one row per ready, started or backing-off task. A row whose reason is over is `gone`."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Blobs, Int2s, Int4s, Int8s, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="tasks",
    write="""\
w_tasks as (
  insert into tasks as t (shard_id, queue_no, task_id, run_id, state, attempt, start_no, priority,
    payload, version)
  select u.shard_id, u.queue_no, u.task_id, u.run_id, u.state, u.attempt, u.start_no, u.priority,
    u.payload, u.version
  from unnest($24::int4[], $25::int4[], $26::int8[], $27::uuid[], $28::int2[], $29::int4[],
      $30::int8[], $31::int2[], $32::bytea[], $33::int8[])
    as u(shard_id, queue_no, task_id, run_id, state, attempt, start_no, priority, payload, version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, queue_no, task_id) do update set state = excluded.state,
    attempt = excluded.attempt, start_no = excluded.start_no, priority = excluded.priority,
    payload = excluded.payload, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_tasks where w_tasks.version > 0) = cardinality($33::int8[])""",
    first=24,
    columns=(Int4s, Int4s, Int8s, Uuids, Int2s, Int4s, Int8s, Int2s, Blobs, Int8s),
)

READ_AFTER: Final[LiteralString] = """\
select t.shard_id, t.queue_no, t.task_id, t.run_id, t.state, t.attempt, t.start_no, t.priority,
  t.payload, t.version
from tasks as t
where t.shard_id = $1::int4 and t.queue_no >= $2::int4
  and (t.queue_no, t.task_id) > ($2::int4, $3::int8)
order by t.shard_id, t.queue_no, t.task_id limit $4::int8"""

READ_QUEUE: Final[LiteralString] = """\
select t.shard_id, t.queue_no, t.task_id, t.run_id, t.state, t.attempt, t.start_no, t.priority,
  t.payload, t.version
from tasks as t
where t.shard_id = $1::int4 and t.queue_no = $2::int4 and t.task_id > $3::int8
order by t.shard_id, t.queue_no, t.task_id limit $4::int8"""

# LATERAL with a limit: a probe of the primary key for each pair, whatever the statistics say.
READ_KEYS: Final[LiteralString] = """\
select t.shard_id, t.queue_no, t.task_id, t.run_id, t.state, t.attempt, t.start_no, t.priority,
  t.payload, t.version
from unnest($2::int4[], $3::int8[]) as u(queue_no, task_id)
cross join lateral (
  select k.shard_id, k.queue_no, k.task_id, k.run_id, k.state, k.attempt, k.start_no, k.priority,
    k.payload, k.version
  from tasks as k
  where k.shard_id = $1::int4 and k.queue_no = u.queue_no and k.task_id = u.task_id limit 1) as t
order by t.queue_no, t.task_id"""

# Only the owner writes a shard's rows, so what a range holds can be read before the sweep. In the
# sweep itself the planner would take a range for a two-hundredth of the table, and read all of it.
READ_RANGES: Final[LiteralString] = """\
select r.queue_no, r.task_id
from unnest($2::int4[], $3::int8[], $4::int8[]) as u(queue_no, first_id, end_id)
cross join lateral (
  select k.queue_no, k.task_id
  from tasks as k
  where k.shard_id = $1::int4 and k.queue_no = u.queue_no
    and k.task_id >= u.first_id and k.task_id < u.end_id
  order by k.shard_id, k.queue_no, k.task_id limit 1000000) as r"""

# A task id is its shard's, whatever the queue: looked for in each of a few queues, half of what a join
# with the pairs costs.
SWEEP: Final[LiteralString] = """\
d_tasks as (
  delete from tasks as t
  where t.shard_id = any($1::int4[]) and t.queue_no = any($6::int4[])
    and t.task_id = any($7::int8[]) and (select g.held from g)
  returning t.state)"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "tasks.read_after": READ_AFTER,
    "tasks.read_queue": READ_QUEUE,
    "tasks.read_keys": READ_KEYS,
    "tasks.read_ranges": READ_RANGES,
}
