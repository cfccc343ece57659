"""How Python values travel to the database and back.

Arrays are list subclasses with a fixed OID and our own packer. psycopg's list dumper chooses int2,
int4 or int8 by value and sends an empty list as untyped text: another prepared statement for each
combination, and twice the CPU (FLOOR.md, statement.md §4). Ids are 16 bytes, instants int µs since
1970; uuid.UUID and datetime objects would be made for each value and thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar, Final

from psycopg import pq
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.types.numeric import Int2, Int4, Int8

__all__ = [
    "LAST_US",
    "Blobs",
    "Bools",
    "Column",
    "Instant",
    "Instants",
    "Int2",
    "Int2s",
    "Int4",
    "Int4s",
    "Int8",
    "Int8s",
    "Texts",
    "Uuid",
    "Uuids",
    "register",
]

# 9999-12-31: later than any time, and an instant that both databases can hold.
LAST_US: Final = 253_402_214_400_000_000
POSTGRES_EPOCH_US = 946_684_800_000_000  # 2000-01-01, from which timestamptz counts

NUMBERS_AT_ONCE = 128  # the larger, the larger are the packers that are kept
FEW_NUMBERS = 8

UUID_OID = 2950
TIMESTAMPTZ_OID = 1184

_length = Struct("!i").pack
_int2 = Struct("!ih").pack
_int4 = Struct("!ii").pack
_int8 = Struct("!iq").pack
_instant = Struct("!q").pack
_instant_back = Struct("!q").unpack
_NULL = _length(-1)
_SIXTEEN = _length(16)
_TRUE = _length(1) + b"\x01"
_FALSE = _length(1) + b"\x00"
# dimensions, has nulls, element OID, length, lower bound
_array_head = Struct("!iiiii").pack
_empty_array = Struct("!iii").pack


class Uuid(bytes):
    """16 bytes as a uuid parameter."""


class Instant(int):
    """µs since 1970 as a timestamptz parameter."""


class Column(list[object]):
    """The values of one column of a batch, in row order; each subclass is one array type."""


class Int2s(Column): ...


class Int4s(Column): ...


class Int8s(Column): ...


class Uuids(Column): ...


class Texts(Column): ...


class Blobs(Column): ...


class Bools(Column): ...


class Instants(Column):
    """None is null: the nullable columns of a batch are times."""


class _UuidDumper(Dumper):
    format = pq.Format.BINARY
    oid = UUID_OID

    def dump(self, obj: Uuid) -> Buffer:
        return obj


class _InstantDumper(Dumper):
    format = pq.Format.BINARY
    oid = TIMESTAMPTZ_OID

    def dump(self, obj: Instant) -> Buffer:
        return _instant(obj - POSTGRES_EPOCH_US)


class _ColumnDumper(Dumper):
    """An array: its head, and each value behind its length. On an idle system most columns have one value or none."""

    format = pq.Format.BINARY
    element_oid: ClassVar[int]
    head_of_one: ClassVar[bytes]
    empty: ClassVar[bytes]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "element_oid"):
            cls.head_of_one = _array_head(1, 0, cls.element_oid, 1, 1)
            cls.empty = _empty_array(0, 0, cls.element_oid)

    def dump(self, obj: list[object]) -> Buffer:
        if not obj:
            return self.empty
        first = obj[0]
        if len(obj) == 1 and first is not None:
            return self.head_of_one + self.one(first)
        if obj[-1] == first and obj.count(first) == len(obj):  # a namespace, a queue, …
            value = _NULL if first is None else self.one(first)
            return _array_head(1, first is None, self.element_oid, len(obj), 1) + value * len(obj)
        if None not in obj:
            return _array_head(1, 0, self.element_oid, len(obj), 1) + self.packed(obj)
        values = [_NULL if value is None else self.one(value) for value in obj]
        return _array_head(1, 1, self.element_oid, len(obj), 1) + b"".join(values)

    def one(self, value: Any) -> bytes:
        """A value behind its length."""
        raise NotImplementedError

    def packed(self, values: list[Any]) -> bytes:
        return b"".join([self.one(value) for value in values])


class _Int2sDumper(_ColumnDumper):
    oid = 1005
    element_oid = 21

    def one(self, value: Any) -> bytes:
        return _int2(2, value)

    def packed(self, values: list[Any]) -> bytes:
        return _numbers(_int2, "h", 2, values)


class _Int4sDumper(_ColumnDumper):
    oid = 1007
    element_oid = 23

    def one(self, value: Any) -> bytes:
        return _int4(4, value)

    def packed(self, values: list[Any]) -> bytes:
        return _numbers(_int4, "i", 4, values)


class _Int8sDumper(_ColumnDumper):
    oid = 1016
    element_oid = 20

    def one(self, value: Any) -> bytes:
        return _int8(8, value)

    def packed(self, values: list[Any]) -> bytes:
        return _numbers(_int8, "q", 8, values)


def _numbers(one: Callable[[int, int], bytes], code: str, size: int, values: list[int]) -> bytes:
    """One call of `struct` for many numbers: half the time of one for each."""
    if len(values) < FEW_NUMBERS:
        return b"".join([one(size, value) for value in values])
    if len(values) > NUMBERS_AT_ONCE:
        parts = [values[at : at + NUMBERS_AT_ONCE] for at in range(0, len(values), NUMBERS_AT_ONCE)]
        return b"".join([_numbers(one, code, size, part) for part in parts])
    lengths_and_values = [size] * (2 * len(values))
    lengths_and_values[1::2] = values
    return _packer(code, len(values))(*lengths_and_values)


@lru_cache(maxsize=3 * NUMBERS_AT_ONCE)
def _packer(code: str, count: int) -> Callable[..., bytes]:
    return Struct("!" + f"i{code}" * count).pack


class _UuidsDumper(_ColumnDumper):
    oid = 2951
    element_oid = UUID_OID

    def one(self, value: Any) -> bytes:
        return _SIXTEEN + bytes(value)

    def packed(self, values: list[Any]) -> bytes:
        return _SIXTEEN.join([b"", *values])


class _BlobsDumper(_ColumnDumper):
    oid = 1001
    element_oid = 17

    def one(self, value: Any) -> bytes:
        return _length(len(value)) + bytes(value)

    def packed(self, values: list[Any]) -> bytes:
        return b"".join([_length(len(value)) + value for value in values])


class _TextsDumper(_ColumnDumper):
    oid = 1009
    element_oid = 25

    def one(self, value: Any) -> bytes:
        raw: bytes = value.encode()
        return _length(len(raw)) + raw


class _BoolsDumper(_ColumnDumper):
    oid = 1000
    element_oid = 16

    def one(self, value: Any) -> bytes:
        return _TRUE if value else _FALSE


class _InstantsDumper(_ColumnDumper):
    oid = 1185
    element_oid = TIMESTAMPTZ_OID

    def one(self, value: Any) -> bytes:
        return _int8(8, value - POSTGRES_EPOCH_US)

    def packed(self, values: list[Any]) -> bytes:
        return _numbers(_int8, "q", 8, [value - POSTGRES_EPOCH_US for value in values])


class _UuidLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class _InstantLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> int:
        (since,) = _instant_back(data)
        return int(since) + POSTGRES_EPOCH_US


_DUMPERS: tuple[tuple[type, type[Dumper]], ...] = (
    (Uuid, _UuidDumper),
    (Instant, _InstantDumper),
    (Int2s, _Int2sDumper),
    (Int4s, _Int4sDumper),
    (Int8s, _Int8sDumper),
    (Uuids, _UuidsDumper),
    (Texts, _TextsDumper),
    (Blobs, _BlobsDumper),
    (Bools, _BoolsDumper),
    (Instants, _InstantsDumper),
)


def register(context: AdaptContext) -> None:
    """Teach a connection our parameter types, and to return ids as bytes and instants as µs."""
    assert context.adapters is not None
    for type_, dumper in _DUMPERS:
        context.adapters.register_dumper(type_, dumper)
    context.adapters.register_loader(UUID_OID, _UuidLoader)
    context.adapters.register_loader(TIMESTAMPTZ_OID, _InstantLoader)
