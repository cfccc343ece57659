"""Lists by search attributes, and views for people and their tools.

The GIN index holds rows with attributes only (or stuck ones): a run without them costs what it did, and
its close still stays on its page. The views are a promise: their columns keep name and meaning; a
later version of Perdure adds columns at the end, or a view perdure_v2_….
"""

from perdure_migrations.steps import Product, Step, run

revision = "0004"
down_revision = "0003"

VISIBILITY_ATTRIBUTES = """
create index if not exists visibility_attributes on visibility using gin (attrs)
where attrs <> '{}'::jsonb
"""

WORKFLOWS = """
create or replace view perdure_v1_workflows as
select n.name as namespace, v.workflow_id, v.run_id, v.workflow_type, v.task_queue,
  case v.status when 1 then 'Running' when 2 then 'Completed' when 3 then 'Failed'
    when 4 then 'Canceled' when 5 then 'Terminated' when 6 then 'ContinuedAsNew'
    when 7 then 'TimedOut' end as status,
  v.start_time, v.close_time, v.history_events, v.history_bytes,
  v.attrs ->> 'stuck' as stuck_reason,
  v.attrs -> 'k' as keyword_attributes, v.attrs -> 'l' as keyword_list_attributes,
  v.attrs -> 't' as text_attributes, v.attrs -> 'i' as int_attributes,
  v.attrs -> 'f' as double_attributes, v.attrs -> 'b' as bool_attributes,
  v.attrs -> 'd' as datetime_us_attributes, v.shard_id
from visibility as v
join namespaces as n on n.namespace_id = v.namespace_id
"""
# What kind of task it is stands in its payload; a queue's number is a hash of its name.
PENDING_TASKS = """
create or replace view perdure_v1_pending_tasks as
select n.name as namespace, e.workflow_id, t.run_id, t.queue_no, t.task_id,
  case t.state when 1 then 'Ready' when 2 then 'Started' when 3 then 'BackingOff' end as state,
  t.attempt, t.priority, t.shard_id
from tasks as t
join executions as e on e.shard_id = t.shard_id and e.run_id = t.run_id
join namespaces as n on n.namespace_id = e.namespace_id
where t.state < 9
"""
PENDING_TIMERS = """
create or replace view perdure_v1_pending_timers as
select n.name as namespace, e.workflow_id, t.run_id,
  case t.kind when 1 then 'UserTimer' when 2 then 'RunTimeout' when 3 then 'ExecutionTimeout'
    when 4 then 'StartDelay' when 5 then 'WorkflowTaskBackoff' when 6 then 'ActivityRetry'
    when 7 then 'ScheduleToStart' when 8 then 'ScheduleToClose' when 9 then 'CronOrRetryBackoff'
    else 'Other' end as kind,
  t.reference as event_id, t.due_at, t.shard_id
from timers as t
join executions as e on e.shard_id = t.shard_id and e.run_id = t.run_id
join namespaces as n on n.namespace_id = e.namespace_id
where t.state < 9
"""
SHARDS = """
create or replace view perdure_v1_shards as
select f.shard_id, f.range_id, f.commit_seq, s.node_id, s.address, s.timer_mark
from shard_fence as f
left join shards as s on s.shard_id = f.shard_id
"""
NODES = """
create or replace view perdure_v1_nodes as
select n.node_id, n.address, n.region, n.roles, n.lease_end
from nodes as n
"""

VIEWS = (WORKFLOWS, PENDING_TASKS, PENDING_TIMERS, SHARDS, NODES)

# Its writers are batches of many rows: a list of pending entries would be swept by one of them, late.
FASTUPDATE = "alter index visibility_attributes set (fastupdate = off)"

STEPS = (
    Step(VISIBILITY_ATTRIBUTES, index="visibility_attributes"),
    *(Step(sql) for sql in VIEWS),
    Step(FASTUPDATE, Product.POSTGRESQL),
)


def upgrade() -> None:
    run(STEPS)
