"""The rows without which nothing can start: the namespace `default`, a fence row per shard.

Fence rows are made here and never by an acquisition: a missing one is then always a fault.
"""

from alembic import context

from perdure_migrations.steps import Step, run

revision = "0002"
down_revision = "0001"

# A retention of seven days.
DEFAULT_NAMESPACE = """
insert into namespaces (namespace_id, name, description, retention_ms, conflict_token)
values ('00000000-0000-0000-0000-000000000001'::uuid, 'default', '', 604800000, 1)
on conflict (name) do nothing
"""
# Owner of zeros: nobody. Sequence and stored versions begin at 1.
FENCES = """
insert into shard_fence (shard_id, range_id, commit_seq, owner_id, batch_id)
select n::int4, 0, 1, '00000000-0000-0000-0000-000000000000'::uuid,
  '00000000-0000-0000-0000-000000000000'::uuid
from generate_series(1, cast(:number_of_shards as int8)) as s(n)
on conflict (shard_id) do nothing
"""

STEPS = (Step(DEFAULT_NAMESPACE), Step(FENCES))


def upgrade() -> None:
    run(STEPS, {"number_of_shards": context.config.attributes["number_of_shards"]})
