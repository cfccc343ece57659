"""Each hot statement reads by key, on an empty database and on one of 100,000 rows a table.

The empty one matters as much: sessions force generic plans, and a plan made on a young table stays
until the table is analysed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, NamedTuple

import psycopg
import pytest
from tests.sql_lint.registry import engine_statements

from perdure_engine.ports.filters import Order
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_engine.store.sql import job_lists, parameters, schedule_slots, visibility

NAMESPACE = hashlib.md5(b"n", usedforsecurity=False).digest()  # as the rows below have it
COMPLETED = 4
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
    # Nearly all of one namespace, task, queue and user, and completed: the planner then expects the most of each.
    "insert into job_runs select n % 4 + 1, md5(n::text)::uuid,"
    " md5(case n % 1000 when 7 then n::text else 'n' end)::uuid, n % 4 + 1,"
    " case n % 500 when 7 then 'task' || n else 'mail' end, 'q', case n % 500 when 7 then n else 1 end,"
    " case n % 500 when 7 then 'u' || n else 'anna' end,"
    " case n % 500 when 7 then 's' || n else 'daily' end,"
    " case n % 100 when 7 then 'key' else '' end, case n % 3 when 0 then 'nightly' else '' end,"
    " s.status, 1, 3, to_timestamp(n), to_timestamp(n),"
    " case when s.status in (4, 5, 6) then to_timestamp(n) end,"
    " case when s.status <> 1 then 0 when n % 3 = 0 then n when n % 3 = 1 then -n else 0 end, 0,"
    " 'spec', 'state', 'result', 2"
    " from (select n, case n % 1000 when 1 then 5 when 2 then 2 when 3 then 3 when 4 then 6"
    " when 5 then 8 when 6 then 1 when 7 then 1 else 4 end as status"
    " from generate_series(1, {0}) as g(n)) as s",
    "insert into job_keys select n % 4 + 1, md5('n')::uuid, 1, 'key' || n, md5(n::text)::uuid, null,"
    " 1 from generate_series(1, {0}) as s(n)",
    "insert into job_batches select n % 4 + 1, md5('n')::uuid, 'batch' || n, 9, 0, true, '', 1"
    " from generate_series(1, {0}) as s(n)",
    "insert into schedules select n % 4 + 1, md5('n')::uuid, 's' || n, 'anna', false,"
    " to_timestamp(n), to_timestamp(n), 'spec', 'state', 1, 1, false"
    " from generate_series(1, {0}) as s(n)",
    # Most of one schedule.
    "insert into schedule_slots select n % 4 + 1, md5('n')::uuid,"
    " case n % 10 when 0 then 's' || n else 'daily' end, to_timestamp(n), 1, 2, to_timestamp(n),"
    " 'job', '', 1 from generate_series(1, {0}) as s(n)",
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
    "visibility.end": {"visibility_list"},
    "visibility.end_oldest": {"visibility_list"},
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
    "job_runs.read_keys": {"job_runs_pk"},
    "job_runs.read_queue": {"job_runs_ready"},
    "job_runs.read_ready": {"job_runs_ready"},
    "job_runs.count_ready": {"job_runs_ready"},
    "job_runs.read_started": {"job_runs_started"},
    "job_runs.read_holding": {"job_runs_holding"},
    "job_runs.read_waiting": {"job_runs_waiting"},
    "job_runs.read_after": {"job_runs_pk"},
    "job_lists.list_all": {"job_runs_listed", "job_runs_pk"},
    "job_lists.list_all_oldest": {"job_runs_listed", "job_runs_pk"},
    "job_lists.list_user": {"job_runs_user", "job_runs_pk"},
    "job_lists.list_user_oldest": {"job_runs_user", "job_runs_pk"},
    "job_lists.list_schedule": {"job_runs_schedule", "job_runs_pk"},
    "job_lists.list_schedule_oldest": {"job_runs_schedule", "job_runs_pk"},
    "job_lists.list_batch": {"job_runs_batch", "job_runs_pk"},
    "job_lists.list_batch_oldest": {"job_runs_batch", "job_runs_pk"},
    "job_lists.list_dead": {"job_runs_dead", "job_runs_pk"},
    "job_lists.list_dead_oldest": {"job_runs_dead", "job_runs_pk"},
    "job_lists.end_all": {"job_runs_listed"},
    "job_lists.end_all_oldest": {"job_runs_listed"},
    "job_lists.end_user": {"job_runs_user"},
    "job_lists.end_user_oldest": {"job_runs_user"},
    "job_lists.end_schedule": {"job_runs_schedule"},
    "job_lists.end_schedule_oldest": {"job_runs_schedule"},
    "job_lists.end_batch": {"job_runs_batch"},
    "job_lists.end_batch_oldest": {"job_runs_batch"},
    "job_lists.end_dead": {"job_runs_dead"},
    "job_lists.end_dead_oldest": {"job_runs_dead"},
    "job_lists.count_all": {"job_runs_listed"},
    "job_lists.count_user": {"job_runs_user"},
    "job_lists.count_schedule": {"job_runs_schedule"},
    "job_lists.count_batch": {"job_runs_batch"},
    "job_lists.count_index_all": {"job_runs_listed"},
    "job_lists.count_index_user": {"job_runs_user"},
    "job_lists.count_index_schedule": {"job_runs_schedule"},
    "job_lists.count_index_batch": {"job_runs_batch"},
    "job_keys.read_keys": {"job_keys_pk"},
    "job_batches.read": {"job_batches_pk"},
    "job_batches.read_after": {"job_batches_pk"},
    "schedules.read": {"schedules_pk"},
    "schedules.read_after": {"schedules_pk"},
    "schedules.list": {"schedules_list"},
    "schedule_slots.list": {"schedule_slots_pk"},
    "schedule_slots.read_after": {"schedule_slots_pk"},
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
    "job_runs.read_queue",
    "job_runs.read_ready",
    "job_runs.read_started",
    "job_runs.read_holding",
    "job_runs.read_waiting",
    "job_runs.read_after",
    "job_batches.read_after",
    "schedules.read_after",
    "schedules.list",
    "schedule_slots.list",
    "schedule_slots.read_after",
)
# What reads no row, only the index.
OF_INDEX_ALONE = (
    "visibility.end",
    "visibility.end_oldest",
    "job_lists.list_all",
    "job_lists.list_all_oldest",
    "job_lists.end_all",
    "job_lists.end_all_oldest",
    "job_lists.end_user",
    "job_lists.end_schedule",
    "job_lists.end_batch",
    "job_lists.end_dead",
    "job_lists.count_all",
    "job_lists.count_index_all",
    "job_lists.count_index_user",
    "job_lists.count_index_schedule",
    "job_lists.count_index_batch",
)
BATCHES = (
    *(
        "batch.plain_step",
        "batch.plain_start_close",
        "batch.step",
        "batch.start_close",
        "batch.everything",
        "batch.audited",
    ),
    *("batch.job_runs", "batch.jobs", "batch.mixed"),
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
            connection.execute("vacuum analyze")
    yield Database(dsn, rows)
    postgres_server.drop_database(name)


def plan_of(database: Database, text: str) -> list[dict[str, Any]]:
    """The nodes of the generic plan, which is what the store's sessions use."""
    with psycopg.connect(database.dsn, cursor_factory=psycopg.ClientCursor) as connection:
        row = connection.execute(f"explain (generic_plan, format json) {text}").fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return list(_nodes(plan[0]["Plan"]))


class SlotsOf(NamedTuple):
    schedule_id: str


def literal(value: object) -> str:
    """A parameter of a list, written out."""
    match value:
        case parameters.Uuid():
            return f"'{value.hex()}'"
        case parameters.Instant():
            return f"timestamptz '1970-01-01' + {int(value)} * interval '1 microsecond'"
        case parameters.Int2s():
            return "'{" + ",".join(map(str, value)) + "}'"
        case str():
            return f"'{value}'"
        case _:
            return str(value)


def pages_read(
    database: Database,
    where: JobFilter | VisibilityFilter | SlotsOf,
    seen_us: int | None,
    oldest_first: bool,
) -> int:
    """How many pages of the database a list's page of 100 rows takes."""
    text, values = _statement_of_page(where, seen_us, oldest_first)
    plan, _ = _executed(database, text, values)
    assert plan["Actual Rows"] == 100
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _statement_of_page(
    where: JobFilter | VisibilityFilter | SlotsOf, seen_us: int | None, oldest_first: bool
) -> tuple[LiteralString, list[object]]:
    past = None if seen_us is None else (seen_us, bytes(16))
    text: LiteralString
    match where:
        case JobFilter():
            text, values = job_lists.list_statement(
                where, past, None, 100, oldest_first=oldest_first
            )
        case VisibilityFilter():
            order = Order.START_ASC if oldest_first else Order.START_DESC
            text, values = visibility.list_statement(where, order, past, None, 100)
        case SlotsOf(schedule_id):
            slot = None if seen_us is None else (seen_us, 1)
            text = schedule_slots.LIST
            values = schedule_slots.list_parameters(1, NAMESPACE, schedule_id, (), 0, 0, slot, 100)
    return text, values


def _executed(
    database: Database, text: LiteralString, values: list[object]
) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """The generic plan, as it went, and what it found."""
    types = dict(re.findall(r"\$([0-9]+)::([a-z0-9]+(?:\[\])?)", text))
    of_each = ", ".join(types[str(number)] for number in range(1, len(values) + 1))
    with psycopg.connect(database.dsn, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("set plan_cache_mode = 'force_generic_plan'")
        connection.execute(f"prepare page ({of_each}) as {text}".encode())
        execute = f"execute page ({', '.join(map(literal, values))})"
        row = connection.execute(
            f"explain (analyze, buffers, format json) {execute}".encode()
        ).fetchone()
        found = connection.execute(execute.encode()).fetchall()
    assert row is not None
    return row[0][0]["Plan"], found


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
        ("job_runs.read_queue", ["shard_id", "queue_no", "task_id"]),
        ("job_runs.read_ready", ["shard_id", "queue_no", "task_id"]),
        ("job_runs.count_ready", ["shard_id", "queue_no", "task_id"]),
        ("job_runs.read_started", ["shard_id", "job_id"]),
        ("job_runs.read_holding", ["shard_id", "namespace_id", "concurrency_key"]),
        ("job_runs.read_waiting", ["shard_id", "namespace_id", "concurrency_key"]),
        ("job_keys.read_keys", ["shard_id", "namespace_id", "kind", "key"]),
        ("schedules.list", ["namespace_id", "schedule_id"]),
        (
            "schedule_slots.list",
            ["shard_id", "namespace_id", "schedule_id", "nominal_at", "origin"],
        ),
    ],
)
def test_all_bounds_are_conditions_of_the_index(
    database: Database, name: str, conditions: list[str]
) -> None:
    """A bound that is a filter reads what it throws away: dead rows, or another queue's million."""
    (scan,) = [node for node in plan_of(database, STATEMENTS[name]) if "Index Cond" in node]

    assert [column for column in conditions if column not in scan["Index Cond"]] == []


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("job_lists.list_all", ["namespace_id", "status", "bucket", "scheduled_at", "job_id"]),
        ("job_lists.list_user_oldest", ["namespace_id", "user_id", "status", "scheduled_at"]),
        ("job_lists.list_schedule", ["namespace_id", "schedule_id", "status", "scheduled_at"]),
        ("job_lists.list_dead", ["namespace_id", "task_name", "status", "scheduled_at"]),
        ("job_lists.end_all", ["namespace_id", "status", "bucket", "scheduled_at", "job_id"]),
        ("job_lists.end_user_oldest", ["namespace_id", "user_id", "status", "scheduled_at"]),
        ("job_lists.count_index_all", ["namespace_id", "status", "bucket", "scheduled_at"]),
        ("job_lists.count_index_user", ["namespace_id", "user_id", "status", "scheduled_at"]),
    ],
)
def test_a3_jobs_are_found_in_their_part_of_an_index(
    database: Database, name: str, conditions: list[str]
) -> None:
    """No scan is sorted, only the few rows that come of them."""
    plan = plan_of(database, STATEMENTS[name])
    scan = next(node for node in plan if node.get("Index Name") not in (None, "job_runs_pk"))

    assert [column for column in conditions if column not in scan["Index Cond"]] == []
    assert len([node for node in plan if node["Node Type"] == "Sort"]) == 1


@pytest.mark.parametrize("name", OF_INDEX_ALONE)
def test_a3_what_is_passed_over_is_read_in_the_index_alone(database: Database, name: str) -> None:
    if not database.rows:
        pytest.skip("of a young table no page is known to be visible to all")
    plan = plan_of(database, STATEMENTS[name])

    assert "Index Only Scan" in {node["Node Type"] for node in plan}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_reads_no_table(database: Database, name: str) -> None:
    """Nothing that it finds through an index: at SERIALIZABLE unrelated shards would abort each
    other.
    """
    plan = plan_of(database, STATEMENTS[name])

    assert _reads(plan) == set()
    assert _indexes(plan) == set()


@pytest.mark.parametrize(
    ("name", "more"), [("sweep", set()), ("sweep.with_schedules", {"schedules_pk"})]
)
def test_a_sweep_of_a_full_table_goes_by_key(database: Database, name: str, more: set[str]) -> None:
    """It is planned for each call (not prepared), so that only the full table counts."""
    if not database.rows:
        pytest.skip("a young table may be read whole")
    plan = plan_of(database, STATEMENTS[name])

    assert _scans(plan) == []
    assert _indexes(plan) == {"tasks_pk", "timers_pk", "inbox_pk", "executions_pk"} | more
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


def test_a_removal_of_jobs_from_a_full_table_goes_by_key(database: Database) -> None:
    """As the sweep."""
    if not database.rows:
        pytest.skip("a young table may be read whole")
    plan = plan_of(database, STATEMENTS["job_removal"])

    assert _scans(plan) == []
    tables = ("job_runs", "job_keys", "job_batches", "schedule_slots")
    assert _indexes(plan) == {f"{table}_pk" for table in tables}


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(
    "where",
    [
        JobFilter(NAMESPACE),
        JobFilter(NAMESPACE, statuses=(COMPLETED,), to_us=ROWS * 1_000_000),
        JobFilter(NAMESPACE, user_id="anna"),
        JobFilter(NAMESPACE, schedule_id="daily", from_us=1),
        VisibilityFilter(NAMESPACE),
        SlotsOf("daily"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a3_a_page_costs_the_same_wherever_it_is(
    database: Database, where: JobFilter | VisibilityFilter | SlotsOf, oldest_first: bool
) -> None:
    """Pages by key: what has been seen is not read again."""
    if not database.rows:
        pytest.skip("an empty table has no middle")
    middle_us = ROWS * 500_000

    first = pages_read(database, where, None, oldest_first)
    middle = pages_read(database, where, middle_us, oldest_first)

    assert middle < first + 100, "of 100 rows and their index entries"


LOOK = 64
SCANS = 8 * 16  # of each status in each bucket


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(
    "where",
    [
        JobFilter(NAMESPACE, task_name="never"),
        JobFilter(NAMESPACE, queue="never", statuses=(COMPLETED,)),
        JobFilter(NAMESPACE, user_id="anna", task_name="never"),
        JobFilter(NAMESPACE, schedule_id="daily", queue="never", from_us=1),
        JobFilter(NAMESPACE, batch_id="nightly", user_id="nobody"),
        VisibilityFilter(NAMESPACE, workflow_type="Never"),
        VisibilityFilter(NAMESPACE, statuses=(7,)),
        VisibilityFilter(NAMESPACE, workflow_id_prefix="never"),
    ],
    ids=lambda value: repr(value)[:90],
)
def test_a3_what_nothing_has_is_looked_for_in_bounds(
    database: Database, where: JobFilter | VisibilityFilter, oldest_first: bool
) -> None:
    """The statement that finds the end and the list up to it look at no more than that of each scan."""
    if not database.rows:
        pytest.skip("an empty table ends at once")
    end, found = _looked(database, where, oldest_first)

    assert found["Actual Rows"] == 0
    for plan in (end, found):
        looked = sum(
            node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            for node in _nodes(plan)
            if "Index Name" in node
        )
        assert looked <= SCANS * LOOK


def _looked(
    database: Database, where: JobFilter | VisibilityFilter, oldest_first: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """How the end of a page was found, and the page up to it."""
    text: LiteralString
    match where:
        case JobFilter():
            text, values = job_lists.end_statement(where, None, LOOK, oldest_first=oldest_first)
        case VisibilityFilter():
            order = Order.START_ASC if oldest_first else Order.START_DESC
            text, values = visibility.end_statement(where, order, None, LOOK)
    end, [(at, row_id)] = _executed(database, text, values)
    until = (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1), row_id.bytes
    match where:
        case JobFilter():
            text, values = job_lists.list_statement(
                where, None, until, 100, oldest_first=oldest_first
            )
        case VisibilityFilter():
            text, values = visibility.list_statement(where, order, None, until, 100)
    return end, _executed(database, text, values)[0]
