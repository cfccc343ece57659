"""All operations of the API: what is served and what the document says is made of this table."""

from __future__ import annotations

from perdure_engine.transport.http.rest import jobs, schedules, workflows
from perdure_engine.transport.http.rest.operations import Operation

OPERATIONS: tuple[Operation, ...] = (
    *jobs.OPERATIONS,
    *schedules.OPERATIONS,
    *workflows.OPERATIONS,
)


def by_path() -> dict[str, dict[str, Operation]]:
    """By path and method, in the order of the table, in which they are matched: what ends in a verb stands in it before
    what ends in the id alone, which would match it too."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = operation
    return paths
