"""Arguments by name: an input that is one JSON object of named parameters.

REST and the command line know names, not positions, and mark what they make of them (`MARK`). The
function decides what becomes of it: each parameter gets its value, unless there is one parameter
only that wants an object as a whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from perdure._definitions.signature import Signature
from perdure._payload import NO_METADATA, Payload
from perdure.common import RawValue
from perdure.converter import PayloadConverter
from perdure.errors import PayloadDecodeError

MARK = ("parameters", b"object")
"""A payload's metadata, by name and value."""

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def object_of_parameters(payload: Payload) -> Payload:
    """The same JSON object, marked as one of named parameters."""
    return Payload(payload.encoding, payload.data, {MARK[0]: MARK[1]})


def is_object_of_parameters(payloads: Sequence[Payload]) -> bool:
    if len(payloads) != 1 or payloads[0].metadata is NO_METADATA:
        return False
    return payloads[0].metadata.get(MARK[0]) == MARK[1]


def values_of_object(
    signature: Signature, payload: Payload, converter: PayloadConverter
) -> list[Any]:
    """A value for each positional parameter; its default where the object has none.

    Raises PayloadDecodeError for a parameter that is missing or not there, too.
    """
    if len(signature.named) == 1 and takes_object(signature.hints[0]):
        return [converter.from_payload(payload, signature.hints[0])]
    try:
        given = _split(payload.data)
    except msgspec.DecodeError as error:
        raise PayloadDecodeError(f"parameters that are no JSON object: {error}") from error
    name = getattr(signature.function, "__qualname__", repr(signature.function))
    values: list[Any] = []
    for parameter, hint in zip(signature.named, signature.hints, strict=True):
        raw = given.pop(parameter.name, None)
        if raw is not None:
            values.append(_decoded(raw, hint, converter, f"parameter {parameter.name} of {name}"))
        elif parameter.default is Parameter.empty:
            raise PayloadDecodeError(f"{name} needs the parameter {parameter.name!r}")
        else:
            values.append(parameter.default)
    if given:
        known = ", ".join(one.name for one in signature.named) or "none"
        raise PayloadDecodeError(f"{name} has no parameter {min(given)!r}; it has: {known}")
    return values


def _decoded(raw: msgspec.Raw, hint: Any, converter: PayloadConverter, place: str) -> Any:
    try:
        return converter.from_payload(Payload("json/plain", bytes(raw)), hint)
    except PayloadDecodeError as error:
        raise error.at(place) from error.__cause__


def takes_object(hint: Any) -> bool:
    """Can a value of the hint be a JSON object as a whole? With no hint, yes."""
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return True
    origin = get_origin(hint)
    if origin is Annotated:
        return takes_object(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(takes_object(one) for one in get_args(hint) if one is not NoneType)
    kind = origin or hint
    return isinstance(kind, type) and _is_object(kind)


def _is_object(kind: type[Any]) -> bool:
    of_object = (Mapping, msgspec.Struct, RawValue)
    if dataclasses.is_dataclass(kind) or issubclass(kind, of_object):
        return True
    # models of pydantic and classes of attrs, neither of which need be installed
    return any(name in dir(kind) for name in ("__pydantic_validator__", "__attrs_attrs__"))
