"""Values to payloads and back: by type hint, strictly, with errors that name what is wrong."""

import dataclasses
import enum
import math
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import PurePosixPath
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from google.protobuf import struct_pb2, timestamp_pb2

from perdure.common import RawValue
from perdure.converter import (
    CompositePayloadConverter,
    DataConverter,
    EncodingPayloadConverter,
    Payload,
    PayloadConverter,
)
from perdure.errors import PayloadDecodeError, PayloadEncodeError, UnknownEncodingError

T = TypeVar("T")


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    begin: Point
    end: Point | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


class Order(pydantic.BaseModel):
    order_id: str = pydantic.Field(alias="orderId")
    due: datetime
    price: Decimal = Decimal(0)


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    due: datetime


@pydantic.dataclasses.dataclass
class Checked:
    number: int = pydantic.Field(ge=0)


class Record(msgspec.Struct):
    name: str
    tags: set[str] = msgspec.field(default_factory=set)


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Ratio(enum.Enum):
    HALF = 0.5


class Address(TypedDict, total=False):
    street: str
    number: int


class Pair(NamedTuple):
    left: int
    right: str


@dataclasses.dataclass
class Mixed:
    order: Order
    orders: list[Strict]


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Node:
    value: int
    next: "Node | None" = None


class Required(TypedDict):
    a: int
    b: NotRequired[str]


@attrs.define
class Made:
    number: int
    id: UUID | None = None


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


UserId = NewType("UserId", int)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ORDER = Order(orderId="o-1", due=NOW, price=Decimal("1.50"))
STRICT = Strict(due=NOW)

ROUND_TRIPS: list[tuple[Any, Any]] = [
    (None, type(None)),
    (None, Any),
    (b"\x00\xff", bytes),
    (b"\x00\xff", Any),
    (b"", bytes | None),
    (bytearray(b"ab"), bytearray),
    (7, int),
    (-(2**100), int),
    (1.5, float),
    (3, float),
    (True, bool),
    ("grüße 🦜 null", str),
    (Decimal("1.10"), Decimal),
    ([1, None, "x"], Any),
    ({"a": [1.5]}, Any),
    ({1: "one"}, dict[int, str]),
    ((1, "x"), tuple[int, str]),
    ({1, 2}, set[int]),
    ([1, 2], Sequence[int]),
    (Point(1, 2), Point),
    (Line(Point(1), Point(2, 3)), Line),
    ([Line(Point(1))], list[Line]),
    (Box(Point(1)), Box[Point]),
    (Point(1), Point | None),
    (NOW, datetime),
    (date(2026, 1, 2), date),
    (timedelta(days=1, microseconds=1), timedelta),
    (UUID(int=5), UUID),
    (Colour.RED, Colour),
    (Level.LOW, Level),
    (Ratio.HALF, Ratio),
    ("a", Literal["a", "b"]),
    (3, Annotated[int, msgspec.Meta(ge=1)]),
    (3, Annotated[int, ["unhashable"]]),
    (Address(street="here"), Address),
    (Pair(1, "x"), Pair),
    (Record("a", {"t"}), Record),
    ([Circle(1.0), Square(2.0)], list[Circle | Square]),
    (ORDER, Order),
    ([ORDER], list[Order]),
    (ORDER, Order | None),
    (STRICT, Strict),
    (Checked(3), Checked),
    (Mixed(ORDER, [STRICT]), Mixed),
    (Point(1), Point | Line),
    (Level.LOW, Annotated[Level, "doc"]),
    (Right.READ | Right.WRITE, Right),
    ({UUID(int=1): Point(1)}, dict[UUID, Point]),
    ({Colour.RED: 1}, dict[Colour, int]),
    (time(1, 2, 3), time),
    (datetime(2026, 1, 2), datetime),
    (frozenset({1}), frozenset[int]),
    ((1, 2, 3), tuple[int, ...]),
    (deque([1, 2]), deque),
    (deque([1, 2]), deque[int]),
    ([1, 2], Iterable[int]),
    (PurePosixPath("/a/b"), PurePosixPath),
    ([ip_address("127.0.0.1"), ip_address("::1")], list[IPv4Address | IPv6Address]),
    (Node(1, Node(2)), Node),
    (UserId(7), UserId),
    (Required(a=1), Required),
    (Made(1, UUID(int=1)), Made),
    ([Made(1)], list[Made]),
    (Made(1), Made | None),
    ((Made(1), ORDER, Record("r")), tuple[Made, Order, Record]),
    (Page[int](items=[1]), Page[int]),
    ({"a": [ORDER]}, dict[str, list[Order]]),
]


@pytest.fixture
def converter() -> PayloadConverter:
    return PayloadConverter()


@pytest.mark.parametrize(("value", "hint"), ROUND_TRIPS, ids=[str(h) for _, h in ROUND_TRIPS])
def test_round_trips(converter: PayloadConverter, value: Any, hint: Any) -> None:
    for _ in range(2):  # the second time by what the first has cached
        payload = converter.to_payload(value)
        back = converter.from_payload(payload, hint)
        assert back == value
        assert type(back) is type(value) or hint is float


@pytest.mark.parametrize(
    ("value", "encoding", "data"),
    [
        (None, "binary/null", b""),
        (b"raw", "binary/plain", b"raw"),
        ({"ä": 1}, "json/plain", '{"ä":1}'.encode()),
        (Point(1), "json/plain", b'{"x":1,"y":0}'),
        (
            ORDER,
            "json/plain",
            b'{"orderId":"o-1","due":"2026-01-02T03:04:05.678901Z","price":"1.50"}',
        ),
    ],
)
def test_what_travels(converter: PayloadConverter, value: Any, encoding: str, data: bytes) -> None:
    assert converter.to_payload(value) == Payload(encoding, data)


def test_protobuf_messages_travel_as_json_with_their_name(converter: PayloadConverter) -> None:
    message = timestamp_pb2.Timestamp(seconds=5)
    payload = converter.to_payload(message)

    assert payload.encoding == "json/protobuf"
    assert payload.metadata == {"messageType": b"google.protobuf.Timestamp"}
    assert converter.from_payload(payload, timestamp_pb2.Timestamp) == message
    with pytest.raises(PayloadDecodeError, match="as the hint says how to read it"):
        converter.from_payload(payload)  # no class is looked up by the name in a payload
    with pytest.raises(PayloadDecodeError, match=r"it holds a google\.protobuf\.Timestamp"):
        converter.from_payload(payload, struct_pb2.Struct)
    with pytest.raises(PayloadDecodeError, match="cannot be decoded"):
        converter.from_payload(Payload("json/protobuf", b"{"), timestamp_pb2.Timestamp)


class Plain:
    pass


NOT_ENCODABLE: list[tuple[Any, str]] = [
    (math.nan, "nan has no JSON form"),
    ([1, {"deep": math.inf}], "inf has no JSON form"),
    (Point(-math.inf), "-inf has no JSON form"),  # type: ignore[arg-type]
    (pydantic.RootModel[list[float]]([math.nan]), "nan has no JSON form"),
    (Plain(), "make it a dataclass or a model"),
    ([Plain()], "make it a dataclass or a model"),
    (lambda: None, "function"),
    ({(1, 2): 3}, "tuple has no JSON form"),
    ("\ud800", "surrogates"),
]


@pytest.mark.parametrize(
    ("value", "said"), NOT_ENCODABLE, ids=[str(n) for n in range(len(NOT_ENCODABLE))]
)
def test_what_cannot_be_encoded(converter: PayloadConverter, value: Any, said: str) -> None:
    with pytest.raises(PayloadEncodeError, match=r"a value of type .* cannot be encoded") as caught:
        converter.to_payload(value)
    assert said in str(caught.value)


def test_a_list_that_contains_itself_cannot_be_encoded(converter: PayloadConverter) -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(PayloadEncodeError):
        converter.to_payload(ring)


NOT_DECODABLE: list[tuple[bytes, Any, str]] = [
    (b'"x"', int, "as builtins.int"),
    (b"NaN", float, "as builtins.float"),
    (b'[{"value":Infinity}]', Any, ""),
    (b'"\xff"', str, "UTF-8"),
    (b"{", Any, ""),
    (b"[" * 100_000, Any, ""),
    (b'{"y":1}', Point, "`x`"),
    (b'{"x":"1"}', Point, "$.x"),
    (b'"blue"', Colour, "blue"),
    (b'{"orderId":1}', Order, "due"),
    (b'{"number":-1}', Checked, "number"),
    (b"{}", Plain, "Plain"),
    (b"{}", Callable[[], None], ""),
    (b"1", Plain | int, ""),
    (b"{}", Point | Record, ""),
    (b"[NaN]", list[Strict], ""),
    (b'{"order":{},"orders":[]}', Mixed, "order"),
    (b'{"number":1}', Made | Point, "Type unions may not contain more than one"),
    (b'{"number":"x"}', Made, "$.number"),
    (b'"nowhere"', IPv4Address, "nowhere"),
    (b"1", PurePosixPath, "str"),
    (b'{"card":"4111"}', Order, "due: Field required"),
]


@pytest.mark.parametrize(("data", "hint", "said"), NOT_DECODABLE)
def test_what_cannot_be_decoded(
    converter: PayloadConverter, data: bytes, hint: Any, said: str
) -> None:
    with pytest.raises(PayloadDecodeError, match="a json/plain payload cannot be decoded") as e:
        converter.from_payload(Payload("json/plain", data), hint)
    assert said in str(e.value)


def test_bytes_are_not_anything_else(converter: PayloadConverter) -> None:
    with pytest.raises(PayloadDecodeError, match="only bytes can be read from it"):
        converter.from_payload(Payload("binary/plain", b"1"), int)


def test_an_unknown_encoding_is_named(converter: PayloadConverter) -> None:
    with pytest.raises(UnknownEncodingError, match="'binary/encrypted' is not known") as caught:
        converter.from_payload(Payload("binary/encrypted", b""))
    assert caught.value.encoding == "binary/encrypted"


def test_lists_of_payloads_are_decoded_hint_by_hint(converter: PayloadConverter) -> None:
    payloads = converter.to_payloads([Point(1), Point(2), 3])

    assert converter.from_payloads(payloads, [Point]) == [Point(1), {"x": 2, "y": 0}, 3]
    assert converter.from_payloads([], [Point]) == []


def test_non_finite_numbers_are_texts_where_the_model_says_so(converter: PayloadConverter) -> None:
    class Lax(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(ser_json_inf_nan="strings")
        number: float
        nothing: None = None

    payload = converter.to_payload(Lax(number=math.inf))
    assert payload.data == b'{"number":"Infinity","nothing":null}'

    class Constants(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(ser_json_inf_nan="constants")
        number: float

    with pytest.raises(PayloadEncodeError):
        converter.to_payload(Constants(number=math.nan))


def test_an_error_of_pydantic_does_not_quote_the_input(converter: PayloadConverter) -> None:
    """reliability 68: what the user encrypts must not stand in a failure's text instead."""
    payload = Payload("json/plain", b'{"orderId":"4111","due":"on 4222"}')
    with pytest.raises(PayloadDecodeError, match="due: Input should be a valid datetime") as caught:
        converter.from_payload(payload, Order)
    told = f"{caught.value} {caught.value.__cause__}"
    assert "4111" not in told
    assert "4222" not in told


class Rot13(EncodingPayloadConverter):
    """Texts only, backwards."""

    @property
    def encoding(self) -> str:
        return "text/backwards"

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(self.encoding, value[::-1].encode()) if isinstance(value, str) else None

    def from_payload(self, payload: Payload, type_hint: Any = None) -> Any:
        if type_hint not in (str, None):
            raise TypeError("only texts")
        return payload.data.decode()[::-1]


class Backwards(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(Rot13())


class Greedy(Rot13):
    def to_payload(self, value: Any) -> Payload | None:
        return Payload(self.encoding, repr(value).encode())


def test_a_raw_value_travels_as_it_is_whatever_a_composite_would_take() -> None:
    composite = CompositePayloadConverter(Greedy())
    payload = Payload("text/backwards", b"cba")

    assert composite.to_payload(RawValue(payload)) is payload
    assert composite.from_payload(payload, RawValue) == RawValue(payload)


def test_a_composite_asks_its_own_converters_first() -> None:
    composite = DataConverter(payload_converter_class=Backwards).payload_converter

    first, second = composite.to_payloads(["abc", Point(1)])

    assert first == Payload("text/backwards", b"cba")
    assert second.encoding == "json/plain"
    assert composite.from_payloads([first, second], [str, Point]) == ["abc", Point(1)]
    assert composite.from_payload(first) == "abc"
    with pytest.raises(
        PayloadDecodeError, match=r"a text/backwards payload cannot be .* only texts"
    ):
        composite.from_payload(first, int)


def test_converters_of_one_class_are_not_shared_between_data_converters() -> None:
    one, other = DataConverter(), DataConverter()

    assert one.payload_converter is not other.payload_converter
    assert DataConverter.default.payload_codec is None


def test_the_empty_metadata_is_shared(converter: PayloadConverter) -> None:
    first, second = converter.to_payloads([1, 2])

    assert first.metadata is second.metadata
    assert DataConverter.default.payload_converter.to_payload(1) == first


def test_neither_pydantic_nor_protobuf_is_imported_for_plain_values() -> None:
    code = (
        "import sys\n"
        "from dataclasses import dataclass\n"
        "from perdure.converter import PayloadConverter\n"
        "@dataclass\n"
        "class P:\n"
        "    x: int\n"
        "c = PayloadConverter()\n"
        "assert c.from_payload(c.to_payload(P(1)), P) == P(1)\n"
        "print([m for m in ('pydantic', 'google.protobuf') if m in sys.modules])\n"
    )
    path = ":".join(one for one in sys.path if one)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout == "[]\n"
