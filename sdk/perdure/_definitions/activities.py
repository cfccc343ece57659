"""What @activity.defn leaves behind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, get_args, get_origin

from perdure._definitions.parameters import is_object_of_parameters, values_of_object
from perdure._definitions.signature import (
    Function,
    Signature,
    checked_name,
    qualname,
    refuse_keyword_only,
)
from perdure._payload import Payload
from perdure.common import RawValue
from perdure.converter import PayloadConverter

_ACTIVITY = "__perdure_activity__"

# Names of activities of which this process has seen a version past the first.
VERSIONED_NAMES: set[str] = set()
NO_VERSIONS: Mapping[str, int] = MappingProxyType({})
_VERSION_MAX = 1_000_000


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
    is_pure: bool = False

    def decode(self, payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
        """Raises PayloadDecodeError."""
        if self.is_dynamic:
            return [[RawValue(payload) for payload in payloads]]
        if is_object_of_parameters(payloads):
            return values_of_object(self.signature, payloads[0], converter)
        return self.signature.decode(payloads, converter)

    @staticmethod
    def attach(
        decorated: Function,
        name: str | None,
        *,
        dynamic: bool = False,
        version: int = 1,
        cancel_raises: bool = True,
        pure: bool = False,
    ) -> None:
        """Raises TypeError for what cannot be an activity."""
        target = decorated
        if isinstance(decorated, type):
            target = inspect.getattr_static(decorated, "__call__", None)
            if target is None:
                raise TypeError(f"activity class {decorated.__qualname__} has no __call__ method")
        if not inspect.isfunction(target) or inspect.isasyncgenfunction(target):
            raise TypeError(f"{decorated!r} cannot be an activity: it is not a function")
        refuse_keyword_only(target, "activity")
        if dynamic and name is not None:
            raise TypeError(f"{decorated!r}: a dynamic activity has no name of its own")
        if not 1 <= version <= _VERSION_MAX or (dynamic and version > 1):
            raise TypeError(f"{decorated!r}: a version counts from 1; a dynamic activity has none")
        definition = ActivityDefinition(
            name="" if dynamic else checked_name(name or decorated.__name__),
            function=decorated,
            is_async=inspect.iscoroutinefunction(target),
            signature=Signature(target, skip_first=isinstance(decorated, type)),
            is_dynamic=dynamic,
            version=version,
            cancel_raises=cancel_raises,
            is_pure=pure,
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


def is_activity(target: Any) -> bool:
    """A function, a bound method or an object with `@activity.defn` behind it."""
    return isinstance(getattr(target, _ACTIVITY, None), ActivityDefinition)


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
    # Compared by their parts: typing.Sequence and collections.abc.Sequence are not equal.
    taken = [(get_origin(one), get_args(one)) for one in definition.signature.hints]
    if taken != [(Sequence, (RawValue,))]:
        raise TypeError(
            f"dynamic activity {qualname(definition.function)} must take one parameter, "
            "of type Sequence[perdure.common.RawValue]"
        )
