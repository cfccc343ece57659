"""The audit log, and batch operations.

`audit` is written by plain inserts: a place in a chain is taken once. Its rows have no key to the runs that
they tell of and outlive them. `audit_begins` has a row for a chain whose oldest rows are over their time:
the last one that went, so that the rest can still be verified. A batch operation has a part in each
shard, which the shard's owner works off.
"""

from perdure_migrations.steps import Step, run

revision = "0005"
down_revision = "0004"

AUDIT = """
create table if not exists audit (
  shard_id int4 not null,
  seq int8 not null,
  logged_at timestamptz not null,
  namespace_id uuid not null,
  workflow_id text not null,
  action text not null,
  content bytea not null,
  hash bytea not null,
  constraint audit_pk primary key (shard_id, seq),
  constraint audit_chain check (shard_id >= 0),
  constraint audit_seq check (seq >= 1),
  constraint audit_action check (action <> ''),
  constraint audit_hash check (length(hash) = 32)
)
"""
AUDIT_TIME = "create index if not exists audit_time on audit (logged_at, shard_id, seq)"
AUDIT_WORKFLOW = """
create index if not exists audit_workflow
on audit (namespace_id, workflow_id, logged_at, shard_id, seq)
"""
AUDIT_BEGINS = """
create table if not exists audit_begins (
  shard_id int4 not null,
  seq int8 not null,
  logged_at timestamptz not null,
  hash bytea not null,
  constraint audit_begins_pk primary key (shard_id),
  constraint audit_begins_seq check (seq >= 1)
)
"""
BATCH_OPERATIONS = """
create table if not exists batch_operations (
  namespace_id uuid not null,
  job_id text not null,
  started_at timestamptz not null,
  stopped_at timestamptz,
  job bytea not null,
  constraint batch_operations_pk primary key (namespace_id, job_id)
)
"""
BATCH_OPERATIONS_TIME = """
create index if not exists batch_operations_time
on batch_operations (namespace_id, started_at, job_id)
"""
BATCH_PARTS = """
create table if not exists batch_parts (
  shard_id int4 not null,
  namespace_id uuid not null,
  job_id text not null,
  state int2 not null,
  position uuid not null,
  pending bytea not null,
  done int8 not null,
  failed int8 not null,
  last_failure text not null,
  saved_at timestamptz not null,
  version int8 not null,
  constraint batch_parts_pk primary key (shard_id, namespace_id, job_id),
  constraint batch_parts_state check (state between 1 and 2),
  constraint batch_parts_counts check (done >= 0 and failed >= 0),
  constraint batch_parts_version check (version <> 0)
)
"""
BATCH_PARTS_OPEN = """
create index if not exists batch_parts_open on batch_parts (shard_id, namespace_id, job_id)
where state = 1
"""

STEPS = tuple(
    Step(sql)
    for sql in (
        AUDIT,
        AUDIT_TIME,
        AUDIT_WORKFLOW,
        AUDIT_BEGINS,
        BATCH_OPERATIONS,
        BATCH_OPERATIONS_TIME,
        BATCH_PARTS,
        BATCH_PARTS_OPEN,
    )
)


def upgrade() -> None:
    run(STEPS)
