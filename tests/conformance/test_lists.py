"""Lists and counts of runs."""

from __future__ import annotations

import json

import pytest
from tests.conformance.owner import NAMESPACE, Owner, Run, listed_row, new_id

from perdure_engine.ports.filters import CompareAttribute, Group, Operator, Order
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import Store, VisibilityFilter

ANY = VisibilityFilter(NAMESPACE)
START = 1_800_000_000_000_000


@pytest.fixture
async def rows(owner: Owner) -> list[VisibilityRow]:
    """Ten runs, newest first; starts of the first two are equal, types and ids vary."""
    rows = []
    for n in range(10):
        run = Run(n % 4 + 1, workflow_id=f"{'order' if n % 2 else 'job'}-{n}")
        run.start_us = START + max(n, 1)
        rows.append(listed_row(run, 1 if n < 5 else 2, "Order" if n % 3 else "Job"))
    await owner.commit(owner.batch(visibility=rows))
    return sorted(rows, key=lambda row: (row.start_us, row.run_id), reverse=True)


async def listed(
    store: Store, where: VisibilityFilter, order: Order = Order.START_DESC, look: int = 512
) -> list[VisibilityRow]:
    """In pages of three at most."""
    page = await store.list_runs(where, None, 3, order, look)
    rows = list(page.rows)
    while page.end is not None:
        page = await store.list_runs(where, page.end, 3, order, look)
        assert len(page.rows) <= 3
        rows += page.rows
    return rows


async def test_newest_first_page_by_page(store: Store, rows: list[VisibilityRow]) -> None:
    found = await listed(store, ANY)

    assert found == rows
    assert isinstance(found[0], VisibilityRow)


@pytest.mark.parametrize(
    "where",
    [
        ANY,
        VisibilityFilter(NAMESPACE, statuses=(2,)),
        VisibilityFilter(NAMESPACE, statuses=(1, 2)),
        VisibilityFilter(NAMESPACE, statuses=(7,)),
        VisibilityFilter(NAMESPACE, workflow_type="Job"),
        VisibilityFilter(NAMESPACE, workflow_id_prefix="order-"),
        VisibilityFilter(NAMESPACE, workflow_id_prefix="order_"),
        VisibilityFilter(NAMESPACE, start_min_us=START + 3, start_max_us=START + 7),
        VisibilityFilter(NAMESPACE, (1,), "Order", "job-", START + 1, START + 9),
        VisibilityFilter(bytes(16)),
    ],
)
async def test_filters(store: Store, rows: list[VisibilityRow], where: VisibilityFilter) -> None:
    wanted = [
        row
        for row in rows
        if row.namespace_id == where.namespace_id
        and (not where.statuses or row.status in where.statuses)
        and where.workflow_type in ("", row.workflow_type)
        and row.workflow_id.startswith(where.workflow_id_prefix)
        and row.start_us >= where.start_min_us
        and (not where.start_max_us or row.start_us < where.start_max_us)
    ]

    assert (await store.list_runs(where, None, 100)).rows == wanted
    for look in (1, 2, 512):
        assert await listed(store, where, look=look) == wanted
        assert await listed(store, where, Order.START_ASC, look) == wanted[::-1]
    assert await store.count_runs(where) == len(wanted)


async def test_a_list_is_never_stale(store: Store, owner: Owner) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])
    await owner.close([run])

    (row,) = (await store.list_runs(ANY, None, 10)).rows

    assert (row.status, row.close_us) == (2, run.start_us + 9)


async def test_attributes_come_back_as_json(store: Store, owner: Owner) -> None:
    attrs = {"amount": 12, "ä": ["x", None, {"b": True}], "a b": 'it\'s "quoted"'}
    run = Run(1)
    row = listed_row(run, 1)._replace(attrs=json.dumps(attrs), memo=new_id())
    await owner.commit(owner.batch(visibility=[row]))

    (found,) = (await store.list_runs(ANY, None, 10)).rows

    assert json.loads(found.attrs) == attrs
    assert found._replace(attrs=row.attrs) == row


async def test_each_order_page_by_page(store: Store, rows: list[VisibilityRow]) -> None:
    """By close time those that are open count as closing last."""

    def close_key(row: VisibilityRow) -> tuple[bool, int, int, bytes]:
        return row.close_us is None, row.close_us or 0, row.start_us, row.run_id

    wanted = {
        Order.START_DESC: rows,
        Order.START_ASC: rows[::-1],
        Order.CLOSE_DESC: sorted(rows, key=close_key, reverse=True),
        Order.CLOSE_ASC: sorted(rows, key=close_key),
    }
    for order in Order:
        assert await listed(store, ANY, order) == wanted[order], order


async def test_counts_by_group(store: Store, rows: list[VisibilityRow]) -> None:
    assert await store.count_groups(ANY, Group.STATUS) == [(1, 5), (2, 5)]
    assert await store.count_groups(ANY, Group.WORKFLOW_TYPE) == [("Job", 4), ("Order", 6)]
    assert await store.count_groups(VisibilityFilter(bytes(16)), Group.STATUS) == []


async def test_an_attribute_is_found_in_the_moment_its_commit_is_acknowledged(
    store: Store, owner: Owner
) -> None:
    """Invariant 64: a list after an acknowledged write shows it; the value before is gone at once."""
    run = Run(1)
    eu = VisibilityFilter(NAMESPACE, expression=CompareAttribute("Region", Operator.EQ, "eu"))
    us = VisibilityFilter(NAMESPACE, expression=CompareAttribute("Region", Operator.EQ, "us"))
    first = listed_row(run, 1)._replace(attrs='{"k": {"Region": "eu"}}')
    await owner.commit(owner.batch(visibility=[first]))
    assert (await store.count_runs(eu), await store.count_runs(us)) == (1, 0)

    second = first._replace(attrs='{"k": {"Region": "us"}}')
    await owner.commit(owner.batch(visibility=[second]))

    assert (await store.count_runs(eu), await store.count_runs(us)) == (0, 1)
    (found,) = (await store.list_runs(us, None, 9)).rows
    assert found.run_id == run.run_id


async def test_what_no_index_knows_is_looked_for_in_bounds(store: Store, owner: Owner) -> None:
    """A page may be empty while the runs that it looks for are still to come."""
    runs = [Run(1) for _ in range(40)]
    for number, run in enumerate(runs):
        run.start_us = START + number
    rows = [listed_row(run, 2, "Common") for run in runs]
    rows[0] = rows[0]._replace(workflow_type="Rare")
    await owner.commit(owner.batch(visibility=rows))

    for type_, found in (("Rare", [rows[0]]), ("Never", [])):
        where = VisibilityFilter(NAMESPACE, workflow_type=type_)
        first = await store.list_runs(where, None, 5, look=10)

        assert first.rows == []
        assert first.end is not None
        assert first.end[:2] == (rows[30].start_us, rows[30].run_id)
        assert await listed(store, where, look=10) == found
