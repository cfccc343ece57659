"""Random filters on random runs: both stores find the same, and no filter makes SQL beyond the list.

The filters are texts, so that the parser is in the play: what it lets through is what users can send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.conformance.owner import NAMESPACE
from tests.sql_lint.linter import lint
from tests.sql_lint.test_statements import KEYS, SORTED

from perdure_engine.core.ids import uuid_text
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute, to_json
from perdure_engine.frontend.filters import parse
from perdure_engine.ports.filters import Group, Order
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import Store, VisibilityFilter
from perdure_engine.store.memory import MemoryStore
from perdure_engine.store.sql import visibility
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

NOW_US = 1_800_000_000_000_000
NAMES = ["Region", "Amount", "a b", "k", "Größe"]
TEXTS = ["", "eu", "us", "eu west", "EU", "it's", "50%", "_", "2026-01-01", "ä", '"', "\\"]
INTS = [0, 1, -1, 5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
DOUBLES = [0.0, -0.0, 5.0, 0.1, 2.5, -1e300, 5e-324, float(2**53), 1e22]
INSTANTS = [0, 1_767_225_600_000_000, NOW_US]

text = st.sampled_from(TEXTS)
values = {
    AttributeType.TEXT: text,
    AttributeType.KEYWORD: text,
    AttributeType.INT: st.sampled_from(INTS),
    AttributeType.DOUBLE: st.sampled_from(DOUBLES),
    AttributeType.BOOL: st.booleans(),
    AttributeType.DATETIME: st.sampled_from(INSTANTS),
    AttributeType.KEYWORD_LIST: st.lists(text, max_size=3).map(tuple),
}
attribute_value = st.sampled_from(list(AttributeType)).flatmap(
    lambda type_: st.tuples(st.just(type_), values[type_])
)
attributes = st.dictionaries(st.sampled_from(NAMES), attribute_value, max_size=4).map(
    lambda found: tuple(SearchAttribute(name, *typed) for name, typed in found.items())
)


def run_id(number: int) -> bytes:
    return bytes(12) + number.to_bytes(4)


def _row(number: int, found: tuple[Any, ...]) -> VisibilityRow:
    status, type_, start, length, attributes, stuck = found
    close_us = None if status == 1 else NOW_US + length * 1_000_000
    attrs = to_json(attributes, "why" if stuck else None)
    return VisibilityRow(
        *(1, run_id(number), NAMESPACE, number % 16, f"{type_}-{number}", type_, "q" + type_),
        *(status, NOW_US - start * 1_000_000, close_us, length, length * 10, b"m"),
        attrs,
    )


rows = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 2, 3, 6, 7]),
        st.sampled_from(["Order", "Job", "order"]),
        st.integers(0, 4),
        st.integers(0, 3),
        attributes,
        st.booleans(),
    ),
    max_size=12,
).map(lambda found: [_row(number, one) for number, one in enumerate(found)])


def quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def number(value: float) -> str:
    return repr(value) if isinstance(value, float) else str(value)


texts = text.map(quoted)
numbers = st.sampled_from([*INTS, *DOUBLES]).map(number)
bools = st.sampled_from(["true", "FALSE"])
orders = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
equals = st.sampled_from(["=", "!="])
times = st.sampled_from(["'2026-01-01'", "'1s'", "'3s'", "'2027-01-15T08:00:00Z'"])
# Fields, the operators that they know, and their values.
fields = [
    (st.sampled_from([f"`{name}`" for name in NAMES]), orders, texts | numbers),
    (st.sampled_from([f"`{name}`" for name in NAMES]), equals, bools),
    (st.just("WorkflowId"), orders, st.sampled_from(["'Order-1'", "'Job-2'"])),
    (st.just("WorkflowType"), orders, st.sampled_from(["'Order'", "'order'", "'x'"])),
    (st.just("TaskQueue"), orders, st.just("'qJob'")),
    (st.just("RunId"), equals, st.integers(0, 5).map(lambda n: quoted(uuid_text(run_id(n))))),
    (st.just("ExecutionStatus"), equals, st.sampled_from(["'Running'", "'Failed'"])),
    (st.sampled_from(["StartTime", "CloseTime"]), orders, times),
    (st.just("HistoryLength"), orders, st.integers(0, 3).map(str)),
    (st.just("HistorySizeBytes"), orders, st.integers(0, 30).map(str)),
    (st.just("Stuck"), equals, bools),
]


def _condition(field: tuple[Any, Any, Any]) -> st.SearchStrategy[str]:
    name, operator, value = field
    negation = st.sampled_from(["", "NOT "])
    forms = [
        st.builds("{} {} {}".format, name, operator, value),
        st.builds(
            "{} {}IN ({})".format,
            name,
            negation,
            st.lists(value, min_size=1, max_size=3).map(", ".join),
        ),
        st.builds("{} IS {}NULL".format, name, negation),
    ]
    if operator is orders:
        forms.append(st.builds("{} {}BETWEEN {} AND {}".format, name, negation, value, value))
    return st.one_of(forms)


starts = st.builds(
    "{} {}STARTS_WITH {}".format,
    st.sampled_from([*(f"`{name}`" for name in NAMES), "WorkflowId", "WorkflowType"]),
    st.sampled_from(["", "NOT "]),
    texts,
)
filters = st.recursive(
    st.one_of([starts, *map(_condition, fields)]),
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


class Pair:
    """Both stores, and the loop that the SQL one lives in."""

    def __init__(self, dsn: str, runner: asyncio.Runner) -> None:
        self.runner = runner
        self._admin = psycopg.connect(dsn, autocommit=True)
        self.sql = SqlStore(SqlStoreConfig(dsn, readers=1, writers=1))

    def filled(self, rows: list[VisibilityRow]) -> MemoryStore:
        self._admin.execute("delete from visibility")
        memory = MemoryStore(lambda: 0)
        with self._admin.cursor() as cursor:
            cursor.executemany(
                "insert into visibility values (%s, %s, %s, %s, %s, %s, %s, %s,"
                " 'epoch'::timestamptz + %s * interval '1 microsecond',"
                " 'epoch'::timestamptz + %s * interval '1 microsecond', %s, %s, %s, %s)",
                [
                    row._replace(
                        run_id=uuid_text(row.run_id),  # type: ignore[arg-type]
                        namespace_id=uuid_text(row.namespace_id),  # type: ignore[arg-type]
                    )
                    for row in rows
                ],
            )
        for row in rows:
            memory.tables.visibility.put(row)
        return memory

    def close(self) -> None:
        self.runner.run(self.sql.close())
        self._admin.close()


@pytest.fixture
def pair(database_dsn: str) -> Iterator[Pair]:
    with asyncio.Runner() as runner:
        pair = Pair(database_dsn, runner)
        yield pair
        pair.close()


async def everything(store: Store, where: VisibilityFilter, look: int) -> list[Any]:
    """What the store finds, in every order, in pages of three at most; and its counts."""
    found: list[Any] = [await store.count_runs(where)]
    found += [await store.count_groups(where, group) for group in Group]
    for order in Order:
        rows: list[VisibilityRow] = []
        page = await store.list_runs(where, None, 3, order, look)
        rows += page.rows
        while page.end is not None:
            page = await store.list_runs(where, page.end, 3, order, look)
            rows += page.rows
        found.append([row.workflow_id for row in rows])
    return found


@settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=rows, asked=st.lists(filters, min_size=1, max_size=4))
@example(  # a time is no text, though the value of the filter could be either
    rows=[_row(0, (1, "Order", 0, 0, (SearchAttribute("Due", AttributeType.DATETIME, 0),), False))],
    asked=["Due STARTS_WITH '2026-01-01'"],
)
def test_random_filters_find_the_same_on_both(
    pair: Pair, rows: list[VisibilityRow], asked: list[str]
) -> None:
    memory = pair.filled(rows)

    async def both() -> None:
        for one in asked:
            where = VisibilityFilter(NAMESPACE, expression=parse("query", one, NOW_US).expression)
            for look in (1, 512):
                of_memory = await everything(memory, where, look)
                assert await everything(pair.sql, where, look) == of_memory, one

    pair.runner.run(both())


@settings(deadline=None, max_examples=40)
@given(asked=filters)
def test_no_filter_makes_a_statement_beyond_the_allow_list(asked: str) -> None:
    where = VisibilityFilter(NAMESPACE, expression=parse("query", asked, NOW_US).expression)
    statements = [visibility.list_statement(where, order, None, None, 9) for order in Order]
    statements += [visibility.count_statement(where, group) for group in (None, *Group)]
    # Where an attribute is demanded, what is found is sorted: by a key all the same, or by the close.
    keys = KEYS | SORTED

    for sql, parameters in statements:
        assert lint(sql, keys) == []
        assert sql.count("'") == sum(sql.count(piece) * 2 for piece in LITERALS)
        assert f"${len(parameters)}::" in sql
        assert f"${len(parameters) + 1}::" not in sql


# Every quoted text that our own pieces hold; with these counted, none is left for a user's.
LITERALS = (
    *("''", "'{}'", "'stuck'", "'9999-12-31T00:00:00Z'"),
    *("'k'", "'l'", "'t'", "'i'", "'f'", "'b'", "'d'"),
)
