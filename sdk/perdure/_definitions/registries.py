"""What a worker has registered, by the names under which tasks ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure._definitions.activities import ActivityDefinition, activity_definition
from perdure._definitions.workflows import WorkflowDefinition, workflow_definition
from perdure.errors import UnknownWorkflowTypeError


class WorkflowRegistry:
    """Workflows by name, and the dynamic one for all names that have none of their own."""

    def __init__(self, workflows: Sequence[type]) -> None:
        """Raises TypeError for what is no workflow, ValueError for two under one name."""
        definitions = [workflow_definition(one) for one in workflows]
        dynamic = [one for one in definitions if one.dynamic]
        if len(dynamic) > 1:
            raise ValueError("at most one workflow can be dynamic")
        _refuse_twice([one.name for one in definitions if not one.dynamic])
        self._by_name = {one.name: one for one in definitions if not one.dynamic}
        self._dynamic = dynamic[0] if dynamic else None

    def find(self, workflow_type: str) -> WorkflowDefinition:
        """Raises UnknownWorkflowTypeError."""
        definition = self._by_name.get(workflow_type) or self._dynamic
        if definition is None:
            raise UnknownWorkflowTypeError(workflow_type, list(self._by_name))
        return definition


class ActivityRegistry:
    """`newest`: of each name; the dynamic one under "". `others`: older versions by (name, version).

    `versions`: the newest version of the names that have one past the first.
    """

    def __init__(self, activities: Sequence[Callable[..., Any]]) -> None:
        """Raises TypeError for what cannot be an activity, ValueError for two under one name."""
        self.all = [activity_definition(one) for one in activities]
        _refuse_twice(
            (one.name or "dynamic") + (f" version {one.version}" if one.version > 1 else "")
            for one in self.all
        )
        self.newest: dict[str, ActivityDefinition] = {}
        self.others: dict[tuple[str, int], ActivityDefinition] = {}
        for one in sorted(self.all, key=lambda one: one.version):
            older = self.newest.get(one.name)
            if older is not None:
                self.others[older.name, older.version] = older
            self.newest[one.name] = one
        self.versions = {name: one.version for name, one in self.newest.items() if one.version > 1}


def _refuse_twice(names: Iterable[str]) -> None:
    told = list(names)
    twice = sorted({one for one in told if told.count(one) > 1})
    if twice:
        raise ValueError(f"registered twice: {', '.join(twice)}")
