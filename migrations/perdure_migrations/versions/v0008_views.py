"""Views of what is under way and of what operators did, for people and their tools.

Three tables keep their facts in bytes that SQL cannot read. They get a column `readable`, a copy for these
views, which is null in rows of before. Nothing reads it back: of the audit log `content` is what counts,
what `perdure audit verify` looks at, and what it says is the truth where the two differ.
"""

from perdure_migrations.steps import Step, run

revision = "0008"
down_revision = "0007"

AUDIT_READABLE = "alter table audit add column if not exists readable jsonb"
BATCHES_READABLE = "alter table batch_operations add column if not exists readable jsonb"
DEPLOYMENTS_READABLE = "alter table deployments add column if not exists readable jsonb"

# A payload is a msgpack array (perdure_engine.core.tasks.TaskPayload) that begins with the kind: behind a header of
# one byte, or of three (\xdc) once it has more than fifteen fields.
PENDING_TASKS = """
create or replace view perdure_v1_pending_tasks as
select n.name as namespace, e.workflow_id, t.run_id, t.queue_no, t.task_id,
  case t.state when 1 then 'Ready' when 2 then 'Started' when 3 then 'BackingOff'
    when 4 then 'HandedOver' when 5 then 'Paused' when 6 then 'ToSend' end as state,
  t.attempt, t.priority, t.shard_id,
  case case when substring(t.payload, 1, 1) = '\\xdc'::bytea then substring(t.payload, 4, 1)
      else substring(t.payload, 2, 1) end
    when '\\x01'::bytea then 'WorkflowTask' when '\\x02'::bytea then 'Activity'
    when '\\x03'::bytea then 'Message' end as kind
from tasks as t
join executions as e on e.shard_id = t.shard_id and e.run_id = t.run_id
join namespaces as n on n.namespace_id = e.namespace_id
where t.state < 9
"""
PENDING_ACTIVITIES = """
create or replace view perdure_v1_pending_activities as
select t.namespace, t.workflow_id, t.run_id, v.workflow_type, t.task_id, t.state, t.attempt,
  t.priority, t.shard_id
from perdure_v1_pending_tasks as t
join visibility as v on v.shard_id = t.shard_id and v.run_id = t.run_id
where t.kind = 'Activity'
"""
# To other runs: starts of children, signals, requests to cancel, and the word of a child's end.
PENDING_MESSAGES = """
create or replace view perdure_v1_pending_messages as
select t.namespace, t.workflow_id, t.run_id, v.workflow_type, t.task_id, t.state, t.attempt,
  t.shard_id
from perdure_v1_pending_tasks as t
join visibility as v on v.shard_id = t.shard_id and v.run_id = t.run_id
where t.kind = 'Message'
"""
PENDING_TIMERS = """
create or replace view perdure_v1_pending_timers as
select n.name as namespace, e.workflow_id, t.run_id,
  case t.kind when 1 then 'UserTimer' when 2 then 'RunTimeout' when 3 then 'ExecutionTimeout'
    when 4 then 'StartDelay' when 5 then 'WorkflowTaskBackoff' when 6 then 'ActivityRetry'
    when 7 then 'ScheduleToStart' when 8 then 'ScheduleToClose' when 9 then 'CronOrRetryBackoff'
    when 10 then 'HandedOverTimeout' else 'Other' end as kind,
  t.reference as event_id, t.due_at, t.shard_id
from timers as t
join executions as e on e.shard_id = t.shard_id and e.run_id = t.run_id
join namespaces as n on n.namespace_id = e.namespace_id
where t.state < 9
"""
# A namespace's rows stay when it has gone; those of the installation have none.
AUDIT = """
create or replace view perdure_v1_audit as
select a.shard_id as chain, a.seq, a.logged_at, n.name as namespace, a.workflow_id,
  (a.readable ->> 'run_id')::uuid as run_id, a.action, a.readable ->> 'identity' as identity,
  a.readable ->> 'reason' as reason, a.readable ->> 'subject' as subject,
  a.readable ->> 'before' as before_action, a.readable ->> 'after' as after_action,
  (a.readable ->> 'request_id')::uuid as request_id, a.namespace_id, a.hash
from audit as a
left join namespaces as n on n.namespace_id = a.namespace_id
"""
BATCH_OPERATIONS = """
create or replace view perdure_v1_batch_operations as
select n.name as namespace, b.job_id,
  case when b.stopped_at is not null then 'Stopped' when p.parts_open > 0 then 'Running'
    else 'Completed' end as state,
  b.readable ->> 'operation' as operation, b.readable ->> 'query' as query,
  (b.readable ->> 'total')::int8 as total, p.done, p.failed, p.parts, p.parts_open,
  b.started_at, b.stopped_at, p.saved_at, b.readable ->> 'identity' as identity,
  b.readable ->> 'reason' as reason
from batch_operations as b
join namespaces as n on n.namespace_id = b.namespace_id
join (
  select q.namespace_id, q.job_id, count(*) as parts, sum(q.done)::int8 as done,
    sum(q.failed)::int8 as failed, count(case when q.state = 1 then 1 end) as parts_open,
    max(q.saved_at) as saved_at
  from batch_parts as q
  group by q.namespace_id, q.job_id) as p
  on p.namespace_id = b.namespace_id and p.job_id = b.job_id
"""
DEPLOYMENTS = """
create or replace view perdure_v1_deployments as
select n.name as namespace, d.name as deployment, d.readable ->> 'current_build_id' as
    current_build_id,
  d.readable ->> 'ramping_build_id' as ramping_build_id,
  (d.readable ->> 'ramping_percentage')::numeric as ramping_percentage,
  d.readable ->> 'changed_by' as changed_by, d.readable -> 'versions' as versions, d.conflict_token
from deployments as d
join namespaces as n on n.namespace_id = d.namespace_id
"""

STEPS = tuple(
    Step(sql)
    for sql in (
        AUDIT_READABLE,
        BATCHES_READABLE,
        DEPLOYMENTS_READABLE,
        PENDING_TASKS,
        PENDING_ACTIVITIES,
        PENDING_MESSAGES,
        PENDING_TIMERS,
        AUDIT,
        BATCH_OPERATIONS,
        DEPLOYMENTS,
    )
)


def upgrade() -> None:
    run(STEPS)
