"""`executions`: the head row of each run. It has no secondary index."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.parameters import Blobs, Int2s, Int4s, Int8s, Texts, Uuids
from perdure_engine.store.sql.table import BatchTable

BATCH: Final = BatchTable(
    name="executions",
    write="""\
w_executions as (
  insert into executions as t (shard_id, run_id, namespace_id, workflow_id, status, next_event_id,
    inbox_done, head, version)
  select u.shard_id, u.run_id, u.namespace_id, u.workflow_id, u.status, u.next_event_id,
    u.inbox_done, u.head, u.version
  from unnest($6::int4[], $7::uuid[], $8::uuid[], $9::text[], $10::int2[], $11::int8[],
      $12::int8[], $13::bytea[], $14::int8[])
    as u(shard_id, run_id, namespace_id, workflow_id, status, next_event_id, inbox_done, head,
      version)
  join f on f.shard_id = u.shard_id and f.commit_seq > 0
  on conflict (shard_id, run_id) do update set status = excluded.status,
    next_event_id = excluded.next_event_id, inbox_done = excluded.inbox_done,
    head = excluded.head, version = t.version + 1
  where t.version = -excluded.version
  returning t.version)""",
    complete="""\
(select count(*) from w_executions where w_executions.version > 0) = cardinality($14::int8[])""",
    first=6,
    columns=(Int4s, Uuids, Uuids, Texts, Int2s, Int8s, Int8s, Blobs, Int8s),
)

READ: Final[LiteralString] = """\
select e.shard_id, e.run_id, e.namespace_id, e.workflow_id, e.status, e.next_event_id,
  e.inbox_done, e.head, e.version
from executions as e where e.shard_id = $1::int4 and e.run_id = $2::uuid"""

# Parts of other tables' reads of run $2 in shard $1.
INBOX_DONE: Final[LiteralString] = """\
(select e.inbox_done from executions as e where e.shard_id = $1::int4 and e.run_id = $2::uuid)"""
NAMESPACE_ID: Final[LiteralString] = """\
(select e.namespace_id from executions as e where e.shard_id = $1::int4 and e.run_id = $2::uuid)"""
WORKFLOW_ID: Final[LiteralString] = """\
(select e.workflow_id from executions as e where e.shard_id = $1::int4 and e.run_id = $2::uuid)"""

# Of the rows that a sweep takes from the inbox, how many their run has not consumed.
NOT_CONSUMED: Final[LiteralString] = """\
(select count(*) from d_inbox
         join executions as e on e.shard_id = d_inbox.shard_id and e.run_id = d_inbox.run_id
         where e.inbox_done < d_inbox.seq)"""

REMOVE: Final[LiteralString] = """\
d_executions as (
  delete from executions as t
  where t.shard_id = any($1::int4[]) and t.run_id = any($6::uuid[]) and (select g.held from g)
  returning t.status)"""

# Of the runs that a removal takes, how many are open.
STILL_OPEN: Final[LiteralString] = """\
(select count(*) from d_executions where d_executions.status = 1)"""

STATEMENTS: Final[dict[str, LiteralString]] = {"executions.read": READ}
