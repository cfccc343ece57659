"""Typical filters at 100,000 runs: none reads the whole table, and attributes are found by their index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from perdure_engine.frontend.filters import parse
from perdure_engine.ports.filters import Order
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_engine.store.sql import visibility

ROWS = 100_000
NAMESPACE = bytes.fromhex("7b8b965ad4bca0e41ab51de7b31363a1")  # md5 of "n"
NOW_US = 1_800_000_000_000_000

# Two namespaces; in each every tenth run has attributes, of a thousand customers.
FILL = (
    "insert into visibility select n % 4 + 1, md5(n::text)::uuid, md5(case when n % 2 = 0 then 'n'"
    " else 'o' end)::uuid, n % 16, 'order-' || n, 'Type' || n % 50, 'q', n % 2 + 1, to_timestamp(n),"
    " case n % 2 when 1 then to_timestamp(n) end, 9, 900, '', case when n % 10 < 2 then"
    " jsonb_build_object('k', jsonb_build_object('Customer', 'c' || n % 1000),"
    " 'i', jsonb_build_object('Amount', n)) else '{}' end"
    f" from generate_series(1, {ROWS}) as s(n)"
)

# A tenant of many: 200 namespaces of 500 runs, and of each a tenth has attributes.
FILL_TENANTS = FILL.replace(
    "md5(case when n % 2 = 0 then 'n' else 'o' end)::uuid", "md5('t' || n % 200)::uuid"
).replace("n % 10 < 2", "(n / 200) % 10 = 0")
TENANT = bytes.fromhex("809d4580aaed41565abc38d58f77f840")  # md5 of "t0"

BY_START = {"visibility_list"}
BY_ATTRIBUTE = {"visibility_attributes"}


@pytest.fixture(scope="module")
def dsn(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    yield from filled(postgres_server, template_database, "filter_plans", FILL)


@pytest.fixture(scope="module")
def tenants_dsn(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    yield from filled(postgres_server, template_database, "tenant_plans", FILL_TENANTS)


def filled(
    postgres_server: EmbeddedPostgres, template_database: str, name: str, fill: LiteralString
) -> Iterator[str]:
    dsn = postgres_server.create_database(name, template_database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(fill)
        connection.execute("analyze visibility")
    yield dsn
    postgres_server.drop_database(name)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def plan_of(dsn: str, query: str, *, counted: bool = False) -> list[dict[str, Any]]:
    """The generic plan: what the store's sessions use."""
    asked = parse("query", query, NOW_US)
    where = VisibilityFilter(NAMESPACE, expression=asked.expression)
    if counted:
        text, _ = visibility.count_statement(where, asked.group)
    else:
        order = asked.order or Order.START_DESC
        text, _ = visibility.list_statement(where, order, None, None, 100)
    return explained(dsn, text)


def explained(dsn: str, text: LiteralString) -> list[dict[str, Any]]:
    with psycopg.connect(dsn, cursor_factory=psycopg.ClientCursor) as connection:
        if connection.info.server_version < 16_00_00:
            pytest.skip("EXPLAIN (GENERIC_PLAN) came with PostgreSQL 16")
        row = connection.execute(f"explain (generic_plan, format json) {text}").fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return list(nodes(plan[0]["Plan"]))


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        ("", BY_START),
        ("ORDER BY StartTime", BY_START),
        ("WorkflowType = 'Type7'", BY_START),
        ("ExecutionStatus = 'Running' AND StartTime > '2026-01-01'", BY_START),
        ("WorkflowId STARTS_WITH 'order-9'", BY_START),
        ("CloseTime > '1h' ORDER BY StartTime DESC", BY_START),
        ("Amount > 5", BY_START),
        ("Customer != 'c1'", BY_START),
        ("Customer = 'c1' OR WorkflowType = 'Type7'", BY_START),
        ("Customer = 'c1'", BY_ATTRIBUTE),
        ("Customer IN ('c1', 'c2') AND WorkflowType = 'Type7'", BY_ATTRIBUTE),
        ("Amount = 5 ORDER BY StartTime", BY_ATTRIBUTE),
        ("Customer = 'c1' ORDER BY CloseTime DESC", BY_ATTRIBUTE),
        ("Paid = true AND (Amount > 5 OR Amount IS NULL)", BY_ATTRIBUTE),
    ],
)
def test_typical_filters_go_by_an_index(dsn: str, query: str, indexes: set[str]) -> None:
    plan = plan_of(dsn, query)

    assert [node for node in plan if node["Node Type"] == "Seq Scan"] == []
    assert {node["Index Name"] for node in plan if "Index Name" in node} == indexes


@pytest.mark.parametrize("group", ["", "GROUP BY ExecutionStatus", "GROUP BY WorkflowType"])
def test_counts_by_an_attribute_go_by_its_index(dsn: str, group: str) -> None:
    """Other counts look at every run of their namespace, as they must."""
    plan = plan_of(dsn, "Customer = 'c1' " + group, counted=True)

    assert {node.get("Index Name") for node in plan if "Scan" in node["Node Type"]} <= {
        None,
        "visibility_attributes",
    }
    assert [node for node in plan if node["Node Type"] == "Seq Scan"] == []


@pytest.mark.parametrize("query", ["", "WorkflowType = 'Type7'", "ORDER BY StartTime"])
def test_pages_by_start_time_read_in_order(dsn: str, query: str) -> None:
    """Each bucket stops at a page of its own: only sixteen pages are merged."""
    plan = plan_of(dsn, query)

    (scan,) = [node for node in plan if node.get("Index Name") == "visibility_list"]
    assert all(column in scan["Index Cond"] for column in ("namespace_id", "bucket", "start_time"))
    assert sum(node["Node Type"] == "Sort" for node in plan) == 1


def test_runs_without_attributes_are_not_in_the_index_and_their_closes_stay_on_the_page(
    database_dsn: str,
) -> None:
    """The hot path pays nothing for the feature: no index entry at the start, none at the close."""
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        size = "select pg_relation_size('visibility_attributes')"
        before = connection.execute(size).fetchone()
        connection.execute(FILL.replace(str(ROWS), "20000").replace("n % 10 < 2", "false"))
        connection.execute("update visibility set status = 2, close_time = '2100-01-01'")
        after = connection.execute(size).fetchone()
        connection.execute("select pg_stat_force_next_flush()")
        updates = connection.execute(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'visibility'"
        ).fetchone()

    assert before == after
    assert updates is not None
    assert updates[0] == 20_000
    assert updates[1] > 0


# ---- one tenant of many


COUNTS = (
    *("", "GROUP BY ExecutionStatus", "GROUP BY WorkflowType"),
    *("WorkflowType = 'Type7'", "ExecutionStatus = 'Running' GROUP BY WorkflowType"),
    *("Amount > 5 GROUP BY ExecutionStatus", "Customer != 'c1' GROUP BY WorkflowType"),
    *("Customer IS NULL", "Paid = true OR CloseTime > '1h'", "Stuck = true"),
)
LISTS = (
    *("ORDER BY CloseTime DESC", "ORDER BY CloseTime"),
    *("WorkflowType = 'Type7' ORDER BY CloseTime DESC", "Amount > 5 ORDER BY CloseTime"),
    *("", "Amount > 5", "Customer IS NULL ORDER BY StartTime", "HistoryLength > 3"),
)


@pytest.mark.parametrize(
    ("query", "counted"),
    [*((query, True) for query in COUNTS), *((query, False) for query in LISTS)],
)
def test_what_one_tenant_asks_reads_no_others_runs(
    tenants_dsn: str, query: str, counted: bool
) -> None:
    """With any filter, group or order: its own rows at most, by the namespace in the index."""
    plan = plan_of(tenants_dsn, query, counted=counted)

    scans = [node for node in plan if "Scan" in node["Node Type"] and "Relation Name" in node]
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Bitmap Heap Scan"}
    (index,) = [node for node in plan if "Index Name" in node]
    assert index["Index Name"] == "visibility_list"
    assert "namespace_id" in index["Index Cond"]


@pytest.mark.parametrize("query", ["Customer = 'c1'", "Customer = 'c1' GROUP BY ExecutionStatus"])
def test_a_tenants_attribute_is_found_by_either_index(tenants_dsn: str, query: str) -> None:
    plan = plan_of(tenants_dsn, query, counted=True)

    assert [node for node in plan if node["Node Type"] == "Seq Scan"] == []
    assert {node["Index Name"] for node in plan if "Index Name" in node} <= BY_ATTRIBUTE | BY_START


@pytest.mark.parametrize("query", ["Customer = 'c1'", "Amount > 5", "WorkflowType = 'Type7'"])
def test_a_batch_operation_walks_by_key_whatever_it_looks_for(dsn: str, query: str) -> None:
    """Each look is at so many rows, and the next begins behind them."""
    expression = parse("query", query, NOW_US).expression
    where = VisibilityFilter(NAMESPACE, expression=expression)
    text, _ = visibility.targets_statement(where, 1, bytes(16), 100)
    plan = explained(dsn, text)

    (scan,) = [node for node in plan if "Index Name" in node]
    assert scan["Index Name"] == "visibility_pk"
    assert all(column in scan["Index Cond"] for column in ("shard_id", "run_id"))
    assert "Sort" not in {node["Node Type"] for node in plan}


@pytest.mark.parametrize("behavior", ["Pinned", "AutoUpgrade"])
def test_what_still_needs_a_version_is_counted_by_the_attributes_index(
    dsn: str, behavior: str
) -> None:
    """As `get_reachability` asks: before a version is retired, and for each row of `version list`."""
    query = (
        f"DeploymentName = 'shop' AND BuildId = '1' AND VersioningBehavior = '{behavior}'"
        " AND CloseTime IS NULL"
    )
    plan = plan_of(dsn, query, counted=True)

    assert {node["Index Name"] for node in plan if "Index Name" in node} == BY_ATTRIBUTE
