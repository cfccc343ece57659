"""The archive on an object store, when what lies there is not as it was put, or does not answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest
from tests.conformance.owner import COMPLETED, Run, listed_row
from tests.unit.core import samples

from perdure_engine.core.events import Event
from perdure_engine.ports.archive import (
    DAY_US,
    ArchiveCorrupt,
    ArchivedRun,
    ArchiveUnavailable,
    Kind,
    Shelf,
)
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.archive import archive as module
from perdure_engine.store.archive.archive import ObjectArchive
from perdure_engine.store.archive.lines import lines_of
from perdure_engine.store.archive.memory import MemoryObjects
from perdure_engine.store.archive.misses import KNOWN_MAX, Misses
from perdure_engine.transport.json.form import ContractForm

SHARD = 3


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.tasks.sleep(0)  # a turn of the loop


class CountedObjects(MemoryObjects):
    """Counts requests. `hangs`: nothing is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.hangs = False

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        self.requests += 1
        return await super().get(name, start, size)

    async def contents(self, folder: str, after: str = "", limit: int | None = None) -> list:  # type: ignore[type-arg]
        self.requests += 1
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        return await super().contents(folder, after, limit)


def archive_on(objects: MemoryObjects) -> ObjectArchive:
    return ObjectArchive(objects, Clock(), ContractForm())


def closed_row(workflow_id: str, close_us: int = 20_000 * DAY_US + 5) -> VisibilityRow:
    row = listed_row(Run(SHARD, workflow_id=workflow_id), COMPLETED)
    return row._replace(bucket=0, close_us=close_us, start_us=close_us - 1)


async def events() -> AsyncIterator[list[Event]]:
    yield [samples.STARTED]


async def put(objects: MemoryObjects, *rows: VisibilityRow) -> None:
    archive = archive_on(objects)
    close_us = rows[0].close_us
    assert close_us is not None
    shelf = Shelf(rows[0].namespace_id, Kind.WORKFLOWS, close_us // DAY_US, SHARD)
    parcel = archive.parcel(shelf)
    for row in rows:
        await parcel.add_run(row, events())
    await parcel.put()


async def find(objects: MemoryObjects, row: VisibilityRow) -> ArchivedRun | None:
    return await archive_on(objects).find_run(row.namespace_id, SHARD, row.workflow_id, row.run_id)


def data_names(objects: MemoryObjects) -> list[str]:
    return [n for n in objects.by_name if "/index/" not in n and "/ids/" not in n]


async def test_a_run_that_the_bucket_has_thrown_away_is_not_there() -> None:
    objects, row = MemoryObjects(), closed_row("order")
    await put(objects, row)
    for name in data_names(objects):
        del objects.by_name[name]

    assert await find(objects, row) is None


async def test_lists_pass_over_what_the_bucket_has_thrown_away() -> None:
    objects = MemoryObjects()
    rows = [closed_row("order", day * DAY_US) for day in (20_000, 20_001, 20_002)]
    for row in rows:
        await put(objects, row)
    archive = archive_on(objects)
    first = await archive.list_runs(VisibilityFilter(rows[0].namespace_id), None, 1)
    assert first.end is not None
    for name in [n for n in objects.by_name if "/index/" in n and first.end.name in n]:
        del objects.by_name[name]

    rest = await archive.list_runs(VisibilityFilter(rows[0].namespace_id), first.end, 10)

    assert [row.run_id for row, _ in first.rows + rest.rows] == [
        row.run_id for row in reversed(rows)
    ]


async def test_an_object_that_was_put_again_in_other_frames_is_looked_through() -> None:
    """The entries of before still name it: another version of zstd may cut it otherwise."""
    objects, rows = MemoryObjects(), [closed_row(f"order-{n}") for n in range(3)]
    await put(objects, *rows)
    (name,) = data_names(objects)
    import zstandard

    lines = lines_of(objects.by_name[name])
    compress = zstandard.ZstdCompressor(level=19).compress
    objects.by_name[name] = b"".join([compress(line + b"\n") for line in lines])

    for row in rows:
        found = await find(objects, row)
        assert found is not None
        assert found.row == row


async def test_an_object_that_was_changed_is_corrupt() -> None:
    objects, row = MemoryObjects(), closed_row("order")
    await put(objects, row)
    (name,) = data_names(objects)
    content = bytearray(objects.by_name[name])
    content[len(content) // 2] ^= 0xFF
    objects.by_name[name] = bytes(content)

    with pytest.raises(ArchiveCorrupt):
        await find(objects, row)


async def test_an_object_store_that_hangs_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.01)
    objects, row = CountedObjects(), closed_row("order")
    await put(objects, row)
    objects.hangs = True

    with pytest.raises(ArchiveUnavailable):
        await find(objects, row)


async def test_an_id_that_is_nowhere_is_looked_for_once_a_minute() -> None:
    objects, clock = CountedObjects(), Clock()
    archive = ObjectArchive(objects, clock, ContractForm())
    for _ in range(5):
        assert await archive.find_run(bytes(16), SHARD, "nobody", b"") is None
        assert await archive.find_job(bytes(16), SHARD, bytes(16)) is None
    assert objects.requests == 2
    clock.now_s += 61

    assert await archive.find_run(bytes(16), SHARD, "nobody", b"") is None

    assert objects.requests == 3


def test_what_is_known_to_be_missing_is_bounded() -> None:
    misses = Misses(Clock())
    for number in range(KNOWN_MAX + 5):
        misses.add(number)

    assert not misses.knows(4)
    assert misses.knows(5)


async def test_pages_of_one_history_read_it_once() -> None:
    objects, row = CountedObjects(), closed_row("order")
    await put(objects, row)
    clock = Clock()
    archive = ObjectArchive(objects, clock, ContractForm())
    objects.requests = 0

    for _ in range(4):
        assert await archive.find_run(row.namespace_id, SHARD, "order", row.run_id) is not None
    assert objects.requests == 3
    clock.now_s += 31
    assert await archive.find_run(row.namespace_id, SHARD, "order", row.run_id) is not None

    assert objects.requests == 6


async def test_of_the_runs_that_were_read_one_is_held() -> None:
    """Not by the timers either: each may be a history of many megabytes."""
    objects, rows = MemoryObjects(), [closed_row("one"), closed_row("other")]
    await put(objects, *rows)
    archive = archive_on(objects)
    found = [
        await archive.find_run(row.namespace_id, SHARD, row.workflow_id, row.run_id) for row in rows
    ]

    nobodys = [ArchivedRun(rows[0], [])]

    unheld, first, last = [sys.getrefcount(run) for run in [*nobodys, *found]]

    assert (first - unheld, last - unheld) == (0, 1)


async def test_a_page_looks_into_so_many_objects_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever lies there, and however little of it the filter finds."""
    monkeypatch.setattr(module, "OBJECTS_PER_PAGE_MAX", 3)
    objects = CountedObjects()
    rows = [closed_row(f"order-{n}", (20_000 + n) * DAY_US) for n in range(8)]
    for row in rows:
        await put(objects, row)
    archive = archive_on(objects)
    nobodys = VisibilityFilter(rows[0].namespace_id, workflow_type="Nobody's")
    place, pages = None, 0
    while True:
        objects.requests = 0
        page = await archive.list_runs(nobodys, place, 10)
        assert page.rows == []
        assert objects.requests <= 3 + 4 * 2
        place, pages = page.end, pages + 1
        if place is None:
            break

    assert pages == 3
