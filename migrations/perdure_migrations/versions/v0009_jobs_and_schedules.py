"""Jobs and schedules.

`job_runs` is written twice for most jobs, when they are made and when they end, at thousands a second. The second
write moves a row from one partial index to none, so that none of its index entries can stay (it is never HOT), and
each index costs it as much as the first write. Therefore there are only two that the common job is in beside its
key: `ready`, which it leaves when it ends, and `list`. That has the status in front of the time: a list of all
merges eight times as many short scans, and one of a rare status reads nothing else.

Checks see the row that an update proposes, not the one that it makes: what an update leaves as it is (names, keys,
`spec`) may be empty there, and its version is negative.

A schedule that is `gone` stays until its shard's sweep, because a statement that writes a table cannot delete from it.
"""

from perdure_migrations.steps import Product, Step, run

revision = "0009"
down_revision = "0008"

JOB_RUNS = """
create table if not exists job_runs (
  shard_id int4 not null,
  job_id uuid not null,
  namespace_id uuid not null,
  bucket int2 not null,
  task_name text not null,
  queue text not null,
  queue_no int4 not null,
  user_id text not null,
  schedule_id text not null,
  concurrency_key text not null,
  batch_id text not null,
  status int2 not null,
  attempt int4 not null,
  priority int2 not null,
  created_at timestamptz not null,
  scheduled_at timestamptz not null,
  closed_at timestamptz,
  task_id int8 not null,
  start_no int8 not null,
  spec bytea not null,
  state bytea not null,
  result bytea not null,
  version int8 not null,
  constraint job_runs_pk primary key (shard_id, job_id),
  constraint job_runs_bucket check (bucket between 0 and 15),
  constraint job_runs_status check (status between 1 and 8),
  constraint job_runs_open check ((status between 1 and 3 or status = 8) = (closed_at is null)),
  constraint job_runs_ready check (task_id = 0 or closed_at is null),
  constraint job_runs_start check (attempt >= 0 and start_no >= 0),
  constraint job_runs_version check (version <> 0)
)
"""
JOB_RUNS_READY = """
create index if not exists job_runs_ready on job_runs (shard_id, queue_no, task_id)
where task_id > 0
"""
# Of a concurrency key: the jobs that hold a place of it, and those that wait for one, in their order (the nearer the
# task id is to 0, the longer). Apart, because thousands may wait; and what is not due yet is in neither.
JOB_RUNS_HOLDING = """
create index if not exists job_runs_holding
on job_runs (shard_id, namespace_id, concurrency_key, created_at, job_id)
where concurrency_key <> '' and (status = 2 or task_id > 0)
"""
JOB_RUNS_WAITING = """
create index if not exists job_runs_waiting
on job_runs (shard_id, namespace_id, concurrency_key, task_id desc)
where concurrency_key <> '' and task_id < 0
"""
JOB_RUNS_STARTED = """
create index if not exists job_runs_started on job_runs (shard_id, job_id) where status = 2
"""
# The bucket spreads the newest end over sixteen places, as in visibility_list.
JOB_RUNS_LIST = """
create index if not exists job_runs_list
on job_runs (namespace_id, status, bucket, scheduled_at, job_id)
"""
JOB_RUNS_USER = """
create index if not exists job_runs_user
on job_runs (namespace_id, user_id, status, scheduled_at, job_id) where user_id <> ''
"""
JOB_RUNS_SCHEDULE = """
create index if not exists job_runs_schedule
on job_runs (namespace_id, schedule_id, status, scheduled_at, job_id) where schedule_id <> ''
"""
JOB_RUNS_BATCH = """
create index if not exists job_runs_batch
on job_runs (namespace_id, batch_id, status, scheduled_at, job_id) where batch_id <> ''
"""
# Dead letters of one task.
JOB_RUNS_FAILED = """
create index if not exists job_runs_failed
on job_runs (namespace_id, task_name, scheduled_at, job_id) where status = 5
"""
JOB_KEYS = """
create table if not exists job_keys (
  shard_id int4 not null,
  namespace_id uuid not null,
  kind int2 not null,
  key text not null,
  job_id uuid not null,
  until_at timestamptz,
  version int8 not null,
  constraint job_keys_pk primary key (shard_id, namespace_id, kind, key),
  constraint job_keys_kind check (kind >= 1),
  constraint job_keys_named check (key <> ''),
  constraint job_keys_version check (version <> 0)
)
"""
JOB_BATCHES = """
create table if not exists job_batches (
  shard_id int4 not null,
  namespace_id uuid not null,
  batch_id text not null,
  total int8 not null,
  open int8 not null,
  sealed bool not null,
  state bytea not null,
  version int8 not null,
  constraint job_batches_pk primary key (shard_id, namespace_id, batch_id),
  constraint job_batches_named check (batch_id <> ''),
  constraint job_batches_counts check (open >= 0 and open <= total),
  constraint job_batches_version check (version <> 0)
)
"""
SCHEDULES = """
create table if not exists schedules (
  shard_id int4 not null,
  namespace_id uuid not null,
  schedule_id text not null,
  user_id text not null,
  paused bool not null,
  next_at timestamptz,
  created_at timestamptz not null,
  spec bytea not null,
  state bytea not null,
  conflict_token int8 not null,
  version int8 not null,
  gone bool not null,
  constraint schedules_pk primary key (shard_id, namespace_id, schedule_id),
  constraint schedules_named check (schedule_id <> ''),
  constraint schedules_token check (conflict_token >= 1),
  constraint schedules_version check (version <> 0)
)
"""
# Partial for the planner's sake too: what is read in a shard's order must not go by this one.
SCHEDULES_LIST = """
create index if not exists schedules_list on schedules (namespace_id, schedule_id) where not gone
"""
SCHEDULE_SLOTS = """
create table if not exists schedule_slots (
  shard_id int4 not null,
  namespace_id uuid not null,
  schedule_id text not null,
  nominal_at timestamptz not null,
  origin int2 not null,
  outcome int2 not null,
  acted_at timestamptz not null,
  target_id text not null,
  detail text not null,
  version int8 not null,
  constraint schedule_slots_pk
    primary key (shard_id, namespace_id, schedule_id, nominal_at, origin),
  constraint schedule_slots_origin check (origin between 1 and 3),
  constraint schedule_slots_outcome check (outcome between 1 and 8),
  constraint schedule_slots_version check (version <> 0)
)
"""
QUEUE_LIMITS = """
create table if not exists queue_limits (
  namespace_id uuid not null,
  queue text not null,
  rate_per_s float8 not null,
  conflict_token int8 not null,
  constraint queue_limits_pk primary key (namespace_id, queue),
  constraint queue_limits_named check (queue <> ''),
  constraint queue_limits_rate check (rate_per_s >= 0),
  constraint queue_limits_token check (conflict_token >= 1)
)
"""

JOBS = """
create or replace view perdure_v1_jobs as
select n.name as namespace, j.job_id, j.task_name, j.queue,
  case j.status when 1 then 'Pending' when 2 then 'InProgress' when 3 then 'Retry'
    when 4 then 'Completed' when 5 then 'Failed' when 6 then 'Cancelled' when 7 then 'Skipped'
    when 8 then 'Suspended' end as status,
  j.attempt, j.priority, j.user_id, j.schedule_id, j.batch_id, j.concurrency_key,
  j.task_id > 0 as ready, j.created_at, j.scheduled_at, j.closed_at, j.shard_id
from job_runs as j
join namespaces as n on n.namespace_id = j.namespace_id
"""
SCHEDULES_VIEW = """
create or replace view perdure_v1_schedules as
select n.name as namespace, s.schedule_id, s.user_id, s.paused, s.next_at, s.created_at,
  s.conflict_token, s.shard_id
from schedules as s
join namespaces as n on n.namespace_id = s.namespace_id
where not s.gone
"""
SCHEDULE_SLOTS_VIEW = """
create or replace view perdure_v1_schedule_slots as
select n.name as namespace, s.schedule_id, s.nominal_at,
  case s.origin when 1 then 'Spec' when 2 then 'Manual' when 3 then 'Backfill' end as origin,
  case s.outcome when 1 then 'Firing' when 2 then 'Fired' when 3 then 'Skipped' when 4 then 'Missed'
    when 5 then 'Paused' when 6 then 'Backfilled' when 7 then 'Buffered' when 8 then 'Failed'
    end as outcome,
  s.acted_at, s.target_id, s.detail, s.shard_id
from schedule_slots as s
join namespaces as n on n.namespace_id = s.namespace_id
"""

PORTABLE = (
    JOB_RUNS,
    JOB_RUNS_READY,
    JOB_RUNS_HOLDING,
    JOB_RUNS_WAITING,
    JOB_RUNS_STARTED,
    JOB_RUNS_LIST,
    JOB_RUNS_USER,
    JOB_RUNS_SCHEDULE,
    JOB_RUNS_BATCH,
    JOB_RUNS_FAILED,
    JOB_KEYS,
    JOB_BATCHES,
    SCHEDULES,
    SCHEDULES_LIST,
    SCHEDULE_SLOTS,
    QUEUE_LIMITS,
    JOBS,
    SCHEDULES_VIEW,
    SCHEDULE_SLOTS_VIEW,
)

# A schedule's row changes with every slot, and no index with it: it stays on its page (HOT).
FILL = ("alter table schedules set (fillfactor = 50)",)

STEPS = (
    *(Step(sql) for sql in PORTABLE),
    *(Step(sql, Product.POSTGRESQL) for sql in FILL),
)


def upgrade() -> None:
    run(STEPS)
