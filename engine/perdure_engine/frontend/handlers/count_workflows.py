"""CountWorkflows: how many runs a list would show, all together or by group."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import invalid
from perdure_engine.frontend import filters
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.list_workflows import check_filter
from perdure_engine.ports.store import VisibilityFilter


class CountAnswer(msgspec.Struct, frozen=True):
    """`groups`: a status (its number) or a type, with its count; what nothing has is left out."""

    count: int
    groups: list[tuple[int | str, int]]


async def count_workflows(
    frontend: Frontend, where: VisibilityFilter, query: str = ""
) -> CountAnswer:
    check_filter(where)
    group = None
    if query:
        asked = filters.parse("query", query, frontend.db_now_us())
        if asked.order is not None:
            raise invalid("query", "a count has no ORDER BY")
        where = msgspec.structs.replace(where, expression=asked.expression)
        group = asked.group
    if group is None:
        return CountAnswer(await frontend.visibility.count_runs(where), [])
    groups = await frontend.visibility.count_groups(where, group)
    return CountAnswer(sum([count for _, count in groups]), groups)
