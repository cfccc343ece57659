"""Lists and counts of runs."""

from __future__ import annotations

from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.sql import visibility
from perdure_engine.store.sql.access import Access


class SqlLists:
    """`VisibilityStore` on SQL."""

    _access: Access

    async def list_runs(
        self, where: VisibilityFilter, before: tuple[int, bytes] | None, limit: int
    ) -> list[VisibilityRow]:
        values = visibility.filter_parameters(where) + visibility.page_parameters(before, limit)
        rows = await self._access.read(visibility.LIST, values)
        return [VisibilityRow._make(row) for row in rows]

    async def count_runs(self, where: VisibilityFilter) -> int:
        rows = await self._access.read(visibility.COUNT, visibility.filter_parameters(where))
        return int(rows[0][0])
