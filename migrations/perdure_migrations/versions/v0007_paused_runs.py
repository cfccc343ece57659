"""Lists know runs that are paused: open, with a status of their own.

The two rules about a status are replaced. Each comes back under a new name and `not valid` first, so that
the table is locked for an instant only; its rows are then checked beside the work that goes on. Heads
and current runs keep saying 1 of a run that is paused: they ask only whether it is open.
"""

from perdure_migrations.steps import Step, run

revision = "0007"
down_revision = "0006"

OLD_STATUS = "alter table visibility drop constraint if exists visibility_status"
OLD_CLOSED = "alter table visibility drop constraint if exists visibility_closed"
NO_STATUS = "alter table visibility drop constraint if exists visibility_statuses"
NO_OPEN = "alter table visibility drop constraint if exists visibility_open"
STATUS = """
alter table visibility add constraint visibility_statuses check (status between 1 and 8) not valid
"""
OPEN = """
alter table visibility add constraint visibility_open
check ((status = 1 or status = 8) = (close_time is null)) not valid
"""
CHECK_STATUS = "alter table visibility validate constraint visibility_statuses"
CHECK_OPEN = "alter table visibility validate constraint visibility_open"
WORKFLOWS = """
create or replace view perdure_v1_workflows as
select n.name as namespace, v.workflow_id, v.run_id, v.workflow_type, v.task_queue,
  case v.status when 1 then 'Running' when 2 then 'Completed' when 3 then 'Failed'
    when 4 then 'Canceled' when 5 then 'Terminated' when 6 then 'ContinuedAsNew'
    when 7 then 'TimedOut' when 8 then 'Paused' end as status,
  v.start_time, v.close_time, v.history_events, v.history_bytes,
  v.attrs ->> 'stuck' as stuck_reason,
  v.attrs -> 'k' as keyword_attributes, v.attrs -> 'l' as keyword_list_attributes,
  v.attrs -> 't' as text_attributes, v.attrs -> 'i' as int_attributes,
  v.attrs -> 'f' as double_attributes, v.attrs -> 'b' as bool_attributes,
  v.attrs -> 'd' as datetime_us_attributes, v.shard_id
from visibility as v
join namespaces as n on n.namespace_id = v.namespace_id
"""

STEPS = tuple(
    Step(sql)
    for sql in (
        NO_STATUS,
        NO_OPEN,
        STATUS,
        OPEN,
        OLD_STATUS,
        OLD_CLOSED,
        CHECK_STATUS,
        CHECK_OPEN,
        WORKFLOWS,
    )
)


def upgrade() -> None:
    run(STEPS)
