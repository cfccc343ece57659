"""Inputs that are one JSON object of named parameters: what each kind of function makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from perdure import job
from perdure._definitions import activity_definition
from perdure._definitions.parameters import object_of_parameters
from perdure.common import RawValue
from perdure.converter import Payload, PayloadConverter
from perdure.errors import PayloadDecodeError

CONVERTER = PayloadConverter.default


@dataclass
class Mail:
    to: str
    copies: int = 1


class Model(pydantic.BaseModel):
    to: str


class Typed(TypedDict):
    to: str


@attrs.define
class Attrs:
    to: str


class Plain(msgspec.Struct):
    to: str


@job.defn
def none() -> None: ...


@job.defn
def two(to: str, copies: int = 7) -> None: ...


@job.defn
def nested(mail: Mail, tags: list[str] | None = None) -> None: ...


@job.defn
def unhinted(whatever) -> None: ...  # type: ignore[no-untyped-def]  # that is the case


@job.defn
def anything(whatever: Any) -> None: ...


@job.defn
def mapping(mail: Mapping[str, Any]) -> None: ...


@job.defn
def plain_dict(mail: dict[str, int]) -> None: ...


@job.defn
def maybe_dict(mail: dict[str, int] | None = None) -> None: ...


@job.defn
def annotated(mail: Annotated[Mail, "checked"]) -> None: ...


@job.defn
def of_dataclass(mail: Mail) -> None: ...


@job.defn
def of_model(mail: Model) -> None: ...


@job.defn
def of_typed_dict(mail: Typed) -> None: ...


@job.defn
def of_attrs(mail: Attrs) -> None: ...


@job.defn
def of_struct(mail: Plain) -> None: ...


@job.defn
def raw(mail: RawValue) -> None: ...


@job.defn
def number(count: int) -> None: ...


@job.defn
def maybe_number(count: int = 5) -> None: ...


@job.defn(dynamic=True)
def dynamic(args: Sequence[RawValue]) -> None: ...


class Post:
    @job.defn
    def send(self, to: str, copies: int) -> None: ...


def read(function: Any, given: Any) -> list[Any]:
    payload = object_of_parameters(CONVERTER.to_payload(given))
    return activity_definition(function).decode([payload], CONVERTER)


@pytest.mark.parametrize(
    ("function", "given", "values"),
    [
        (none, {}, []),
        (two, {"to": "ada", "copies": 2}, ["ada", 2]),
        (two, {"copies": 2, "to": "ada"}, ["ada", 2]),
        (two, {"to": "ada"}, ["ada", 7]),
        (nested, {"mail": {"to": "ada"}, "tags": ["a"]}, [Mail("ada"), ["a"]]),
        (nested, {"mail": {"to": "ada"}, "tags": None}, [Mail("ada"), None]),
        (Post().send, {"to": "ada", "copies": 2}, ["ada", 2]),
        # one parameter that wants the object as a whole
        (unhinted, {"to": "ada"}, [{"to": "ada"}]),
        (anything, {"to": "ada"}, [{"to": "ada"}]),
        (mapping, {"to": "ada"}, [{"to": "ada"}]),
        (plain_dict, {"to": 5}, [{"to": 5}]),
        (maybe_dict, {"to": 5}, [{"to": 5}]),
        (annotated, {"to": "ada"}, [Mail("ada")]),
        (of_dataclass, {"to": "ada", "copies": 3}, [Mail("ada", 3)]),
        (of_model, {"to": "ada"}, [Model(to="ada")]),
        (of_typed_dict, {"to": "ada"}, [{"to": "ada"}]),
        (of_attrs, {"to": "ada"}, [Attrs("ada")]),
        (of_struct, {"to": "ada"}, [Plain("ada")]),
        # also when an object has the parameter's name for its only key
        (mapping, {"mail": {"to": "ada"}}, [{"mail": {"to": "ada"}}]),
        # one parameter that wants something else
        (number, {"count": 3}, [3]),
        (maybe_number, {"count": 3}, [3]),
        (maybe_number, {}, [5]),
    ],
)
def test_what_a_function_is_called_with(function: Any, given: Any, values: list[Any]) -> None:
    assert read(function, given) == values


def test_code_that_wants_the_payload_gets_it() -> None:
    payload = object_of_parameters(CONVERTER.to_payload({"to": "ada"}))

    assert read(raw, {"to": "ada"}) == [RawValue(payload)]
    assert read(dynamic, {"to": "ada"}) == [[RawValue(payload)]]


@pytest.mark.parametrize(
    ("function", "given", "told"),
    [
        (none, {"to": "ada"}, "none has no parameter 'to'; it has: none"),
        (two, {"copies": 2}, "two needs the parameter 'to'"),
        (two, {"to": "ada", "bcc": "x"}, "two has no parameter 'bcc'; it has: to, copies"),
        (two, {"to": 5}, "parameter to of two"),
        (number, {"amount": 3}, "number needs the parameter 'count'"),
        (number, {"count": 3, "more": 4}, "has no parameter 'more'"),
        (of_dataclass, {"copies": 3}, "`to`"),
        (two, ["ada"], "no JSON object"),
        (two, "ada", "no JSON object"),
    ],
)
def test_what_does_not_fit(function: Any, given: Any, told: str) -> None:
    with pytest.raises(PayloadDecodeError, match=told.replace("'", "['\"]?")):
        read(function, given)


def test_only_what_is_marked_is_taken_apart() -> None:
    """An argument list of one object is what it always was."""
    plain = CONVERTER.to_payload({"to": "ada", "copies": 2})

    with pytest.raises(PayloadDecodeError, match="cannot be decoded as"):
        activity_definition(two).decode([plain], CONVERTER)
    other = Payload(plain.encoding, plain.data, {"parameters": b"array"})
    with pytest.raises(PayloadDecodeError):
        activity_definition(two).decode([other], CONVERTER)
    marked = object_of_parameters(plain)
    with pytest.raises(PayloadDecodeError):
        activity_definition(two).decode([marked, marked], CONVERTER)


def test_the_mark_travels_and_the_value_stays_readable() -> None:
    payload = object_of_parameters(CONVERTER.to_payload({"to": "ada"}))

    assert payload.metadata == {"parameters": b"object"}
    assert json.loads(payload.data) == {"to": "ada"}
    assert CONVERTER.from_payload(payload) == {"to": "ada"}
