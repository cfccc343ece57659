"""Lists and counts of runs."""

from __future__ import annotations

from perdure_engine.ports.filters import Group, Order
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import PageKey, VisibilityFilter
from perdure_engine.store.sql import visibility
from perdure_engine.store.sql.access import Access


class SqlLists:
    """`VisibilityStore` on SQL."""

    _access: Access

    async def list_runs(
        self,
        where: VisibilityFilter,
        before: PageKey | None,
        limit: int,
        order: Order = Order.START_DESC,
    ) -> list[VisibilityRow]:
        text, values = visibility.list_statement(where, order, before, limit)
        rows = await self._access.read_list(text, values, prepare=where.expression is None)
        return [VisibilityRow._make(row) for row in rows]

    async def count_runs(self, where: VisibilityFilter) -> int:
        text, values = visibility.count_statement(where, None)
        rows = await self._access.read_list(text, values, prepare=where.expression is None)
        return int(rows[0][0])

    async def count_groups(
        self, where: VisibilityFilter, group: Group
    ) -> list[tuple[int | str, int]]:
        text, values = visibility.count_statement(where, group)
        rows = await self._access.read_list(text, values, prepare=where.expression is None)
        return sorted([(value, int(runs)) for value, runs in rows], key=lambda one: str(one[0]))
