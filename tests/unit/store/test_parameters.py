"""The packers of array parameters against PostgreSQL's binary format, value by value."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from psycopg.adapt import Transformer

from perdure_engine.store.sql import parameters
from perdure_engine.store.sql.parameters import (
    FEW_NUMBERS,
    NUMBERS_AT_ONCE,
    POSTGRES_EPOCH_US,
    Blobs,
    Bools,
    Column,
    Instants,
    Int2s,
    Int4s,
    Int8s,
    Texts,
    Uuids,
)


def element(kind: type[Column], value: Any) -> bytes:
    match kind:
        case parameters.Int2s:
            return struct.pack("!h", value)
        case parameters.Int4s:
            return struct.pack("!i", value)
        case parameters.Int8s:
            return struct.pack("!q", value)
        case parameters.Instants:
            return struct.pack("!q", value - POSTGRES_EPOCH_US)
        case parameters.Texts:
            return str(value).encode()
        case parameters.Bools:
            return struct.pack("!?", value)
        case _:
            return bytes(value)


def expected(kind: type[Column], oid: int, values: list[Any]) -> bytes:
    if not values:
        return struct.pack("!iii", 0, 0, oid)
    packed = struct.pack("!iiiii", 1, None in values, oid, len(values), 1)
    for value in values:
        raw = b"" if value is None else element(kind, value)
        packed += struct.pack("!i", -1 if value is None else len(raw)) + raw
    return packed


@pytest.mark.parametrize(
    "count", [0, 1, 2, FEW_NUMBERS, NUMBERS_AT_ONCE, NUMBERS_AT_ONCE + 1, 3 * NUMBERS_AT_ONCE]
)
@pytest.mark.parametrize(
    ("kind", "oid", "value"),
    [
        (Int2s, 21, lambda n: n % 60_000 - 30_000),
        (Int4s, 23, lambda n: n * 5_000_000 - (1 << 31)),
        (Int8s, 20, lambda n: n * (1 << 50) - (1 << 62)),
        (Instants, 1184, lambda n: 1_900_000_000_000_000 + n),
        (Uuids, 2950, lambda n: bytes([n % 256]) * 16),
        (Texts, 25, lambda n: "ä" * (n % 5)),
        (Blobs, 17, lambda n: b"x" * (n % 7)),
        (Bools, 16, lambda n: n % 3 == 0),
    ],
)
def test_a_column_is_packed_as_postgresql_reads_it(
    kind: type[Column], oid: int, value: Any, count: int
) -> None:
    values = [value(number) for number in range(count)]
    dumper = dict(parameters._DUMPERS)[kind](kind, Transformer())

    assert dumper.dump(kind(values)) == expected(kind, oid, values)
    if count:
        with_null = [*values, None, value(count)]
        assert dumper.dump(kind(with_null)) == expected(kind, oid, with_null)


@pytest.mark.parametrize("count", [2, 3, NUMBERS_AT_ONCE + 1])
@pytest.mark.parametrize(
    ("kind", "oid", "value", "other"),
    [
        (Int2s, 21, -3, 3),
        (Instants, 1184, 1_900_000_000_000_000, 0),
        (Texts, 25, "mail", ""),
        (Uuids, 2950, b"u" * 16, b"v" * 16),
        (Bools, 16, True, False),
        (Int8s, 20, None, 1),
    ],
)
def test_a_column_of_one_value_is_packed_as_any_other(
    kind: type[Column], oid: int, value: Any, other: Any, count: int
) -> None:
    """Also one that only begins and ends with that value."""
    dumper = dict(parameters._DUMPERS)[kind](kind, Transformer())

    for values in ([value] * count, [value, *[other] * count, value]):
        assert dumper.dump(kind(values)) == expected(kind, oid, values)
