"""What @workflow.signal and @workflow.query leave behind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar

from perdure._definitions.signature import (
    Function,
    Signature,
    checked_name,
    members,
    qualname,
    refuse_keyword_only,
)
from perdure._payload import Payload
from perdure.common import RawValue
from perdure.converter import PayloadConverter

_SIGNAL = "__perdure_signal__"
_QUERY = "__perdure_query__"

_Decorated = TypeVar("_Decorated", bound=Function)


class HandlerUnfinishedPolicy(IntEnum):
    """What a run does that ends while the handler runs: cut it off with a warning, or without."""

    WARN_AND_ABANDON = 1
    ABANDON = 2


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


def signal_definition(function: Any) -> HandlerDefinition:
    return _handler_of(function, _SIGNAL, "signal")


def query_definition(function: Any) -> HandlerDefinition:
    return _handler_of(function, _QUERY, "query")


def _handler_of(function: Any, mark: str, kind: str) -> HandlerDefinition:
    definition: HandlerDefinition | None = getattr(function, mark, None)
    if definition is None:
        raise TypeError(f"{function!r} is not a {kind}: decorate it with @workflow.{kind}")
    if definition.dynamic:
        raise TypeError(f"{function!r} is a dynamic {kind}: call it by a name of your own")
    return definition


def mark_signal(function: _Decorated, name: str | None, **options: Any) -> _Decorated:
    setattr(function, _SIGNAL, handler_definition(function, name, "signal", **options))
    return function


def mark_query(function: _Decorated, name: str | None, **options: Any) -> _Decorated:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"@workflow.query: {qualname(function)} must not be async")
    setattr(function, _QUERY, handler_definition(function, name, "query", **options))
    return function


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
    refuse_keyword_only(function, kind)
    signature = Signature(function, skip_first=not free)
    if dynamic and name is not None:
        raise TypeError(f"{kind} {qualname(function)}: a dynamic handler has no name")
    if dynamic and not signature.takes(2):
        raise TypeError(
            f"dynamic {kind} {qualname(function)} must take a name and a Sequence[RawValue]"
        )
    known = getattr(function, "__name__", None) or type(function).__name__  # a partial has none
    return HandlerDefinition(
        name=checked_name(name or known),
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


def signal_handlers(cls: type) -> HandlerTable:
    """Raises TypeError for two of a name, and for one overridden without the decorator."""
    return _handlers(cls, _SIGNAL, "signal")


def query_handlers(cls: type) -> HandlerTable:
    """As `signal_handlers`."""
    return _handlers(cls, _QUERY, "query")


def _handlers(cls: type, mark: str, kind: str) -> HandlerTable:
    handlers: dict[str | None, HandlerDefinition] = {}
    for attribute, member in members(cls):
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
