"""Lists and counts of runs."""

from __future__ import annotations

from perdure_engine.ports.filters import Group, Order
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import RUNS_LOOKED_AT, PageKey, RunPage, VisibilityFilter
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
        look: int = RUNS_LOOKED_AT,
    ) -> RunPage:
        end: PageKey | None = None
        if visibility.needs_end(where, order):
            text, values = visibility.end_statement(where, order, before, look)
            ends = await self._access.read_list(text, values, prepare=True)
            end = (ends[0][0], ends[0][1]) if ends else None
        text, values = visibility.list_statement(where, order, before, end, limit)
        found = await self._access.read_list(text, values, prepare=where.expression is None)
        rows = [VisibilityRow._make(row) for row in found]
        if rows and len(rows) == limit:
            end = (rows[-1].start_us, rows[-1].run_id, rows[-1].close_us or 0)
        return RunPage(rows, end)

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
