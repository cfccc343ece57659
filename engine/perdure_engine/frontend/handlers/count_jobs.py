"""CountJobs: how many jobs a list would show, by status."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing

from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.list_jobs import ListJobs, all_jobs, check_filter
from perdure_engine.frontend.job_rows import failure_type_of
from perdure_engine.ports.jobs import JobFilter


async def count_jobs(
    frontend: Frontend, where: JobFilter, failure_type: str = ""
) -> list[tuple[int, int]]:
    """The statuses that any of them has, in their order, with how many. By a type of failure all that the rest of the
    filter finds is read."""
    check_filter(where, failure_type)
    if not failure_type:
        return await frontend.jobs.count_jobs(where)
    counts: Counter[int] = Counter()
    async with aclosing(all_jobs(frontend, ListJobs(where=where))) as found:
        async for info in found:
            counts[info.status] += failure_type_of(info) == failure_type
    return sorted((+counts).items())
