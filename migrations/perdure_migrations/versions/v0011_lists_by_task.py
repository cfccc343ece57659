"""Lists of jobs by task or queue read the list index alone.

Its entries hold both names, so that what has another one is passed over without its row, and the shard, with which the
primary key finds the rows of a page. An index that has task or queue in front would find them at once, and cost each
job ten times as much (engine/adr/0022-lists-end-before-they-are-full.md).
"""

from perdure_migrations.steps import Step, run

revision = "0011"
down_revision = "0010"

# The shard in the key, though it decides nothing there: CockroachDB keeps no column of the primary key beside a key.
JOB_RUNS_LISTED = """
create index if not exists job_runs_listed
on job_runs (namespace_id, status, bucket, scheduled_at, job_id, shard_id) include (task_name, queue)
"""
WITHOUT_NAMES = "drop index if exists job_runs_list"

STEPS = (Step(JOB_RUNS_LISTED, index="job_runs_listed"), Step(WITHOUT_NAMES))


def upgrade() -> None:
    run(STEPS)
