"""Deployments: which versions of workers there are, and which of them gets new work.

A row is read by every node each second and changed by compare-and-set. What it holds is a msgpack
array (perdure_engine.core.deployments.Deployment), appended to only, like events.
"""

from perdure_migrations.steps import Step, run

revision = "0006"
down_revision = "0005"

DEPLOYMENTS = """
create table if not exists deployments (
  namespace_id uuid not null,
  name text not null,
  conflict_token int8 not null,
  payload bytea not null,
  constraint deployments_pk primary key (namespace_id, name),
  constraint deployments_named check (name <> ''),
  constraint deployments_token check (conflict_token >= 1)
)
"""

STEPS = (Step(DEPLOYMENTS),)


def upgrade() -> None:
    run(STEPS)
