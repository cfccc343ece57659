"""Parameters and result of a function, and what a function of the user's must be like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, get_type_hints

from perdure._payload import Payload
from perdure.converter import PayloadConverter
from perdure.errors import PayloadDecodeError

Function = Callable[..., Any]


class Signature:
    """The positional parameters and the result of a function, as converters need them."""

    def __init__(self, function: Function, *, skip_first: bool = False) -> None:
        self.function = function
        self._skip = 1 if skip_first else 0

    @cached_property
    def hints(self) -> tuple[Any, ...]:
        """One for each positional parameter that has a name; Any where there is no hint."""
        return tuple(self._resolved.get(one.name, Any) for one in self.named)

    @cached_property
    def result(self) -> Any:
        return self._resolved.get("return", Any)

    @cached_property
    def arity(self) -> tuple[int, int | None]:
        """The fewest and the most arguments; None is any number."""
        least = sum(1 for one in self.named if one.default is one.empty)
        open_ended = any(one.kind is one.VAR_POSITIONAL for one in self._parameters)
        return least, None if open_ended else len(self.named)

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
            named = f" ({self.named[index].name})" if index < len(self.named) else ""
            try:
                converter.from_payloads([payload], self.hints[index : index + 1])
            except PayloadDecodeError:
                return f"argument {index + 1}{named} of {name}"
        return f"the arguments of {name}"

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())[self._skip :]

    @cached_property
    def named(self) -> list[inspect.Parameter]:
        """The positional parameters that have a name."""
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


def members(cls: type) -> Iterator[tuple[str, Any]]:
    for attribute in dir(cls):
        yield attribute, inspect.getattr_static(cls, attribute, None)


def refuse_keyword_only(function: Function, kind: str) -> None:
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty:
            raise TypeError(
                f"{kind} {qualname(function)}: arguments travel by position, "
                f"so {one.name!r} must not be keyword-only"
            )


def checked_name(name: str) -> str:
    if name.startswith("__"):
        raise TypeError(f"{name!r}: names that begin with __ are the engine's own")
    return name


def qualname(function: Function) -> str:
    return str(getattr(function, "__qualname__", function))
