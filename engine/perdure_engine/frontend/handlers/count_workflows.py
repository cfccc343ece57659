"""CountWorkflows: how many runs a list would show."""

from __future__ import annotations

from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.list_workflows import check_filter
from perdure_engine.ports.store import VisibilityFilter


async def count_workflows(frontend: Frontend, where: VisibilityFilter) -> int:
    check_filter(where)
    return await frontend.visibility.count_runs(where)
