"""What @workflow.defn, @workflow.run and @workflow.init leave behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from perdure._definitions.handlers import HandlerTable, query_handlers, signal_handlers
from perdure._definitions.signature import (
    Function,
    Signature,
    checked_name,
    members,
    qualname,
    refuse_keyword_only,
)
from perdure._definitions.updates import UpdateDefinition, update_handlers
from perdure._payload import Payload
from perdure._versioning import VersioningBehavior
from perdure.common import RawValue
from perdure.converter import PayloadConverter

_WORKFLOW = "__perdure_workflow__"
_RUN = "__perdure_workflow_run__"
_INIT = "__perdure_workflow_init__"
_DYNAMIC_CONFIG = "__perdure_dynamic_config__"

_Decorated = TypeVar("_Decorated", bound=Function)


@dataclass(frozen=True)
class DynamicWorkflowConfig:
    """What `@workflow.dynamic_config` returns."""

    failure_exception_types: Sequence[type[BaseException]] | None = None
    """Instead of those of `defn`, besides those of the worker. None: those of `defn`."""
    versioning_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED
    """Instead of that of `defn`, unless it is UNSPECIFIED."""


@dataclass(frozen=True)
class WorkflowDefinition:
    name: str
    cls: type
    run: Function
    signature: Signature = field(repr=False)
    init_takes_input: bool
    signals: HandlerTable
    queries: HandlerTable
    failure_exception_types: tuple[type[BaseException], ...]
    updates: dict[str, UpdateDefinition]  # the dynamic one: ""
    dynamic: bool = False
    versioning_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED
    guarded: bool = True
    dynamic_config: Callable[[Any], DynamicWorkflowConfig] | None = None

    def decode(self, payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
        """Raises PayloadDecodeError."""
        if self.dynamic:
            return [[RawValue(payload) for payload in payloads]]
        return self.signature.decode(payloads, converter)


def workflow_definition(target: Any) -> WorkflowDefinition:
    """Of a workflow class or of its run method."""
    # Its own: a class derived from a workflow is none before it is decorated.
    owned: dict[str, Any] = getattr(target, "__dict__", {})
    definition: WorkflowDefinition | None = owned.get(_WORKFLOW)
    if definition is None:
        raise TypeError(f"{target!r} is not a workflow: decorate its class with @workflow.defn")
    return definition


def is_workflow(target: Any) -> bool:
    """Has `workflow_definition` an answer?"""
    return _WORKFLOW in getattr(target, "__dict__", {})


def startable_workflow(target: Any) -> WorkflowDefinition:
    """For callers, who must say which of all names a dynamic one is to run as."""
    definition = workflow_definition(target)
    if definition.dynamic:
        raise TypeError(f"{definition.name} is a dynamic workflow: start it by a name of your own")
    return definition


def mark_run(function: _Decorated) -> _Decorated:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.run: {qualname(function)} must be an async method")
    refuse_keyword_only(function, "workflow")
    setattr(function, _RUN, True)
    return function


def mark_init(function: _Decorated) -> _Decorated:
    if getattr(function, "__name__", "") != "__init__":
        raise TypeError("@workflow.init belongs on __init__")
    setattr(function, _INIT, True)
    return function


def mark_dynamic_config(function: _Decorated) -> _Decorated:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.dynamic_config: {qualname(function)} must be a plain method")
    if len(inspect.signature(function).parameters) != 1:
        raise TypeError(f"@workflow.dynamic_config: {qualname(function)} takes only self")
    setattr(function, _DYNAMIC_CONFIG, True)
    return function


def define_workflow(
    cls: type,
    name: str | None,
    failure_exception_types: Sequence[type[BaseException]],
    *,
    dynamic: bool = False,
    versioning_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED,
    guarded: bool = True,
) -> None:
    """Raises TypeError, with the reason, for a class that cannot be a workflow."""
    runs = [member for _, member in members(cls) if hasattr(member, _RUN)]
    own = [member for member in runs if member in vars(cls).values()]
    if len(own) != 1 or len(runs) != 1:
        raise TypeError(f"{cls.__qualname__} must have one method of its own with @workflow.run")
    run = own[0]
    init_takes_input = hasattr(vars(cls).get("__init__"), _INIT)
    if init_takes_input and _parameters(vars(cls)["__init__"]) != _parameters(run):
        raise TypeError(f"{cls.__qualname__}: @workflow.init must take what @workflow.run takes")
    signature = Signature(run, skip_first=True)
    if dynamic and name is not None:
        raise TypeError(f"{cls.__qualname__}: a dynamic workflow has no name")
    if dynamic and not signature.takes(1):
        raise TypeError(f"{cls.__qualname__}: a dynamic workflow takes one Sequence[RawValue]")
    configs = [member for _, member in members(cls) if hasattr(member, _DYNAMIC_CONFIG)]
    if configs and not dynamic:
        raise TypeError(
            f"{cls.__qualname__}: @workflow.dynamic_config is of dynamic workflows only"
        )
    if len(configs) > 1:
        raise TypeError(f"{cls.__qualname__} has more than one @workflow.dynamic_config")
    definition = WorkflowDefinition(
        name=checked_name(name or cls.__name__),
        cls=cls,
        run=run,
        signature=signature,
        init_takes_input=init_takes_input,
        signals=signal_handlers(cls),
        queries=query_handlers(cls),
        failure_exception_types=tuple(failure_exception_types),
        updates=update_handlers(cls),
        dynamic=dynamic,
        versioning_behavior=VersioningBehavior(versioning_behavior),
        guarded=guarded,
        dynamic_config=configs[0] if configs else None,
    )
    set_workflow_definition(cls, definition)
    setattr(run, _WORKFLOW, definition)


def set_workflow_definition(cls: type, definition: WorkflowDefinition) -> None:
    setattr(cls, _WORKFLOW, definition)


def _parameters(function: Function) -> list[tuple[Any, Any]]:
    """All of them are given by place: what they are called does not matter."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [(one.kind, one.annotation) for one in parameters]
