"""Where an archived id is: found in one segment or many, however keys are spread, before and after merges."""

from __future__ import annotations

import hashlib

import pytest

from perdure_engine.ports.archive import ArchiveUnavailable
from perdure_engine.store.archive import id_index
from perdure_engine.store.archive.id_index import (
    ENTRY_BYTES,
    FAN_IN,
    Entry,
    IdIndex,
    id_key,
    workflow_key,
)
from perdure_engine.store.archive.memory import MemoryObjects
from perdure_engine.store.archive.objects import Missing

FOLDER = "ns/workflows/ids/00001"


class StandingClock:
    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """At once."""


class CountingObjects(MemoryObjects):
    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []  # bytes of each read

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        content = await super().get(name, start, size)
        self.read.append(len(content))
        return content


def index_of(objects: MemoryObjects) -> IdIndex:
    return IdIndex(objects, StandingClock(), FOLDER)


def an_id(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()[:16]


def an_entry(key: bytes, close_us: int = 1, offset: int = 0) -> Entry:
    return Entry(key, close_us, b"digest--", offset, 100)


def test_an_entry_reads_back() -> None:
    entry = Entry(b"keykeyke", 1_800_000_000_000_000, b"digest--", 4_000_000_000, 5_000)

    assert id_index.unpack(id_index.pack(entry)) == entry
    assert len(id_index.pack(entry)) == ENTRY_BYTES


def test_ids_of_runs_and_of_workflows_are_apart() -> None:
    assert id_key(b"order") != workflow_key("order")


@pytest.mark.parametrize("number", [1, 2, 255, 256, 257, 5_000])
async def test_each_entry_is_found_and_nothing_else(number: int) -> None:
    objects = MemoryObjects()
    entries = [an_entry(id_key(an_id(n)), n, n) for n in range(number)]
    await index_of(objects).add(entries)

    for entry in entries[:: max(1, number // 200)]:
        assert await index_of(objects).newest(entry.key) == entry
    for n in range(number, number + 50):
        assert await index_of(objects).newest(id_key(an_id(n))) is None
    assert await index_of(MemoryObjects()).newest(id_key(b"")) is None


async def test_a_large_segment_is_read_in_one_small_window() -> None:
    objects = CountingObjects()
    entries = [an_entry(id_key(an_id(n)), n) for n in range(100_000)]
    await index_of(objects).add(entries)

    for entry in entries[::997]:
        objects.read.clear()
        assert await index_of(objects).newest(entry.key) == entry
        assert len(objects.read) == 1
        assert objects.read[0] < 100_000 * ENTRY_BYTES / 30


async def test_the_newest_of_a_workflow_id_with_very_many_runs() -> None:
    """Its keys are all the same: the window's guess is wrong then, and the search goes on in halves."""
    objects = CountingObjects()
    many = workflow_key("cron")
    entries = [an_entry(many, n) for n in range(20_000)]
    entries += [an_entry(workflow_key(f"order-{n}"), n) for n in range(5_000)]
    await index_of(objects).add(entries)

    found = await index_of(objects).newest(many)

    assert found is not None
    assert found.close_us == 19_999
    assert len(objects.read) < 10
    for n in range(0, 5_000, 97):
        entry = await index_of(objects).newest(workflow_key(f"order-{n}"))
        assert entry is not None
        assert entry.close_us == n


async def test_the_newest_of_all_segments() -> None:
    objects = MemoryObjects()
    key = workflow_key("order")
    for close_us in (3, 9, 5):
        await index_of(objects).add([an_entry(key, close_us)])

    found = await index_of(objects).newest(key)

    assert found is not None
    assert found.close_us == 9


async def test_eight_alike_become_one_and_nothing_is_lost() -> None:
    objects = MemoryObjects()
    entries = [an_entry(id_key(an_id(n)), n) for n in range(40 * FAN_IN)]
    for first in range(0, len(entries), 40):
        await index_of(objects).add(entries[first : first + 40])
        await index_of(objects).merge()

    (segment,) = await objects.contents(FOLDER)
    assert segment.size == len(entries) * ENTRY_BYTES
    for entry in entries:
        assert await index_of(objects).newest(entry.key) == entry


async def test_seven_and_large_ones_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_index, "SIZES", (20, 100))
    monkeypatch.setattr(id_index, "MERGED_MIN", 100)
    objects = MemoryObjects()
    for number in range(9):
        size = 10 if number < 7 else 100
        keys = [id_key(an_id(number * 1_000 + n)) for n in range(size)]
        await index_of(objects).add([an_entry(key) for key in keys])
    before = dict(objects.by_name)

    await index_of(objects).merge()

    assert objects.by_name == before


async def test_number_of_segments_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_index, "SIZES", (80, 640))
    monkeypatch.setattr(id_index, "MERGED_MIN", 640)
    objects = MemoryObjects()
    for number in range(300):
        keys = [id_key(an_id(number * 1_000 + n)) for n in range(10)]
        await index_of(objects).add([an_entry(key) for key in keys])
        await index_of(objects).merge()

    segments = await objects.contents(FOLDER)
    assert sum(segment.size for segment in segments) == 300 * 10 * ENTRY_BYTES
    assert len(segments) <= 2 * (FAN_IN - 1) + 300 * 10 / 640


class VanishingObjects(MemoryObjects):
    """Another merges the same segments, and is quicker: they vanish after they were listed, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        if self.times:
            self.times -= 1
            raise Missing(name)
        return await super().get(name, start, size)


async def test_a_reader_looks_again_when_a_segment_was_merged_meanwhile() -> None:
    objects = VanishingObjects(0)
    entry = an_entry(id_key(an_id(1)))
    await index_of(objects).add([entry])

    objects.times = 2
    assert await index_of(objects).newest(entry.key) == entry
    objects.times = 1_000
    with pytest.raises(ArchiveUnavailable):
        await index_of(objects).newest(entry.key)


async def test_a_merge_that_finds_a_segment_gone_deletes_nothing() -> None:
    """What the other has merged is whole; what we would write is not."""
    objects = VanishingObjects(0)
    for number in range(FAN_IN):
        await index_of(objects).add([an_entry(id_key(an_id(number)))])
    before = dict(objects.by_name)

    objects.times = 1
    await index_of(objects).merge()

    assert objects.by_name == before
