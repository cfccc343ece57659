"""The tables of design §4 that the first release writes.

Keys begin with the shard. Sign trick (design §3): a proposed row carries a negative version or
commit_seq, and PostgreSQL checks constraints on the proposed row, so they may only forbid 0.
"""

from perdure_migrations.steps import Product, Step, run

revision = "0001"
down_revision = None

SHARD_FENCE = """
create table if not exists shard_fence (
  shard_id int4 not null,
  range_id int8 not null,
  commit_seq int8 not null,
  owner_id uuid not null,
  batch_id uuid not null,
  constraint shard_fence_pk primary key (shard_id),
  constraint shard_fence_shard check (shard_id >= 1),
  constraint shard_fence_range check (range_id >= 0),
  constraint shard_fence_seq check (commit_seq <> 0)
)
"""
SHARDS = """
create table if not exists shards (
  shard_id int4 not null,
  node_id uuid not null,
  address text not null,
  timer_mark timestamptz not null,
  constraint shards_pk primary key (shard_id)
)
"""
NODES = """
create table if not exists nodes (
  node_id uuid not null,
  address text not null,
  region text not null,
  roles text not null,
  incarnation int8 not null,
  lease_end timestamptz not null,
  constraint nodes_pk primary key (node_id)
)
"""
NAMESPACES = """
create table if not exists namespaces (
  namespace_id uuid not null,
  name text not null,
  description text not null,
  retention_ms int8 not null,
  conflict_token int8 not null,
  constraint namespaces_pk primary key (namespace_id),
  constraint namespaces_named check (name <> ''),
  constraint namespaces_retention check (retention_ms >= 0),
  constraint namespaces_token check (conflict_token >= 1)
)
"""
NAMESPACES_NAME = "create unique index if not exists namespaces_name on namespaces (name)"
CURRENT_RUNS = """
create table if not exists current_runs (
  shard_id int4 not null,
  namespace_id uuid not null,
  workflow_id text not null,
  run_id uuid not null,
  status int2 not null,
  version int8 not null,
  constraint current_runs_pk primary key (shard_id, namespace_id, workflow_id),
  constraint current_runs_status check (status between 1 and 7),
  constraint current_runs_version check (version <> 0)
)
"""
EXECUTIONS = """
create table if not exists executions (
  shard_id int4 not null,
  run_id uuid not null,
  namespace_id uuid not null,
  workflow_id text not null,
  status int2 not null,
  next_event_id int8 not null,
  inbox_done int8 not null,
  head bytea not null,
  version int8 not null,
  constraint executions_pk primary key (shard_id, run_id),
  constraint executions_status check (status between 1 and 7),
  constraint executions_next_event check (next_event_id >= 2),
  constraint executions_inbox_done check (inbox_done >= 0),
  constraint executions_version check (version <> 0)
)
"""
HISTORY = """
create table if not exists history (
  shard_id int4 not null,
  run_id uuid not null,
  first_event_id int8 not null,
  part int2 not null,
  payload bytea not null,
  constraint history_pk primary key (shard_id, run_id, first_event_id, part),
  constraint history_first_event check (first_event_id >= 1),
  constraint history_part check (part >= 0)
)
"""
SNAPSHOTS = """
create table if not exists snapshots (
  shard_id int4 not null,
  run_id uuid not null,
  part int2 not null,
  event_id int8 not null,
  payload bytea not null,
  constraint snapshots_pk primary key (shard_id, run_id, part),
  constraint snapshots_part check (part >= 0),
  constraint snapshots_event check (event_id >= 1)
)
"""
INBOX = """
create table if not exists inbox (
  shard_id int4 not null,
  run_id uuid not null,
  seq int8 not null,
  payload bytea not null,
  constraint inbox_pk primary key (shard_id, run_id, seq),
  constraint inbox_seq check (seq >= 1)
)
"""
TASKS = """
create table if not exists tasks (
  shard_id int4 not null,
  queue_no int4 not null,
  task_id int8 not null,
  run_id uuid not null,
  state int2 not null,
  attempt int4 not null,
  start_no int8 not null,
  priority int2 not null,
  payload bytea not null,
  version int8 not null,
  constraint tasks_pk primary key (shard_id, queue_no, task_id),
  constraint tasks_state check (state between 1 and 9),
  constraint tasks_attempt check (attempt >= 0),
  constraint tasks_start check (start_no >= 0),
  constraint tasks_version check (version <> 0)
)
"""
TIMERS = """
create table if not exists timers (
  shard_id int4 not null,
  wake_at timestamptz not null,
  timer_id int8 not null,
  run_id uuid not null,
  kind int2 not null,
  reference int8 not null,
  state int2 not null,
  due_at timestamptz not null,
  version int8 not null,
  constraint timers_pk primary key (shard_id, wake_at, timer_id),
  constraint timers_state check (state between 1 and 9),
  constraint timers_never_early check (wake_at >= due_at),
  constraint timers_version check (version <> 0)
)
"""
VISIBILITY = """
create table if not exists visibility (
  shard_id int4 not null,
  run_id uuid not null,
  namespace_id uuid not null,
  bucket int2 not null,
  workflow_id text not null,
  workflow_type text not null,
  task_queue text not null,
  status int2 not null,
  start_time timestamptz not null,
  close_time timestamptz,
  history_events int8 not null,
  history_bytes int8 not null,
  memo bytea not null,
  attrs jsonb not null,
  constraint visibility_pk primary key (shard_id, run_id),
  constraint visibility_bucket check (bucket between 0 and 15),
  constraint visibility_status check (status between 1 and 7),
  constraint visibility_closed check ((status = 1) = (close_time is null))
)
"""
# The bucket spreads the newest end of the index over sixteen places: one hot range otherwise.
VISIBILITY_LIST = """
create index if not exists visibility_list
on visibility (namespace_id, bucket, start_time, run_id)
"""
TOKEN_KEYS = """
create table if not exists token_keys (
  key_id int8 not null,
  secret bytea not null,
  created_at timestamptz not null,
  constraint token_keys_pk primary key (key_id)
)
"""

TABLES = (
    SHARD_FENCE,
    SHARDS,
    NODES,
    NAMESPACES,
    NAMESPACES_NAME,
    CURRENT_RUNS,
    EXECUTIONS,
    HISTORY,
    SNAPSHOTS,
    INBOX,
    TASKS,
    TIMERS,
    VISIBILITY,
    VISIBILITY_LIST,
    TOKEN_KEYS,
)

# Rows that change again and again stay on their page (HOT) when it has room: a row per page for the
# fence, which each batch writes.
FILL = (
    "alter table shard_fence set (fillfactor = 10)",
    "alter table executions set (fillfactor = 50)",
    "alter table visibility set (fillfactor = 50)",
)

# The fence row is rewritten with every batch; its old versions must not pile up for hours.
COLLECT = ("alter table shard_fence configure zone using gc.ttlseconds = 600",)

STEPS = (
    *(Step(sql) for sql in TABLES),
    *(Step(sql, Product.POSTGRESQL) for sql in FILL),
    *(Step(sql, Product.COCKROACHDB) for sql in COLLECT),
)


def upgrade() -> None:
    run(STEPS)
