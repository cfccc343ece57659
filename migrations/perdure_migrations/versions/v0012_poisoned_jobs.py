"""Jobs can be poisoned: open, with a status of their own; and dead letters of a task are more than its failed jobs.

The two rules about a status are replaced as in revision 0007: each comes back under a new name and `not valid` first,
so that the table is locked for an instant only; its rows are then checked beside the work that goes on.
"""

from perdure_migrations.steps import Step, run

revision = "0012"
down_revision = "0011"

OLD_STATUS = "alter table job_runs drop constraint if exists job_runs_status"
OLD_OPEN = "alter table job_runs drop constraint if exists job_runs_open"
NO_STATUS = "alter table job_runs drop constraint if exists job_runs_statuses"
NO_CLOSED = "alter table job_runs drop constraint if exists job_runs_closed"
STATUS = """
alter table job_runs add constraint job_runs_statuses check (status between 1 and 9) not valid
"""
CLOSED = """
alter table job_runs add constraint job_runs_closed
check ((status between 1 and 3 or status between 8 and 9) = (closed_at is null)) not valid
"""
CHECK_STATUS = "alter table job_runs validate constraint job_runs_statuses"
CHECK_CLOSED = "alter table job_runs validate constraint job_runs_closed"
# Failed, suspended, poisoned.
JOB_RUNS_DEAD = """
create index if not exists job_runs_dead
on job_runs (namespace_id, task_name, status, scheduled_at, job_id)
where status = 5 or status = 8 or status = 9
"""
WITHOUT_FAILED = "drop index if exists job_runs_failed"
JOBS = """
create or replace view perdure_v1_jobs as
select n.name as namespace, j.job_id, j.task_name, j.queue,
  case j.status when 1 then 'Pending' when 2 then 'InProgress' when 3 then 'Retry'
    when 4 then 'Completed' when 5 then 'Failed' when 6 then 'Cancelled' when 7 then 'Skipped'
    when 8 then 'Suspended' when 9 then 'Poisoned' end as status,
  j.attempt, j.priority, j.user_id, j.schedule_id, j.batch_id, j.concurrency_key,
  j.task_id > 0 as ready, j.created_at, j.scheduled_at, j.closed_at, j.shard_id
from job_runs as j
join namespaces as n on n.namespace_id = j.namespace_id
"""
# The timer for the suspension of a run's poisoned task has a name.
PENDING_TIMERS = """
create or replace view perdure_v1_pending_timers as
select n.name as namespace, e.workflow_id, t.run_id,
  case t.kind when 1 then 'UserTimer' when 2 then 'RunTimeout' when 3 then 'ExecutionTimeout'
    when 4 then 'StartDelay' when 5 then 'WorkflowTaskBackoff' when 6 then 'ActivityRetry'
    when 7 then 'ScheduleToStart' when 8 then 'ScheduleToClose' when 9 then 'CronOrRetryBackoff'
    when 10 then 'HandedOverTimeout' when 11 then 'Suspension' else 'Other' end as kind,
  t.reference as event_id, t.due_at, t.shard_id
from timers as t
join executions as e on e.shard_id = t.shard_id and e.run_id = t.run_id
join namespaces as n on n.namespace_id = e.namespace_id
where t.state < 9
"""

RULES = (NO_STATUS, NO_CLOSED, STATUS, CLOSED, OLD_STATUS, OLD_OPEN, CHECK_STATUS, CHECK_CLOSED)

STEPS = (
    *(Step(sql) for sql in RULES),
    Step(JOB_RUNS_DEAD, index="job_runs_dead"),
    *(Step(sql) for sql in (WITHOUT_FAILED, JOBS, PENDING_TIMERS)),
)


def upgrade() -> None:
    run(STEPS)
