"""How Python values travel to the database and back.

Arrays are list subclasses with a fixed OID and our own packer. psycopg's list dumper chooses int2,
int4 or int8 by value and sends an empty list as untyped text: another prepared statement for each
combination, and twice the CPU (FLOOR.md, statement.md §4). Ids are 16 bytes, instants int µs since
1970; uuid.UUID and datetime objects would be made for each value and thrown away.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar

from psycopg import pq
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.types.numeric import Int2, Int4, Int8

__all__ = [
    "Blobs",
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

POSTGRES_EPOCH_US = 946_684_800_000_000  # 2000-01-01, from which timestamptz counts

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


class Instants(Column):
    """None is null: the one nullable column of a batch is a close time."""


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
    format = pq.Format.BINARY
    element_oid: ClassVar[int]

    def dump(self, obj: list[object]) -> Buffer:
        if not obj:
            return _empty_array(0, 0, self.element_oid)
        head = _array_head(1, None in obj, self.element_oid, len(obj), 1)
        return head + b"".join(self.elements(obj))

    def elements(self, values: list[Any]) -> list[bytes]:
        raise NotImplementedError


class _Int2sDumper(_ColumnDumper):
    oid = 1005
    element_oid = 21

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_int2(2, value) for value in values]


class _Int4sDumper(_ColumnDumper):
    oid = 1007
    element_oid = 23

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_int4(4, value) for value in values]


class _Int8sDumper(_ColumnDumper):
    oid = 1016
    element_oid = 20

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_int8(8, value) for value in values]


class _UuidsDumper(_ColumnDumper):
    oid = 2951
    element_oid = UUID_OID

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_SIXTEEN + value for value in values]


class _BlobsDumper(_ColumnDumper):
    oid = 1001
    element_oid = 17

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_length(len(value)) + value for value in values]


class _TextsDumper(_ColumnDumper):
    oid = 1009
    element_oid = 25

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_length(len(raw := value.encode())) + raw for value in values]


class _InstantsDumper(_ColumnDumper):
    oid = 1185
    element_oid = TIMESTAMPTZ_OID

    def elements(self, values: list[Any]) -> list[bytes]:
        return [_NULL if value is None else _int8(8, value - POSTGRES_EPOCH_US) for value in values]


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
    (Instants, _InstantsDumper),
)


def register(context: AdaptContext) -> None:
    """Teach a connection our parameter types, and to return ids as bytes and instants as µs."""
    assert context.adapters is not None
    for type_, dumper in _DUMPERS:
        context.adapters.register_dumper(type_, dumper)
    context.adapters.register_loader(UUID_OID, _UuidLoader)
    context.adapters.register_loader(TIMESTAMPTZ_OID, _InstantLoader)
