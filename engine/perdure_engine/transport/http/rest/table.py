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
    """By path and method. Paths that end in a verb go first: `{id}` would match them too."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in sorted(OPERATIONS, key=lambda one: "}:" not in one.path):
        paths.setdefault(operation.path, {})[operation.method] = operation
    return paths
