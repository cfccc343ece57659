"""What operators did, as the API tells it; and that verifying finds whatever was done to the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, Room

from perdure_engine.core.audit import Action, AuditRow, Entry, Head, append
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.limits import AUDIT_KEPT_US
from perdure_engine.frontend.handlers import verify_audit as verifying
from perdure_engine.frontend.handlers.create_namespace import create_namespace
from perdure_engine.frontend.handlers.list_audit import audit_heads, list_audit
from perdure_engine.frontend.handlers.update_namespace import update_namespace
from perdure_engine.frontend.handlers.verify_audit import Verified, verify_audit
from perdure_engine.ports.audit import AuditFilter
from perdure_engine.store.memory.tables import Tables

START_US = 1_800_000_000_000_000


def log(tables: Tables, chain: int, count: int, **changes: object) -> list[AuditRow]:
    """Appends so many entries to a chain."""
    known = tables.audit.in_order(chain)
    last = known[-1] if known else None
    head = Head(chain) if last is None else Head(chain, last.seq, last.hash, last.time_us)
    rows = []
    for number in range(count):
        fields: dict[str, object] = {
            "time_us": START_US + number,
            "action": Action.TERMINATE,
            "namespace_id": NAMESPACE_ID,
            "workflow_id": f"order-{number}",
            "identity": "op",
        }
        row, head = append(head, Entry(**(fields | changes)))  # type: ignore[arg-type]  # a dict of all
        tables.audit.put(row)
        rows.append(row)
    return rows


async def verified(room: Room, expected: list[Head] | None = None) -> Verified:
    """All pages together."""
    found = await verify_audit(room.frontend, expected or [], b"")
    while found.next_page_token:
        page = await verify_audit(room.frontend, expected or [], found.next_page_token)
        found = Verified(
            found.rows + page.rows,
            found.heads + page.heads,
            found.broken + page.broken,
            page.next_page_token,
        )
    return found


async def test_namespaces_are_created_and_changed_with_an_entry() -> None:
    room = Room()
    row = await create_namespace(room.frontend, "tenant", "ours", 0, "op@host", "a new team")
    await update_namespace(room.frontend, "tenant", "theirs", None, 1, "boss@host")
    created, updated = [one for one in room.store.audited if one is not None]
    assert (created.shard_id, created.namespace_id) == (0, row.namespace_id)
    assert (created.action, updated.action) == ("namespace.create", "namespace.update")


async def test_a_name_that_is_taken_leaves_no_entry() -> None:
    room = Room()
    with pytest.raises(Rejected):
        await create_namespace(room.frontend, "default", "", 0, "op")
    assert room.store.audited == []


async def test_who_is_second_to_a_place_takes_the_next() -> None:
    room = Room()
    entry = Entry(time_us=START_US, action=Action.EXPIRE_AUDIT)
    write = room.frontend.ledger.write
    await asyncio.gather(*(write(entry, room.operations.append_audit) for _ in range(5)))
    assert [row.seq for row in room.operations.tables.audit.in_order(0)] == [1, 2, 3, 4, 5]
    assert (await verified(room)).broken == []


async def test_entries_are_listed_newest_first_in_pages() -> None:
    room = Room()
    log(room.operations.tables, 1, 5)
    log(room.operations.tables, 2, 2, namespace_id=OTHER_NAMESPACE_ID, workflow_id="theirs")
    where = AuditFilter(NAMESPACE_ID)
    first = await list_audit(room.frontend, where, 3, b"")
    second = await list_audit(room.frontend, where, 3, first.next_page_token)
    rows = [*first.rows, *second.rows]
    assert [row.entry.workflow_id for row in rows] == [f"order-{n}" for n in (4, 3, 2, 1, 0)]
    assert {row.namespace for row in rows} == {"default"}
    assert second.next_page_token == b""
    with pytest.raises(Rejected):  # a page of another list
        await list_audit(room.frontend, AuditFilter(OTHER_NAMESPACE_ID), 3, first.next_page_token)


@pytest.mark.parametrize(
    ("where", "field"),
    [
        (AuditFilter(workflow_id="order"), "namespace"),
        (AuditFilter(NAMESPACE_ID, "o\0"), "workflow_id"),
        (AuditFilter(action="a" * 501), "action"),
        (AuditFilter(time_min_us=-1), "time_min_us"),
        (AuditFilter(time_max_us=1 << 62), "time_max_us"),
    ],
)
async def test_bad_filters_are_refused(where: AuditFilter, field: str) -> None:
    with pytest.raises(Rejected) as caught:
        await list_audit(Room().frontend, where, 0, b"")
    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, field)


async def test_a_row_that_cannot_be_read_is_named() -> None:
    room = Room()
    (row,) = log(room.operations.tables, 1, 1)
    room.operations.tables.audit.put(row._replace(content=b"\xc1"))
    with pytest.raises(Rejected) as caught:
        await list_audit(room.frontend, AuditFilter(), 0, b"")
    assert caught.value.code is Code.DATA_LOSS


# ---- verify


async def test_every_chain_is_walked_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "ROWS_PER_READ", 3)
    monkeypatch.setattr(verifying, "ROWS_PER_CALL", 5)
    room = Room()
    for chain, count in ((0, 4), (1, 11), (4, 1)):
        log(room.operations.tables, chain, count)
    found = await verified(room)
    assert (found.rows, found.broken) == (16, [])
    assert found.heads == await audit_heads(room.frontend)
    assert (await verified(room, found.heads)).broken == []


def change_a_row(tables: Tables) -> None:
    row = tables.audit.in_order(1)[3]
    tables.audit.put(row._replace(content=row.content.replace(b"order", b"ordre")))


def delete_a_row(tables: Tables) -> None:
    tables.audit.delete(tables.audit.in_order(1)[3])


def swap_two_rows(tables: Tables) -> None:
    fourth, fifth = tables.audit.in_order(1)[3:5]
    tables.audit.put(fourth._replace(seq=5))
    tables.audit.put(fifth._replace(seq=4))


def delete_the_first_rows(tables: Tables) -> None:
    for row in tables.audit.in_order(1)[:3]:
        tables.audit.delete(row)


def pretend_that_they_expired(tables: Tables) -> None:
    third = tables.audit.in_order(1)[2]
    delete_the_first_rows(tables)
    tables.audit_begins[1] = Head(1, 3, third.hash, third.time_us)


@pytest.mark.parametrize(
    ("tamper", "at"),
    [
        (change_a_row, 4),
        (delete_a_row, 4),
        (swap_two_rows, 4),
        (delete_the_first_rows, 1),
        (pretend_that_they_expired, 4),
    ],
)
async def test_tampering_is_found_and_the_first_broken_row_named(
    tamper: Callable[[Tables], None], at: int
) -> None:
    room = Room()
    log(room.operations.tables, 1, 6)
    log(room.operations.tables, 2, 2)
    tamper(room.operations.tables)
    found = await verified(room)
    assert [(one.chain, one.seq) for one in found.broken] == [(1, at)]
    assert [head.chain for head in found.heads] == [2], "the other chain is walked all the same"


async def test_a_tail_that_was_cut_off_shows_with_a_head_that_was_kept() -> None:
    room = Room()
    tables = room.operations.tables
    log(tables, 1, 6)
    kept = await audit_heads(room.frontend)
    log(tables, 1, 2)
    assert (await verified(room, kept)).broken == []
    for row in tables.audit.in_order(1)[4:]:
        tables.audit.delete(row)
    assert (await verified(room)).broken == [], "without the head nothing shows"
    (broken,) = (await verified(room, kept)).broken
    assert (broken.chain, broken.seq) == (1, 5)
    assert "cut off" in broken.why


async def test_a_chain_that_is_gone_whole_shows_with_its_head() -> None:
    room = Room()
    kept = [Head(1, 6, b"h" * 32)]
    assert [one.seq for one in (await verified(room, kept)).broken] == [1]


async def test_a_log_that_was_forged_whole_shows_with_a_head() -> None:
    room = Room()
    log(room.operations.tables, 1, 3)
    kept = await audit_heads(room.frontend)
    for row in room.operations.tables.audit.in_order(1):
        room.operations.tables.audit.delete(row)
    log(room.operations.tables, 1, 3, reason="all is well")
    assert (await verified(room)).broken == []
    assert [one.seq for one in (await verified(room, kept)).broken] == [3]


async def test_a_beginning_whose_own_record_is_over_its_time_is_believed() -> None:
    """The entry that says what went goes itself one day; the installation's chain has a beginning then."""
    room = Room()
    tables = room.operations.tables
    log(tables, 1, 6)
    pretend_that_they_expired(tables)
    own = log(tables, 0, 2)
    tables.audit.delete(own[0])
    tables.audit_begins[0] = Head(0, 1, own[0].hash, own[0].time_us + 2 + AUDIT_KEPT_US)
    assert [one.chain for one in (await verified(room)).broken] == [0]


@pytest.mark.parametrize(
    ("head", "field"),
    [
        (Head(99, 1, b"h" * 32), "expected[0].chain"),
        (Head(-1, 1, b"h" * 32), "expected[0].chain"),
        (Head(1, 0, b"h" * 32), "expected[0]"),
        (Head(1, 1, b"short"), "expected[0]"),
    ],
)
async def test_what_is_no_head_is_refused(head: Head, field: str) -> None:
    with pytest.raises(Rejected) as caught:
        await verify_audit(Room().frontend, [head], b"")
    assert caught.value.field == field
