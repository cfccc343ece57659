"""No hot partition (A12): keys begin with the shard, and where a list goes by time a bucket stands before it."""

from __future__ import annotations

import psycopg

HOT = (
    *("current_runs", "executions", "history", "inbox", "job_batches", "job_keys", "job_runs"),
    *("schedule_slots", "schedules", "snapshots", "tasks", "timers", "visibility"),
)
TIMES = frozenset(("wake_at", "due_at", "scheduled_at", "created_at", "start_time", "close_time"))
# Beside the shard and the bucket: what only few of the newest rows have in common.
NARROW = frozenset(("user_id", "schedule_id", "batch_id", "task_name", "concurrency_key"))
KEYS = """
select c.relname, x.indisprimary, array(
    select a.attname::text from unnest(x.indkey) with ordinality as k(attnum, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum order by place)
from pg_index x join pg_class c on c.oid = x.indrelid where c.relname = any(%s)"""


def test_a12_the_newest_rows_are_not_in_one_place(database_dsn: str) -> None:
    with psycopg.connect(database_dsn) as connection:
        keys = connection.execute(KEYS, (list(HOT),)).fetchall()

    primary = {table: columns for table, is_primary, columns in keys if is_primary}
    assert primary.keys() == set(HOT)
    assert {table for table, columns in primary.items() if columns[0] != "shard_id"} == set()
    assert primary["timers"] == ["shard_id", "wake_at", "timer_id"]
    timed = 0
    for table, _, columns in keys:
        for place, column in enumerate(columns):
            if column in TIMES:
                before = set(columns[:place])
                assert before & (NARROW | {"shard_id", "bucket"}), (table, columns)
                timed += 1
    assert timed > 5
