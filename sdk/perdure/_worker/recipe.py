"""What a worker runs, and how: enough to do the same in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure._definitions import ActivityRegistry, WorkflowRegistry
from perdure._interceptors.worker import Interceptor
from perdure._replay.instance import WorkflowInstance
from perdure._replay.interception import Interception
from perdure._replay.messages import Task
from perdure._versioning import VersioningBehavior
from perdure._wire.worker_service import WorkerIdentity
from perdure.converter import DataConverter, PayloadConverter
from perdure.errors import UnknownWorkflowTypeError
from perdure.workflow._outbound import RootOutbound


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Checked by the worker. Can be pickled when all that it names can: "spawn" needs that."""

    task_queue: str
    identity: WorkerIdentity
    workflows: Sequence[type]
    activities: Sequence[Callable[..., Any]]
    data_converter: DataConverter
    interceptors: Sequence[Interceptor] = ()
    failure_exception_types: tuple[type[BaseException], ...] = ()
    guarded: bool = True
    default_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED
    local_activities_at_once: int = 100
    hides_messages: bool = False
    """Of failures, from the log too: they are encoded."""
    watches_deadlocks: bool = True

    @property
    def converter(self) -> PayloadConverter:
        return self.data_converter.payload_converter

    def without_edge(self) -> Recipe:
        """For a process whose values are encoded and decoded by another one."""
        plain = replace(self.data_converter, payload_codec=None, external_storage=None)
        return replace(self, data_converter=plain)

    def with_interceptor(self, innermost: Interceptor) -> Recipe:
        return replace(self, interceptors=[*self.interceptors, innermost])


class Code:
    """The workflows and activities of a recipe, found by name."""

    def __init__(self, recipe: Recipe) -> None:
        """Raises TypeError or ValueError for what cannot be run."""
        self.recipe = recipe
        self._workflows = WorkflowRegistry(recipe.workflows)
        self.activities = ActivityRegistry(recipe.activities)
        self._interception = Interception.of(recipe.interceptors, RootOutbound)

    def knows(self, type_name: str, *, is_workflow: bool) -> bool:
        """A dynamic one knows every name."""
        if not is_workflow:
            newest = self.activities.newest
            return type_name in newest or "" in newest
        try:
            self._workflows.find(type_name)
        except UnknownWorkflowTypeError:
            return False
        return True

    def make_instance(self, task: Task) -> WorkflowInstance:
        """Raises UnknownWorkflowTypeError."""
        recipe = self.recipe
        definition = self._workflows.find(task.workflow_type)
        behavior = VersioningBehavior.UNSPECIFIED
        if recipe.identity.deployment_name:
            behavior = definition.versioning_behavior or recipe.default_behavior
        return WorkflowInstance(
            definition,
            namespace=recipe.identity.namespace,
            data_converter=recipe.data_converter,
            guarded=recipe.guarded,
            failure_exception_types=recipe.failure_exception_types,
            newest_activities=self.activities.versions,
            interception=self._interception,
            version=(recipe.identity.deployment_name, recipe.identity.build_id),
            versioning_behavior=behavior,
        )
