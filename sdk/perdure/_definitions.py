"""What the decorators leave behind: names, handlers and types of activities and workflows.

Decorated things stay what they were; their definition hangs on them as an attribute. Type hints are
resolved when they are first needed, because a hint may name a class that is defined further down.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

from perdure._payload import Payload
from perdure.common import RawValue
from perdure.converter import PayloadConverter
from perdure.errors import PayloadDecodeError

_ACTIVITY = "__perdure_activity__"
_WORKFLOW = "__perdure_workflow__"
_RUN = "__perdure_workflow_run__"
_INIT = "__perdure_workflow_init__"
_SIGNAL = "__perdure_signal__"
_QUERY = "__perdure_query__"
_UPDATE = "__perdure_update__"

# Names of activities of which this process has seen a version past the first.
VERSIONED_NAMES: set[str] = set()
NO_VERSIONS: Mapping[str, int] = MappingProxyType({})
_VERSION_MAX = 1_000_000

Function = Callable[..., Any]
_Decorated = TypeVar("_Decorated", bound=Function)


class HandlerUnfinishedPolicy(IntEnum):
    """What a run does that ends while the handler runs: cut it off with a warning, or without."""

    WARN_AND_ABANDON = 1
    ABANDON = 2


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

    def takes(self, count: int) -> bool:
        """Can it be called with so many arguments?"""
        least, most = self.arity
        return least <= count and (most is None or count <= most)

    def decode(self, payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
        """Raises PayloadDecodeError also when the number of arguments does not fit."""
        if not self.takes(len(payloads)):
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
    is_dynamic: bool = False
    """It takes the calls of every name that is not registered; its own name is empty."""
    version: int = 1
    cancel_raises: bool = True
    """In its thread, when it is not async."""

    def decode(self, payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
        if self.is_dynamic:
            return [[RawValue(payload) for payload in payloads]]
        return self.signature.decode(payloads, converter)

    @staticmethod
    def attach(
        decorated: Function,
        name: str | None,
        *,
        dynamic: bool = False,
        version: int = 1,
        cancel_raises: bool = True,
    ) -> None:
        """Raises TypeError for what cannot be an activity."""
        target = decorated
        if isinstance(decorated, type):
            target = inspect.getattr_static(decorated, "__call__", None)
            if target is None:
                raise TypeError(f"activity class {decorated.__qualname__} has no __call__ method")
        if not inspect.isfunction(target) or inspect.isasyncgenfunction(target):
            raise TypeError(f"{decorated!r} cannot be an activity: it is not a function")
        _refuse_keyword_only(target, "activity")
        if dynamic and name is not None:
            raise TypeError(f"{decorated!r}: a dynamic activity has no name of its own")
        if not 1 <= version <= _VERSION_MAX or (dynamic and version > 1):
            raise TypeError(f"{decorated!r}: a version counts from 1; a dynamic activity has none")
        definition = ActivityDefinition(
            name="" if dynamic else _checked_name(name or decorated.__name__),
            function=decorated,
            is_async=inspect.iscoroutinefunction(target),
            signature=Signature(target, skip_first=isinstance(decorated, type)),
            is_dynamic=dynamic,
            version=version,
            cancel_raises=cancel_raises,
        )
        if version > 1:
            VERSIONED_NAMES.add(definition.name)
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
    found = attached
    if attached.function is function:
        if isinstance(function, type):
            raise TypeError(f"activity class {function.__qualname__}: register an object of it")
    else:
        found = replace(attached, function=function, signature=Signature(function))
    if found.is_dynamic:
        _check_dynamic(found)
    return found


def _check_dynamic(definition: ActivityDefinition) -> None:
    if definition.signature.hints != (Sequence[RawValue],):
        raise TypeError(
            f"dynamic activity {_qualname(definition.function)} must take one parameter, "
            "of type Sequence[perdure.common.RawValue]"
        )


# --- workflows ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HandlerDefinition:
    """Of a signal or a query. `function` takes the workflow object first, unless it is free.

    A dynamic one takes the name and a sequence of `RawValue`; its own name is only for people.
    """

    name: str
    function: Function
    is_async: bool
    signature: Signature = field(repr=False)
    dynamic: bool = False
    free: bool = False
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON
    description: str | None = None

    def decode(
        self, name: str, payloads: Sequence[Payload], converter: PayloadConverter
    ) -> list[Any]:
        if self.dynamic:
            return [name, [RawValue(payload) for payload in payloads]]
        return self.signature.decode(payloads, converter)

    def call(self, instance: Any, args: list[Any]) -> Any:
        return self.function(*args) if self.free else self.function(instance, *args)

    def bound_to(self, instance: Any) -> Function:
        return self.function if self.free else partial(self.function, instance)


HandlerTable = Mapping[str | None, HandlerDefinition]
"""By name; under None the dynamic one, for all names that have none of their own."""


@dataclass(frozen=True)
class UpdateDefinition:
    """`function` and `validator` take the workflow object first. The name None is the dynamic one's."""

    name: str | None
    function: Function
    is_async: bool
    signature: Signature = field(repr=False)
    unfinished_policy: HandlerUnfinishedPolicy
    description: str | None
    validator: Function | None = None

    def decode(
        self, name: str, payloads: Sequence[Payload], converter: PayloadConverter
    ) -> list[Any]:
        """Of the dynamic one: the name, and the values as they came."""
        if self.name is None:
            return [name, [RawValue(payload) for payload in payloads]]
        return self.signature.decode(payloads, converter)


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


def startable_workflow(target: Any) -> WorkflowDefinition:
    """For callers, who must say which of all names a dynamic one is to run as."""
    definition = workflow_definition(target)
    if definition.dynamic:
        raise TypeError(f"{definition.name} is a dynamic workflow: start it by a name of your own")
    return definition


def signal_definition(function: Any) -> HandlerDefinition:
    return _handler_of(function, _SIGNAL, "signal")


def query_definition(function: Any) -> HandlerDefinition:
    return _handler_of(function, _QUERY, "query")


def update_definition(function: Any) -> UpdateDefinition:
    definition: UpdateDefinition | None = getattr(function, _UPDATE, None)
    if definition is None:
        raise TypeError(f"{function!r} is not an update: decorate it with @workflow.update")
    return definition


def _handler_of(function: Any, mark: str, kind: str) -> HandlerDefinition:
    definition: HandlerDefinition | None = getattr(function, mark, None)
    if definition is None:
        raise TypeError(f"{function!r} is not a {kind}: decorate it with @workflow.{kind}")
    if definition.dynamic:
        raise TypeError(f"{function!r} is a dynamic {kind}: call it by a name of your own")
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


def mark_signal(function: _Decorated, name: str | None, **options: Any) -> _Decorated:
    setattr(function, _SIGNAL, handler_definition(function, name, "signal", **options))
    return function


def mark_query(function: _Decorated, name: str | None, **options: Any) -> _Decorated:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.query: {_qualname(function)} must not be async")
    setattr(function, _QUERY, handler_definition(function, name, "query", **options))
    return function


def mark_update(
    function: _Decorated,
    name: str | None,
    unfinished_policy: HandlerUnfinishedPolicy,
    description: str | None,
    *,
    dynamic: bool,
) -> _Decorated:
    """Also gives the function its `validator`, a decorator."""
    if dynamic and name is not None:
        raise TypeError("@workflow.update: a dynamic update has no name")
    define_update(function, name, unfinished_policy, description, dynamic=dynamic)

    def validator(validating: _Decorated) -> _Decorated:
        if inspect.iscoroutinefunction(validating):
            raise TypeError(f"the validator {_qualname(validating)} must not be async")
        if _kinds(validating) != _kinds(function):
            raise TypeError(
                f"the validator {_qualname(validating)} must take what the update "
                f"{_qualname(function)} takes"
            )
        setattr(function, _UPDATE, replace(update_definition(function), validator=validating))
        return validating

    setattr(function, "validator", validator)  # noqa: B010 - functions have no such attribute
    return function


def define_update(
    function: Function,
    name: str | None,
    unfinished_policy: HandlerUnfinishedPolicy,
    description: str | None,
    *,
    dynamic: bool,
) -> None:
    definition = update_handler(function, name, unfinished_policy, description, dynamic=dynamic)
    setattr(function, _UPDATE, definition)


def update_handler(
    function: Function,
    name: str | None,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
    description: str | None = None,
    *,
    dynamic: bool = False,
    skip_first: bool = True,
) -> UpdateDefinition:
    _refuse_keyword_only(function, "update")
    signature = Signature(function, skip_first=skip_first)
    if dynamic and not signature.takes(2):
        raise TypeError(f"dynamic update {_qualname(function)} must take a name and a sequence")
    return UpdateDefinition(
        name=None if dynamic else _checked_name(name or function.__name__),
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
        unfinished_policy=unfinished_policy,
        description=description,
    )


def _kinds(function: Function) -> list[tuple[Any, bool]]:
    """What two functions must have in common to take the same arguments."""
    return [
        (one.kind, one.default is one.empty)
        for one in inspect.signature(function).parameters.values()
    ]


def handler_definition(
    function: Function,
    name: str | None,
    kind: str,
    *,
    free: bool = False,
    dynamic: bool = False,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
    description: str | None = None,
) -> HandlerDefinition:
    """`free`: it does not take the workflow object. Raises TypeError for what cannot be one."""
    _refuse_keyword_only(function, kind)
    signature = Signature(function, skip_first=not free)
    if dynamic and name is not None:
        raise TypeError(f"{kind} {_qualname(function)}: a dynamic handler has no name")
    if dynamic and not signature.takes(2):
        raise TypeError(
            f"dynamic {kind} {_qualname(function)} must take a name and a Sequence[RawValue]"
        )
    known = getattr(function, "__name__", None) or type(function).__name__  # a partial has none
    return HandlerDefinition(
        name=_checked_name(name or known),
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
        dynamic=dynamic,
        free=free,
        unfinished_policy=unfinished_policy,
        description=description,
    )


def find_handler(
    own: HandlerTable,
    added: Mapping[str | None, HandlerDefinition | None] | None,
    name: str | None,
) -> HandlerDefinition | None:
    """The one of exactly that name (None: the dynamic one); what was added hides what is the
    definition's own, even with None."""
    if added is not None and name in added:
        return added[name]
    return own.get(name)


def define_workflow(
    cls: type,
    name: str | None,
    failure_exception_types: Sequence[type[BaseException]],
    *,
    dynamic: bool = False,
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
    signature = Signature(run, skip_first=True)
    if dynamic and name is not None:
        raise TypeError(f"{cls.__qualname__}: a dynamic workflow has no name")
    if dynamic and not signature.takes(1):
        raise TypeError(f"{cls.__qualname__}: a dynamic workflow takes one Sequence[RawValue]")
    definition = WorkflowDefinition(
        name=_checked_name(name or cls.__name__),
        cls=cls,
        run=run,
        signature=signature,
        init_takes_input=init_takes_input,
        signals=_handlers(cls, _SIGNAL, "signal"),
        queries=_handlers(cls, _QUERY, "query"),
        failure_exception_types=tuple(failure_exception_types),
        updates=_updates(cls),
        dynamic=dynamic,
    )
    setattr(cls, _WORKFLOW, definition)
    setattr(run, _WORKFLOW, definition)


def _handlers(cls: type, mark: str, kind: str) -> HandlerTable:
    handlers: dict[str | None, HandlerDefinition] = {}
    for attribute, member in _members(cls):
        definition: HandlerDefinition | None = getattr(member, mark, None)
        if definition is None:
            if any(hasattr(vars(base).get(attribute), mark) for base in cls.__mro__):
                raise TypeError(
                    f"{cls.__qualname__}.{attribute} overrides a {kind}: decorate it too"
                )
            continue
        key = None if definition.dynamic else definition.name
        if key in handlers:
            which = "that are dynamic" if key is None else f"named {key!r}"
            raise TypeError(f"{cls.__qualname__} has two {kind}s {which}")
        handlers[key] = definition
    return handlers


def _updates(cls: type) -> dict[str, UpdateDefinition]:
    handlers: dict[str, UpdateDefinition] = {}
    for attribute, member in _members(cls):
        definition: UpdateDefinition | None = getattr(member, _UPDATE, None)
        if definition is None:
            if any(hasattr(vars(base).get(attribute), _UPDATE) for base in cls.__mro__):
                raise TypeError(
                    f"{cls.__qualname__}.{attribute} overrides an update: decorate it too"
                )
            continue
        name = definition.name or ""
        if name in handlers:
            named = f"two updates named {name!r}" if name else "two dynamic updates"
            raise TypeError(f"{cls.__qualname__} has {named}")
        handlers[name] = definition
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
