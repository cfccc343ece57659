"""The registry: fresh enough, cheap enough, and right about what is not there."""

import asyncio

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, Room

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.frontend.handlers.create_namespace import create_namespace
from perdure_engine.frontend.handlers.describe_namespace import describe_namespace
from perdure_engine.frontend.handlers.list_namespaces import list_namespaces
from perdure_engine.frontend.handlers.update_namespace import update_namespace
from perdure_engine.ports.store import NamespaceRow, StoreUnavailable

ELSEWHERE = NamespaceRow(b"e" * 16, "elsewhere", "", 3_600_000, 1)


async def test_a_known_name_is_found_without_reading_for_five_seconds() -> None:
    room = Room()
    await room.namespaces.find("default")
    row = room.namespaces.cached("default")

    assert row is not None
    assert row.namespace_id == NAMESPACE_ID
    room.clock.now_s += 4.9
    await room.namespaces.find("default")
    assert room.store.namespace_reads == 1
    room.clock.now_s += 0.2
    assert room.namespaces.cached("default") is None
    await room.namespaces.find("default")
    assert room.store.namespace_reads == 2


async def test_all_who_miss_together_share_one_read() -> None:
    room = Room()

    rows = await asyncio.gather(*[room.namespaces.find("default") for _ in range(10)])

    assert len(rows) == 10
    assert room.store.namespace_reads == 1


async def test_b13_an_unknown_name_is_not_found_and_does_not_flood_the_store() -> None:
    room = Room()
    for number in range(10):
        with pytest.raises(Rejected) as caught:
            await room.namespaces.find(f"nowhere-{number}")
        assert caught.value.code == Code.NOT_FOUND
    assert room.store.namespace_reads == 1


async def test_a_namespace_made_on_another_node_is_found_within_a_second() -> None:
    room = Room()
    await room.namespaces.find("default")
    room.store.rows["elsewhere"] = ELSEWHERE
    room.clock.now_s += 1.0

    assert await room.namespaces.find("elsewhere") == ELSEWHERE


async def test_a_caller_who_goes_away_does_not_take_the_read_from_the_others() -> None:
    room = Room()
    going = asyncio.ensure_future(room.namespaces.find("default"))
    staying = asyncio.ensure_future(room.namespaces.find("default"))
    await asyncio.tasks.sleep(0)  # one turn of the loop, no time
    going.cancel()

    assert (await staying).name == "default"
    assert going.cancelled()


async def test_a_lost_database_is_said_to_every_caller() -> None:
    room = Room()
    room.store.down = True

    with pytest.raises(StoreUnavailable):
        await room.namespaces.find("default")

    room.store.down = False
    assert await room.namespaces.find("default")


async def test_create_describe_and_list() -> None:
    room = Room()

    row = await create_namespace(room.frontend, "shop", "for the shop", 0)

    assert row.retention_ms == 7 * 24 * 3_600_000
    assert await describe_namespace(room.frontend, "shop") == row
    assert [row.name for row in await list_namespaces(room.frontend)] == [
        "default",
        "other",
        "shop",
    ]
    with pytest.raises(Rejected) as caught:
        await create_namespace(room.frontend, "shop", "", 0)
    assert caught.value.code == Code.ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "retention_ms", "field"),
    [("", 0, "name"), ("x" * 256, 0, "name"), ("__x", 0, "name"), ("x", 3_599_999, "retention_ms")],
)
async def test_bad_namespaces_are_not_made(name: str, retention_ms: int, field: str) -> None:
    room = Room()

    with pytest.raises(Rejected) as caught:
        await create_namespace(room.frontend, name, "", retention_ms)

    assert caught.value.field == field
    assert len(room.store.rows) == 2


async def test_an_update_changes_what_is_given_if_nobody_was_faster() -> None:
    room = Room()
    row = await update_namespace(room.frontend, "default", "new words", None, 1)

    assert (row.description, row.retention_ms, row.conflict_token) == ("new words", 3_600_000, 2)
    assert room.namespaces.cached("default") == row
    with pytest.raises(Rejected) as caught:
        await update_namespace(room.frontend, "default", "older words", None, 1)
    assert caught.value.code == Code.ABORTED
    with pytest.raises(Rejected) as missing:
        await update_namespace(room.frontend, "nowhere", "words", None, 1)
    assert missing.value.code == Code.NOT_FOUND


@pytest.mark.parametrize("token", [0, -1])
async def test_an_update_says_what_it_has_seen(token: int) -> None:
    """The database would refuse the row, which looked like a fault of ours."""
    room = Room()
    with pytest.raises(Rejected) as caught:
        await update_namespace(room.frontend, "default", "new words", None, token)

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "conflict_token")


async def test_what_is_made_while_a_read_is_on_its_way_is_not_lost() -> None:
    room = Room()
    began, go_on = asyncio.Event(), asyncio.Event()
    read = room.store.list_namespaces

    async def slow() -> list[NamespaceRow]:
        rows = await read()
        began.set()
        await go_on.wait()
        return rows

    room.store.list_namespaces = slow  # type: ignore[method-assign]  # a store that is slow once
    reading = asyncio.ensure_future(room.namespaces.find("default"))
    await began.wait()
    made = await create_namespace(room.frontend, "shop", "", 0)
    go_on.set()
    await reading

    assert room.namespaces.cached("shop") == made
