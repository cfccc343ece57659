"""Each hot statement reads by key, on an empty database and on one of 100,000 rows a table.

The empty one matters as much: sessions force generic plans, and a plan made on a young table stays
until the table is analysed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from tests.sql_lint.registry import engine_statements

from perdure_engine.server.embedded import EmbeddedPostgres

STATEMENTS = engine_statements()
ROWS = 100_000

FILL = (
    "insert into executions select n % 4 + 1, md5(n::text)::uuid, md5('n')::uuid, 'order-' || n,"
    " 2, 9, 0, 'head', 1 from generate_series(1, {0}) as s(n)",
    "insert into current_runs select n % 4 + 1, md5('n')::uuid, 'order-' || n, md5(n::text)::uuid,"
    " 2, 1 from generate_series(1, {0}) as s(n)",
    "insert into history select n % 4 + 1, md5((n / 10)::text)::uuid, n % 10 + 1, 0, 'event'"
    " from generate_series(1, {0}) as s(n)",
    "insert into inbox select n % 4 + 1, md5((n / 10)::text)::uuid, n % 10 + 1, 'signal'"
    " from generate_series(1, {0}) as s(n)",
    "insert into snapshots select n % 4 + 1, md5(n::text)::uuid, 0, 64, 'fold'"
    " from generate_series(1, {0}) as s(n)",
    # Nearly all of one queue: the planner then expects the most of a queue and a range.
    "insert into tasks select n % 4 + 1, case n % 100 when 0 then n % 7 else 1 end, n,"
    " md5(n::text)::uuid, 9, 1, 0, 3, 'task', 1 from generate_series(1, {0}) as s(n)",
    "insert into timers select n % 4 + 1, to_timestamp(n), n, md5(n::text)::uuid, 1, 5, 9,"
    " to_timestamp(n), 1 from generate_series(1, {0}) as s(n)",
    "insert into visibility select n % 4 + 1, md5(n::text)::uuid, md5('n')::uuid, n % 16,"
    " 'order-' || n, 'Type' || n % 50, 'q', n % 2 + 1, to_timestamp(n),"
    " case n % 2 when 1 then to_timestamp(n) end, 9, 900, '', '{{}}'"
    " from generate_series(1, {0}) as s(n)",
    "insert into audit select n % 4 + 1, n, to_timestamp(n), md5('n')::uuid, 'order-' || n % 1000,"
    " 'workflow.terminate', 'entry', decode(repeat('ab', 32), 'hex')"
    " from generate_series(1, {0}) as s(n)",
    "insert into batch_operations select md5((n % 20)::text)::uuid, 'job-' || n, to_timestamp(n),"
    " case n % 2 when 1 then to_timestamp(n) end, 'job' from generate_series(1, {0}) as s(n)",
    "insert into batch_parts select n % 4 + 1, md5('n')::uuid, 'job-' || n, 2,"
    " md5(n::text)::uuid, '', 1, 0, '', to_timestamp(n), 1 from generate_series(1, {0}) as s(n)",
)

# Statement -> the indexes that it may use.
BY_KEY = {
    "executions.read": {"executions_pk"},
    "current_runs.read_keys": {"current_runs_pk"},
    "current_runs.read_of_run": {"current_runs_pk", "executions_pk"},
    "history.read_tail": {"history_pk", "snapshots_pk"},
    "history.read_page": {"history_pk"},
    "history.read_many": {"history_pk"},
    "inbox.read_live": {"inbox_pk", "executions_pk"},
    "snapshots.read": {"snapshots_pk"},
    "tasks.read_after": {"tasks_pk"},
    "tasks.read_queue": {"tasks_pk"},
    "tasks.read_keys": {"tasks_pk"},
    "tasks.read_ranges": {"tasks_pk"},
    "timers.read_window": {"timers_pk"},
    "visibility.list": {"visibility_list"},
    "visibility.list_oldest": {"visibility_list"},
    "visibility.read_after": {"visibility_pk"},
    "visibility.read_keys": {"visibility_pk"},
    "visibility.targets": {"visibility_pk"},
    "audit.heads": {"audit_pk"},
    "audit.read": {"audit_pk"},
    "audit.list": {"audit_time"},
    "audit.list_workflow": {"audit_workflow"},
    "audit.expired": {"audit_pk"},
    "batch_parts.read_open": {"batch_parts_open"},
    "batch_operations.read": {"batch_operations_pk"},
    "batch_operations.list": {"batch_operations_time"},
}
IN_KEY_ORDER = (
    "history.read_tail",
    "inbox.read_live",
    "tasks.read_after",
    "tasks.read_queue",
    "timers.read_window",
    "visibility.read_after",
    "visibility.targets",
    "batch_operations.list",
    "audit.read",
    "audit.list",
    "audit.list_workflow",
)
BATCHES = (
    *("batch.step", "batch.start_close", "batch.everything", "batch.audited"),
    "shard_fence.bump",
)


GENERIC_PLAN_VERSION = 16_00_00


class Database(NamedTuple):
    dsn: str
    rows: int


@pytest.fixture(scope="module", params=[0, ROWS], ids=["empty", "100,000 rows"])
def database(
    request: pytest.FixtureRequest, postgres_server: EmbeddedPostgres, template_database: str
) -> Iterator[Database]:
    rows: int = request.param
    name = f"plans_{rows}"
    dsn = postgres_server.create_database(name, template_database)
    with psycopg.connect(dsn) as connection:
        if connection.info.server_version < GENERIC_PLAN_VERSION:
            pytest.skip("EXPLAIN (GENERIC_PLAN) came with PostgreSQL 16")
    if rows:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in FILL:
                connection.execute(statement.format(rows))
            connection.execute("analyze")
    yield Database(dsn, rows)
    postgres_server.drop_database(name)


def plan_of(database: Database, text: str) -> list[dict[str, Any]]:
    """The nodes of the generic plan, which is what the store's sessions use."""
    with psycopg.connect(database.dsn, cursor_factory=psycopg.ClientCursor) as connection:
        row = connection.execute(f"explain (generic_plan, format json) {text}").fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return list(_nodes(plan[0]["Plan"]))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _scans(plan: list[dict[str, Any]]) -> list[str]:
    return [node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"]


def _indexes(plan: list[dict[str, Any]]) -> set[str]:
    return {node["Index Name"] for node in plan if "Index Name" in node}


def _reads(plan: list[dict[str, Any]]) -> set[str]:
    """Relations that are read; a ModifyTable names the one it writes to."""
    return {
        node["Relation Name"]
        for node in plan
        if "Relation Name" in node and node["Node Type"] != "ModifyTable"
    }


@pytest.mark.parametrize("name", BY_KEY)
def test_reads_go_by_key(database: Database, name: str) -> None:
    plan = plan_of(database, STATEMENTS[name])

    assert _scans(plan) == []
    assert _indexes(plan) == BY_KEY[name]


def test_a_batch_operations_parts_are_found_by_key_in_each_shard(database: Database) -> None:
    """The shards themselves are few, and read as they lie when that is cheaper."""
    plan = plan_of(database, STATEMENTS["batch_parts.read_job"])

    assert set(_scans(plan)) <= {"shard_fence"}
    assert "batch_parts_pk" in _indexes(plan)


@pytest.mark.parametrize("name", IN_KEY_ORDER)
def test_pages_need_no_sort(database: Database, name: str) -> None:
    plan = plan_of(database, STATEMENTS[name])

    assert [node for node in plan if node["Node Type"] == "Sort"] == []


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("tasks.read_after", ["shard_id", "queue_no", "task_id"]),
        ("tasks.read_queue", ["shard_id", "queue_no", "task_id"]),
        ("tasks.read_keys", ["shard_id", "queue_no", "task_id"]),
        ("tasks.read_ranges", ["shard_id", "queue_no", "task_id"]),
        ("timers.read_window", ["shard_id", "wake_at", "timer_id"]),
        ("current_runs.read_keys", ["shard_id", "namespace_id", "workflow_id"]),
        ("visibility.list", ["namespace_id", "bucket", "start_time", "run_id"]),
    ],
)
def test_all_bounds_are_conditions_of_the_index(
    database: Database, name: str, conditions: list[str]
) -> None:
    """A bound that is a filter reads what it throws away: dead rows, or another queue's million."""
    (scan,) = [node for node in plan_of(database, STATEMENTS[name]) if "Index Cond" in node]

    assert [column for column in conditions if column not in scan["Index Cond"]] == []


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_reads_no_table(database: Database, name: str) -> None:
    """Nothing that it finds through an index: at SERIALIZABLE unrelated shards would abort each
    other.
    """
    plan = plan_of(database, STATEMENTS[name])

    assert _reads(plan) == set()
    assert _indexes(plan) == set()


def test_a_sweep_of_a_full_table_goes_by_key(database: Database) -> None:
    """It is planned for each call (not prepared), so that only the full table counts."""
    if not database.rows:
        pytest.skip("a young table may be read whole")
    plan = plan_of(database, STATEMENTS["sweep"])

    assert _scans(plan) == []
    assert _indexes(plan) == {"tasks_pk", "timers_pk", "inbox_pk", "executions_pk"}
    tasks, timers_found, timers, inbox = [
        re.sub(r"\b[ur](_[0-9])?\.", "", node["Index Cond"])
        for node in plan
        if node.get("Index Name") in ("tasks_pk", "timers_pk", "inbox_pk")
    ]
    assert "(shard_id = ANY" in tasks
    assert "(queue_no = ANY" in tasks
    assert "(task_id = ANY" in tasks
    assert "(wake_at >= first_wake) AND (wake_at < end_wake)" in timers_found
    assert "(wake_at = wake_at) AND (timer_id = timer_id)" in timers
    assert "(run_id = run_id) AND (seq = seq)" in inbox


def test_a_removal_of_a_full_table_goes_by_key(database: Database) -> None:
    """As the sweep."""
    if not database.rows:
        pytest.skip("a young table may be read whole")
    plan = plan_of(database, STATEMENTS["removal"])

    assert _scans(plan) == []
    tables = ("executions", "history", "inbox", "snapshots", "visibility", "current_runs")
    assert _indexes(plan) == {f"{table}_pk" for table in tables}
