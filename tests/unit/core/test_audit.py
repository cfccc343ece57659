"""The chain: what is appended holds, and whatever is changed afterwards is found and named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import pytest

from perdure_engine.core.audit import (
    Action,
    AuditRow,
    Broken,
    Entry,
    Head,
    append,
    check,
    entry_of,
)

NAMESPACE = bytes(15) + b"\x01"
RUN = bytes(range(16))
START_US = 1_800_000_000_000_000


def entry(number: int = 1, **changes: object) -> Entry:
    fields = {
        "time_us": START_US + number,
        "action": Action.TERMINATE,
        "namespace_id": NAMESPACE,
        "workflow_id": f"order-{number}",
        "run_id": RUN,
        "identity": "op@host",
        "reason": "stuck",
        "request_id": b"r" * 16,
        "before": "RUNNING",
        "after": "TERMINATED",
    }
    return Entry(**(fields | changes))  # type: ignore[arg-type]  # a dict of all


def chain(count: int) -> list[AuditRow]:
    rows, head = [], Head(3)
    for number in range(1, count + 1):
        row, head = append(head, entry(number))
        rows.append(row)
    return rows


def verify(rows: list[AuditRow]) -> Head:
    head = Head(3)
    for row in rows:
        head = check(head, row)
    return head


def test_a_chain_holds_and_its_rows_say_what_was_done() -> None:
    rows = chain(5)
    head = verify(rows)
    assert (head.seq, head.hash, head.time_us) == (5, rows[-1].hash, START_US + 5)
    assert entry_of(rows[2]) == entry(3)
    assert (rows[2].workflow_id, rows[2].action) == ("order-3", "workflow.terminate")


def test_the_bytes_of_a_link_never_change() -> None:
    """Hashes are kept for years: an entry of today has these bytes and this hash for ever."""
    row, _ = append(Head(3), entry())
    assert row.content.hex() == (
        "9303019bcf00066517289880 01b2776f726b666c6f772e7465726d696e617465c410"
        "00000000000000000000000000000001a76f726465722d31c410000102030405060708090a0b0c0d0e0f"
        "a76f7040686f7374a5737475636bc41072727272727272727272727272727272a0a752554e4e494e47"
        "aa5445524d494e41544544"
    ).replace(" ", "")
    assert row.hash.hex() == "e6c99cf37c9d30c3f41e48e6506097275e3c707e111cfc0f19dd3efa2068543c"


def test_an_entry_with_fields_of_a_later_version_is_read_and_verified() -> None:
    row, _ = append(Head(3), entry())

    chain_no, seq, fields = msgspec.msgpack.decode(row.content)
    content = msgspec.msgpack.encode([chain_no, seq, [*fields, "added later"], "and here"])
    later = row._replace(content=content, hash=hashlib.sha256(bytes(32) + content).digest())
    assert check(Head(3), later).seq == 1
    assert entry_of(later) == entry()


def test_time_never_goes_back_in_a_chain() -> None:
    first, head = append(Head(3), entry(1, time_us=START_US + 9))
    second, _ = append(head, entry(2, time_us=START_US + 4))
    assert (first.time_us, second.time_us) == (START_US + 9, START_US + 9)
    assert entry_of(second).time_us == START_US + 9


def change_content(rows: list[AuditRow]) -> None:
    forged, _ = append(Head(3, 2, rows[1].hash), entry(3, reason="all is well"))
    rows[2] = rows[2]._replace(content=forged.content)


def change_content_and_hash(rows: list[AuditRow]) -> None:
    rows[2], _ = append(Head(3, 2, rows[1].hash), entry(3, reason="all is well"))


def change_a_column(rows: list[AuditRow]) -> None:
    rows[2] = rows[2]._replace(workflow_id="order-99")


def change_the_time(rows: list[AuditRow]) -> None:
    rows[2] = rows[2]._replace(time_us=START_US)


def delete_in_the_middle(rows: list[AuditRow]) -> None:
    del rows[2]


def delete_the_first(rows: list[AuditRow]) -> None:
    del rows[0]


def delete_and_number_anew(rows: list[AuditRow]) -> None:
    del rows[2]
    rows[2:] = [row._replace(seq=row.seq - 1) for row in rows[2:]]


def swap_two(rows: list[AuditRow]) -> None:
    rows[2], rows[3] = rows[3]._replace(seq=3), rows[2]._replace(seq=4)


def insert_one(rows: list[AuditRow]) -> None:
    forged, _ = append(Head(3, 2, rows[1].hash), entry(9))
    rows[2:] = [forged, *(row._replace(seq=row.seq + 1) for row in rows[2:])]


def take_one_of_another_chain(rows: list[AuditRow]) -> None:
    other, _ = append(Head(4, 2, rows[1].hash), entry(3))
    rows[2] = other._replace(shard_id=3)


@pytest.mark.parametrize(
    ("tamper", "at"),
    [
        (change_content, 3),
        (change_content_and_hash, 4),
        (change_a_column, 3),
        (change_the_time, 3),
        (delete_in_the_middle, 3),
        (delete_the_first, 1),
        (delete_and_number_anew, 3),
        (swap_two, 3),
        (insert_one, 4),
        (take_one_of_another_chain, 3),
    ],
)
def test_the_first_row_that_does_not_hold_is_named(
    tamper: Callable[[list[AuditRow]], None], at: int
) -> None:
    rows = chain(6)
    tamper(rows)
    with pytest.raises(Broken) as caught:
        verify(rows)
    assert (caught.value.chain, caught.value.seq) == (3, at)


def test_bytes_that_are_no_link_are_named() -> None:
    with pytest.raises(Broken):
        entry_of(chain(1)[0]._replace(content=b"\xc1"))
