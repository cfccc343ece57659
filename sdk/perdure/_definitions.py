"""What the decorators leave behind: names, handlers and types of activities and workflows.

Decorated things stay what they were; their definition hangs on them as an attribute. Type hints are
resolved when they are first needed, because a hint may name a class that is defined further down.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from perdure._payload import Payload
from perdure.converter import PayloadConverter
from perdure.errors import PayloadDecodeError

_ACTIVITY = "__perdure_activity__"
_WORKFLOW = "__perdure_workflow__"
_RUN = "__perdure_workflow_run__"
_INIT = "__perdure_workflow_init__"
_SIGNAL = "__perdure_signal__"
_QUERY = "__perdure_query__"

Function = Callable[..., Any]
_Decorated = TypeVar("_Decorated", bound=Function)


class Signature:
    """The positional parameters and the result of a function, as converters need them."""

    def __init__(self, function: Function, *, skip_first: bool = False) -> None:
        self.function = function
        self._skip = 1 if skip_first else 0

    @cached_property
    def hints(self) -> tuple[Any, ...]:
        """One for each positional parameter that has a name; Any where there is no hint."""
        return tuple(self._resolved.get(one.name, Any) for one in self._named)

    @cached_property
    def result(self) -> Any:
        return self._resolved.get("return", Any)

    @cached_property
    def arity(self) -> tuple[int, int | None]:
        """The fewest and the most arguments; None is any number."""
        least = sum(1 for one in self._named if one.default is one.empty)
        open_ended = any(one.kind is one.VAR_POSITIONAL for one in self._parameters)
        return least, None if open_ended else len(self._named)

    def decode(self, payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
        """Raises PayloadDecodeError also when the number of arguments does not fit."""
        least, most = self.arity
        if len(payloads) < least or (most is not None and len(payloads) > most):
            name = getattr(self.function, "__qualname__", repr(self.function))
            raise PayloadDecodeError(f"{name} cannot take {len(payloads)} argument(s)")
        try:
            return converter.from_payloads(payloads, self.hints)
        except PayloadDecodeError as error:
            raise error.at(self._place_of(payloads, converter)) from error.__cause__

    def _place_of(self, payloads: Sequence[Payload], converter: PayloadConverter) -> str:
        """Of the argument that cannot be decoded: looked for once it is known that there is one."""
        name = getattr(self.function, "__qualname__", repr(self.function))
        for index, payload in enumerate(payloads):
            named = f" ({self._named[index].name})" if index < len(self._named) else ""
            try:
                converter.from_payloads([payload], self.hints[index : index + 1])
            except PayloadDecodeError:
                return f"argument {index + 1}{named} of {name}"
        return f"the arguments of {name}"

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())[self._skip :]

    @cached_property
    def _named(self) -> list[inspect.Parameter]:
        positional = (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        return [one for one in self._parameters if one.kind in positional]

    @cached_property
    def _resolved(self) -> dict[str, Any]:
        target = self.function
        if not inspect.isroutine(target):  # an object with __call__
            target = type(target).__call__
        try:
            return get_type_hints(target, include_extras=True)
        except NameError as error:
            raise PayloadDecodeError(
                f"a type hint of {target.__qualname__} cannot be resolved: {error}; "
                "import the type at run time, not only under TYPE_CHECKING"
            ) from error


# --- activities -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActivityDefinition:
    name: str
    function: Function
    is_async: bool
    signature: Signature = field(repr=False)

    @staticmethod
    def attach(decorated: Function, name: str | None) -> None:
        """Raises TypeError for what cannot be an activity."""
        target = decorated
        if isinstance(decorated, type):
            target = inspect.getattr_static(decorated, "__call__", None)
            if target is None:
                raise TypeError(f"activity class {decorated.__qualname__} has no __call__ method")
        if not inspect.isfunction(target) or inspect.isasyncgenfunction(target):
            raise TypeError(f"{decorated!r} cannot be an activity: it is not a function")
        _refuse_keyword_only(target, "activity")
        definition = ActivityDefinition(
            name=_checked_name(name or decorated.__name__),
            function=decorated,
            is_async=inspect.iscoroutinefunction(target),
            signature=Signature(target, skip_first=isinstance(decorated, type)),
        )
        setattr(decorated, _ACTIVITY, definition)

    @staticmethod
    def attached_to(function: Any) -> ActivityDefinition:
        """For callers: of a bound method or an object it is the one of the function behind it."""
        definition: ActivityDefinition | None = getattr(function, _ACTIVITY, None)
        if definition is None:
            raise TypeError(f"{function!r} is not an activity: decorate it with @activity.defn")
        return definition


def activity_definition(function: Function) -> ActivityDefinition:
    """For workers: of a function, bound method or object that can be called as it is."""
    attached = ActivityDefinition.attached_to(function)
    if attached.function is function:
        if isinstance(function, type):
            raise TypeError(f"activity class {function.__qualname__}: register an object of it")
        return attached
    return ActivityDefinition(attached.name, function, attached.is_async, Signature(function))


# --- workflows ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HandlerDefinition:
    """Of a signal or a query. `function` takes the workflow object first."""

    name: str
    function: Function
    is_async: bool
    signature: Signature = field(repr=False)


@dataclass(frozen=True)
class WorkflowDefinition:
    name: str
    cls: type
    run: Function
    signature: Signature = field(repr=False)
    init_takes_input: bool
    signals: dict[str, HandlerDefinition]
    queries: dict[str, HandlerDefinition]
    failure_exception_types: tuple[type[BaseException], ...]


def workflow_definition(target: Any) -> WorkflowDefinition:
    """Of a workflow class or of its run method."""
    # Its own: a class derived from a workflow is none before it is decorated.
    owned: dict[str, Any] = getattr(target, "__dict__", {})
    definition: WorkflowDefinition | None = owned.get(_WORKFLOW)
    if definition is None:
        raise TypeError(f"{target!r} is not a workflow: decorate its class with @workflow.defn")
    return definition


def signal_definition(function: Any) -> HandlerDefinition:
    return _handler_of(function, _SIGNAL, "signal")


def query_definition(function: Any) -> HandlerDefinition:
    return _handler_of(function, _QUERY, "query")


def _handler_of(function: Any, mark: str, kind: str) -> HandlerDefinition:
    definition: HandlerDefinition | None = getattr(function, mark, None)
    if definition is None:
        raise TypeError(f"{function!r} is not a {kind}: decorate it with @workflow.{kind}")
    return definition


def mark_run(function: _Decorated) -> _Decorated:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.run: {_qualname(function)} must be an async method")
    _refuse_keyword_only(function, "workflow")
    setattr(function, _RUN, True)
    return function


def mark_init(function: _Decorated) -> _Decorated:
    if getattr(function, "__name__", "") != "__init__":
        raise TypeError("@workflow.init belongs on __init__")
    setattr(function, _INIT, True)
    return function


def mark_signal(function: _Decorated, name: str | None) -> _Decorated:
    setattr(function, _SIGNAL, handler_definition(function, name, "signal"))
    return function


def mark_query(function: _Decorated, name: str | None) -> _Decorated:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.query: {_qualname(function)} must not be async")
    setattr(function, _QUERY, handler_definition(function, name, "query"))
    return function


def handler_definition(
    function: Function, name: str | None, kind: str, *, skip_first: bool = True
) -> HandlerDefinition:
    _refuse_keyword_only(function, kind)
    return HandlerDefinition(
        name=_checked_name(name or function.__name__),
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        signature=Signature(function, skip_first=skip_first),
    )


def define_workflow(
    cls: type, name: str | None, failure_exception_types: Sequence[type[BaseException]]
) -> None:
    """Raises TypeError, with the reason, for a class that cannot be a workflow."""
    runs = [member for _, member in _members(cls) if hasattr(member, _RUN)]
    own = [member for member in runs if member in vars(cls).values()]
    if len(own) != 1 or len(runs) != 1:
        raise TypeError(f"{cls.__qualname__} must have one method of its own with @workflow.run")
    run = own[0]
    init_takes_input = hasattr(vars(cls).get("__init__"), _INIT)
    if init_takes_input and _parameters(vars(cls)["__init__"]) != _parameters(run):
        raise TypeError(f"{cls.__qualname__}: @workflow.init must take what @workflow.run takes")
    definition = WorkflowDefinition(
        name=_checked_name(name or cls.__name__),
        cls=cls,
        run=run,
        signature=Signature(run, skip_first=True),
        init_takes_input=init_takes_input,
        signals=_handlers(cls, _SIGNAL, "signal"),
        queries=_handlers(cls, _QUERY, "query"),
        failure_exception_types=tuple(failure_exception_types),
    )
    setattr(cls, _WORKFLOW, definition)
    setattr(run, _WORKFLOW, definition)


def _handlers(cls: type, mark: str, kind: str) -> dict[str, HandlerDefinition]:
    handlers: dict[str, HandlerDefinition] = {}
    for attribute, member in _members(cls):
        definition: HandlerDefinition | None = getattr(member, mark, None)
        if definition is None:
            if any(hasattr(vars(base).get(attribute), mark) for base in cls.__mro__):
                raise TypeError(
                    f"{cls.__qualname__}.{attribute} overrides a {kind}: decorate it too"
                )
            continue
        if definition.name in handlers:
            raise TypeError(f"{cls.__qualname__} has two {kind}s named {definition.name!r}")
        handlers[definition.name] = definition
    return handlers


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    for attribute in dir(cls):
        yield attribute, inspect.getattr_static(cls, attribute, None)


def _parameters(function: Function) -> list[tuple[str, Any]]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [(one.name, one.annotation) for one in parameters]


def _refuse_keyword_only(function: Function, kind: str) -> None:
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty:
            raise TypeError(
                f"{kind} {_qualname(function)}: arguments travel by position, "
                f"so {one.name!r} must not be keyword-only"
            )


def _checked_name(name: str) -> str:
    if name.startswith("__"):
        raise TypeError(f"{name!r}: names that begin with __ are the engine's own")
    return name


def _qualname(function: Function) -> str:
    return str(getattr(function, "__qualname__", function))
