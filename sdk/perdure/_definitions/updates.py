"""What @workflow.update and its validator leave behind."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from perdure._definitions.handlers import HandlerUnfinishedPolicy
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

_UPDATE = "__perdure_update__"

_Decorated = TypeVar("_Decorated", bound=Function)


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


def update_definition(function: Any) -> UpdateDefinition:
    definition: UpdateDefinition | None = getattr(function, _UPDATE, None)
    if definition is None:
        raise TypeError(f"{function!r} is not an update: decorate it with @workflow.update")
    return definition


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
            raise TypeError(f"the validator {qualname(validating)} must not be async")
        if _kinds(validating) != _kinds(function):
            raise TypeError(
                f"the validator {qualname(validating)} must take what the update "
                f"{qualname(function)} takes"
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
    refuse_keyword_only(function, "update")
    signature = Signature(function, skip_first=skip_first)
    if dynamic and not signature.takes(2):
        raise TypeError(f"dynamic update {qualname(function)} must take a name and a sequence")
    return UpdateDefinition(
        name=None if dynamic else checked_name(name or function.__name__),
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


def update_handlers(cls: type) -> dict[str, UpdateDefinition]:
    handlers: dict[str, UpdateDefinition] = {}
    for attribute, member in members(cls):
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
