"""The views for people: a promise, so their columns are written down here a second time."""

from __future__ import annotations

import psycopg
import pytest

COLUMNS = {
    "perdure_v1_workflows": [
        *("namespace", "workflow_id", "run_id", "workflow_type", "task_queue", "status"),
        *("start_time", "close_time", "history_events", "history_bytes", "stuck_reason"),
        *("keyword_attributes", "keyword_list_attributes", "text_attributes", "int_attributes"),
        *("double_attributes", "bool_attributes", "datetime_us_attributes", "shard_id"),
    ],
    "perdure_v1_pending_tasks": [
        *("namespace", "workflow_id", "run_id", "queue_no", "task_id", "state", "attempt"),
        *("priority", "shard_id"),
    ],
    "perdure_v1_pending_timers": [
        *("namespace", "workflow_id", "run_id", "kind", "event_id", "due_at", "shard_id"),
    ],
    "perdure_v1_shards": [
        *("shard_id", "range_id", "commit_seq", "node_id", "address", "timer_mark"),
    ],
    "perdure_v1_nodes": ["node_id", "address", "region", "roles", "lease_end"],
}
NAMESPACE = "00000000-0000-0000-0000-000000000001"
RUN = "00000000-0000-0000-0000-0000000000aa"
ROWS = (
    f"insert into visibility values (1, '{RUN}', '{NAMESPACE}', 1, 'order-1', 'Order', 'q', 7,"
    " '2026-01-01', '2026-01-02', 3, 300, '',"
    ' \'{"stuck": "why", "k": {"Region": "eu"}, "i": {"Amount": 5}}\')',
    f"insert into executions values (1, '{RUN}', '{NAMESPACE}', 'order-1', 1, 4, 0, '', 1)",
    f"insert into tasks values (1, 7, 1, '{RUN}', 3, 2, 0, 3, '', 1)",
    f"insert into tasks values (1, 7, 2, '{RUN}', 9, 2, 0, 3, '', 1)",  # gone
    f"insert into timers values (1, '2026-01-03', 1, '{RUN}', 6, 5, 1, '2026-01-03', 1)",
    f"insert into timers values (1, '2026-01-03', 2, '{RUN}', 1, 5, 9, '2026-01-03', 1)",  # gone
)


@pytest.fixture
def connection(database_dsn: str) -> psycopg.Connection:
    connection = psycopg.connect(database_dsn, autocommit=True)
    for row in ROWS:
        connection.execute(row.encode())
    return connection


@pytest.mark.parametrize("view", COLUMNS)
def test_the_columns_of_a_view_never_change(connection: psycopg.Connection, view: str) -> None:
    """A later version may append to this list, and to nothing else of it."""
    with connection:
        found = connection.execute(f"select * from {view}".encode())
        assert found.description is not None
        assert [column.name for column in found.description] == COLUMNS[view]


def test_what_the_views_say(connection: psycopg.Connection) -> None:
    with connection:
        (run,) = connection.execute(
            "select namespace, workflow_id, status, stuck_reason, keyword_attributes ->> 'Region',"
            " (int_attributes ->> 'Amount')::int8, text_attributes from perdure_v1_workflows"
        ).fetchall()
        tasks = connection.execute(
            "select namespace, workflow_id, task_id, state, attempt from perdure_v1_pending_tasks"
        ).fetchall()
        timers = connection.execute(
            "select namespace, workflow_id, kind, event_id from perdure_v1_pending_timers"
        ).fetchall()
        shards = connection.execute("select shard_id from perdure_v1_shards").fetchall()

    assert run == ("default", "order-1", "TimedOut", "why", "eu", 5, None)
    assert tasks == [("default", "order-1", 1, "BackingOff", 2)]
    assert timers == [("default", "order-1", "ActivityRetry", 5)]
    assert sorted(shards) == [(1,), (2,), (3,), (4,)]
