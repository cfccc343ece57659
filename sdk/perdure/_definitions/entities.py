"""What @workflow.entity, @workflow.entity_handler and @workflow.entity_reader leave behind.

An entity is a workflow to everybody else: the class also has a workflow definition, whose `cls` is a
host that keeps the state, takes the calls as updates, and answers the readers as queries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from perdure._definitions.handlers import HandlerDefinition, HandlerUnfinishedPolicy
from perdure._definitions.signature import (
    Function,
    Signature,
    checked_name,
    members,
    qualname,
    refuse_keyword_only,
)
from perdure._definitions.updates import UpdateDefinition
from perdure._definitions.workflows import WorkflowDefinition, set_workflow_definition
from perdure._payload import Payload
from perdure.common import ENTITY_DESTROY, ENTITY_RESERVED
from perdure.converter import PayloadConverter
from perdure.errors import PayloadDecodeError

_ENTITY = "__perdure_entity__"
_HANDLER = "__perdure_entity_handler__"
_READER = "__perdure_entity_reader__"

_Decorated = TypeVar("_Decorated", bound=Function)
_KEY_SEPARATOR = "/"

fresh_key: ContextVar[str | None] = ContextVar("fresh_key", default=None)
"""Of the object that does not exist yet, while a client answers a reader from a fresh one."""


@dataclass(frozen=True)
class EntityMethod:
    """A handler or a reader. `function` takes the object first."""

    name: str
    function: Function
    is_async: bool
    signature: Signature = field(repr=False)

    def positional(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Arguments travel by position. Raises TypeError for those that it does not take."""
        if not kwargs:
            self._check_number(args)
            return list(args)
        try:
            bound = inspect.signature(self.function).bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{qualname(self.function)}: {error}") from None
        if bound.kwargs:
            # One in the middle was left out: what it would have been must be said.
            bound.apply_defaults()
        if bound.kwargs:
            listed = ", ".join(bound.kwargs)
            raise TypeError(f"{qualname(self.function)}: {listed} cannot travel by position")
        return list(bound.args[1:])

    def _check_number(self, args: Sequence[Any]) -> None:
        if not self.signature.takes(len(args)):
            raise TypeError(f"{qualname(self.function)} cannot take {len(args)} argument(s)")


@dataclass(frozen=True)
class EntityDefinition:
    name: str
    cls: type
    handlers: Mapping[str, EntityMethod]
    readers: Mapping[str, EntityMethod]
    calls_per_run: int

    def workflow_id(self, key: str) -> str:
        return entity_workflow_id(self.name, key)

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """Of the attributes that the class body declares. Raises PayloadDecodeError."""
        try:
            return get_type_hints(self.cls, include_extras=True)
        except NameError as error:
            raise PayloadDecodeError(
                f"a type hint of {self.cls.__qualname__} cannot be resolved: {error}; "
                "import the type at run time, not only under TYPE_CHECKING"
            ) from error


@dataclass(frozen=True)
class EntityWorkflow(WorkflowDefinition):
    """The workflow that an entity's key is. Its host reads its input itself."""

    def decode(self, payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
        return [list(payloads)]


def entity_workflow_id(name: str, key: str) -> str:
    """Raises ValueError for an empty key."""
    if not key:
        raise ValueError("an entity's key must not be empty")
    return f"{name}{_KEY_SEPARATOR}{key}"


def entity_key_of(workflow_id: str, name: str) -> str:
    return workflow_id.removeprefix(f"{name}{_KEY_SEPARATOR}")


def entity_definition(target: Any) -> EntityDefinition:
    # Its own: a class derived from an entity is none before it is decorated.
    definition: EntityDefinition | None = getattr(target, "__dict__", {}).get(_ENTITY)
    if definition is None:
        raise TypeError(f"{target!r} is not an entity: decorate its class with @workflow.entity")
    return definition


def entity_handler_of(function: Any) -> EntityMethod:
    method: EntityMethod | None = getattr(function, _HANDLER, None)
    if method is None:
        raise TypeError(
            f"{function!r} is not a handler of an entity: decorate it with @workflow.entity_handler"
        )
    return method


def entity_reader_of(function: Any) -> EntityMethod:
    method: EntityMethod | None = getattr(function, _READER, None)
    if method is None:
        raise TypeError(
            f"{function!r} is not a reader of an entity: decorate it with @workflow.entity_reader"
        )
    return method


def mark_entity_handler(function: _Decorated, name: str | None) -> _Decorated:
    setattr(function, _HANDLER, _method(function, name, "entity handler"))
    return function


def mark_entity_reader(function: _Decorated, name: str | None) -> _Decorated:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.entity_reader: {qualname(function)} must not be async")
    setattr(function, _READER, _method(function, name, "entity reader"))
    return function


def _method(function: Function, name: str | None, kind: str) -> EntityMethod:
    refuse_keyword_only(function, kind)
    checked = checked_name(name or function.__name__)
    if checked.startswith(ENTITY_RESERVED):
        raise TypeError(f"{checked!r}: names that begin with {ENTITY_RESERVED} are Perdure's own")
    return EntityMethod(
        name=checked,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        signature=Signature(function, skip_first=True),
    )


def define_entity(
    cls: type,
    name: str | None,
    calls_per_run: int,
    make_host: Callable[[EntityDefinition], type],
) -> None:
    """`make_host`: of the class with `run`, `take(name, args)` and `read(name, args)`.

    Raises TypeError or ValueError, with the reason, for a class that cannot be an entity.
    """
    if calls_per_run < 1:
        raise ValueError(f"calls_per_run must be at least 1: {calls_per_run}")
    definition = EntityDefinition(
        name=checked_name(name or cls.__name__),
        cls=cls,
        handlers=_methods(cls, _HANDLER, "handler"),
        readers=_methods(cls, _READER, "reader"),
        calls_per_run=calls_per_run,
    )
    if not definition.handlers:
        raise TypeError(f"{cls.__qualname__} has no method with @workflow.entity_handler")
    _require_bare(cls)
    setattr(cls, _ENTITY, definition)
    set_workflow_definition(cls, _workflow_of(definition, make_host(definition)))


def _require_bare(cls: type) -> None:
    for one in list(inspect.signature(cls).parameters.values()):
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise TypeError(
                f"{cls.__qualname__}() must need no arguments, and not {one.name!r}: "
                "it makes the state of a new key"
            )


def _methods(cls: type, mark: str, kind: str) -> dict[str, EntityMethod]:
    found: dict[str, EntityMethod] = {}
    for attribute, member in members(cls):
        method: EntityMethod | None = getattr(member, mark, None)
        if method is None:
            if any(hasattr(vars(base).get(attribute), mark) for base in cls.__mro__):
                raise TypeError(
                    f"{cls.__qualname__}.{attribute} overrides an entity's {kind}: decorate it too"
                )
            continue
        if method.name in found:
            raise TypeError(f"{cls.__qualname__} has two {kind}s named {method.name!r}")
        found[method.name] = method
    return found


def _workflow_of(definition: EntityDefinition, host: type) -> EntityWorkflow:
    run: Function = vars(host)["run"]
    updates = {one.name: _update_of(one) for one in definition.handlers.values()}
    updates[ENTITY_DESTROY] = _destroying()
    return EntityWorkflow(
        name=definition.name,
        cls=host,
        run=run,
        signature=Signature(run, skip_first=True),
        init_takes_input=True,
        signals={},
        queries={one.name: _query_of(one) for one in definition.readers.values()},
        failure_exception_types=(),
        updates=updates,
    )


def _update_of(method: EntityMethod) -> UpdateDefinition:
    async def take(host: Any, *args: Any) -> Any:
        return await host.take(method.name, args)

    return _update(method.name, take, method.signature)


def _destroying() -> UpdateDefinition:
    async def destroy(host: Any) -> None:
        await host.take(ENTITY_DESTROY, ())

    return _update(ENTITY_DESTROY, destroy, Signature(destroy, skip_first=True))


def _update(name: str, function: Function, signature: Signature) -> UpdateDefinition:
    return UpdateDefinition(
        name=name,
        function=function,
        is_async=True,
        signature=signature,
        # What it cuts off is told so, and goes along to the next run.
        unfinished_policy=HandlerUnfinishedPolicy.ABANDON,
        description=None,
    )


def _query_of(method: EntityMethod) -> HandlerDefinition:
    def read(host: Any, *args: Any) -> Any:
        return host.read(method.name, args)

    return HandlerDefinition(
        name=method.name, function=read, is_async=False, signature=method.signature
    )
