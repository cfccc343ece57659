"""Which object of a shard an archived id is in.

Nothing in a run's id says when it closed, and a workflow id is closed again and again. So each parcel leaves a segment
in its shard's folder: entries of a fixed size, in order.

    entry = key (8) | close µs (8) | digest of the object (8) | offset (4) | size (4)

The key is a hash: keys are spread evenly, so that where an entry is follows from its key, and one read of a window
finds it, however large the segment is. Its length is the object's, which a list tells. The offset is that of the
frame that the run's line is in.

Segments are only ever written whole, under a name made of their content, and merged by eight when eight are about as
large: a look into a shard with a million runs reads about thirty of them, and one with a thousand under eight. A
merge writes first and deletes then. Two that meet (of an owner that has lost its shard and does not know it yet) leave
entries twice, which is no harm. What is merged by one is missing to the other, who gives up; a reader looks again.
Segments of MERGED_MIN entries or more are left as they are: memory, and the loop, stay free.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import isqrt
from typing import NamedTuple

from perdure_engine.ports.archive import ArchiveUnavailable
from perdure_engine.ports.clock import Clock
from perdure_engine.store.archive.names import DIGEST_BYTES, IDS_SUFFIX
from perdure_engine.store.archive.objects import Found, Missing, Objects

KEY_BYTES = 8
ENTRY_BYTES = KEY_BYTES + 8 + DIGEST_BYTES + 4 + 4

FAN_IN = 8
SIZES = (4 * 1024, 32 * 1024)  # entries: below the first, below the second
MERGED_MIN = SIZES[-1]
SLICES = 64  # of a merge: the loop turns between two

WINDOW_MIN = 256  # entries: 8 KB are as quick to read as one
# Where n keys are spread evenly, an entry is within isqrt(n) / 2 of its place by one standard deviation.
DEVIATIONS = 8

LOOKS_MAX = 3
READS_AT_ONCE = 16


class Entry(NamedTuple):
    """`digest` names the object; its frame with the run lies at `offset`."""

    key: bytes
    close_us: int
    digest: bytes
    offset: int
    size: int


def id_key(id_: bytes) -> bytes:
    """Of a run's or a job's id."""
    return _hashed(b"i" + id_)


def workflow_key(workflow_id: str) -> bytes:
    return _hashed(b"w" + workflow_id.encode())


def _hashed(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=KEY_BYTES, person=b"perdure archive").digest()


def pack(entry: Entry) -> bytes:
    return b"".join(
        (
            entry.key,
            entry.close_us.to_bytes(8, "big"),
            entry.digest,
            entry.offset.to_bytes(4, "big"),
            entry.size.to_bytes(4, "big"),
        )
    )


def unpack(packed: bytes) -> Entry:
    return Entry(
        packed[:8],
        int.from_bytes(packed[8:16], "big"),
        packed[16:24],
        int.from_bytes(packed[24:28], "big"),
        int.from_bytes(packed[28:32], "big"),
    )


class IdIndex:
    """The segments of one folder."""

    def __init__(self, objects: Objects, clock: Clock, folder: str) -> None:
        self._objects = objects
        self._clock = clock
        self._folder = folder

    async def add(self, entries: Iterable[Entry]) -> None:
        await self._put(b"".join(sorted([pack(entry) for entry in entries])))

    async def newest(self, key: bytes) -> Entry | None:
        """Of the entries with the key the one that closed last."""
        for _ in range(LOOKS_MAX):
            segments = await self._objects.contents(self._folder)
            try:
                return await self._newest_of(segments, key)
            except Missing:
                pass  # merged meanwhile
        raise ArchiveUnavailable("the archive's index was changed during each look into it")

    async def _newest_of(self, segments: list[Found], key: bytes) -> Entry | None:
        found: list[bytes] = []
        for first in range(0, len(segments), READS_AT_ONCE):
            looks = [
                _last_of(self._objects, segment, key)
                for segment in segments[first : first + READS_AT_ONCE]
            ]
            found += [packed for packed in await asyncio.gather(*looks) if packed is not None]
        return unpack(max(found)) if found else None

    async def merge(self) -> None:
        """Bring the number of segments down, if there are many. Raises ArchiveUnavailable; nothing is lost then."""
        while (group := _eight_alike(await self._objects.contents(self._folder))) is not None:
            try:
                contents = [await self._objects.get(segment.name) for segment in group]
            except Missing:
                return
            name = await self._put(await self._merged(contents))
            await self._objects.delete([one.name for one in group if one.name != name])

    async def _merged(self, contents: list[bytes]) -> bytes:
        """In slices by key, each sorted for itself: a sort is one call, and nothing else runs meanwhile."""
        done: list[bytes] = []
        places = [0] * len(contents)
        for number in range(1, SLICES + 1):
            bound = (number * 2**64 // SLICES - 1).to_bytes(KEY_BYTES, "big")
            entries: set[bytes] = set()
            for index, content in enumerate(contents):
                end = _end_of(content, bound)
                entries.update(_entries(content[places[index] * ENTRY_BYTES : end * ENTRY_BYTES]))
                places[index] = end
            done.append(b"".join(sorted(entries)))
            await self._clock.sleep(0)
        return b"".join(done)

    async def _put(self, content: bytes) -> str:
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        name = f"{self._folder}/{digest}{IDS_SUFFIX}"
        await self._objects.put(name, content)
        return name


def _eight_alike(segments: list[Found]) -> list[Found] | None:
    groups: dict[int, list[Found]] = {}
    for segment in segments:
        entries = segment.size // ENTRY_BYTES
        if entries < MERGED_MIN:
            group = groups.setdefault(bisect_right(SIZES, entries), [])
            group.append(segment)
            if len(group) == FAN_IN:
                return group
    return None


async def _last_of(objects: Objects, segment: Found, key: bytes) -> bytes | None:
    """The last entry with the key. Raises Missing."""
    low, high = 0, segment.size // ENTRY_BYTES
    best: bytes | None = None
    half = max(WINDOW_MIN // 2, DEVIATIONS * isqrt(high) // 2)
    guess = int.from_bytes(key, "big") * high >> 64
    while low < high:
        first, end = max(low, guess - half), min(high, guess + half)
        entries = _entries(
            await objects.get(segment.name, first * ENTRY_BYTES, (end - first) * ENTRY_BYTES)
        )
        place = _end_in(entries, key)
        if place and entries[place - 1].startswith(key):
            best = entries[place - 1]
        if place == 0 and first > low:
            high = first
        elif place == len(entries) and end < high:
            low = end
        else:
            return best
        guess = (low + high) // 2  # the keys are not spread evenly: a workflow id with many runs
    return best


def _end_in(entries: list[bytes], key: bytes) -> int:
    """How many of them have the key or a lower one."""
    return bisect_right(entries, key, key=lambda entry: entry[:KEY_BYTES])


def _end_of(content: bytes, key: bytes) -> int:
    """The same, of packed entries."""
    return bisect_left(
        range(len(content) // ENTRY_BYTES),
        True,
        key=lambda index: content[index * ENTRY_BYTES : index * ENTRY_BYTES + KEY_BYTES] > key,
    )


def _entries(content: bytes) -> list[bytes]:
    return [content[at : at + ENTRY_BYTES] for at in range(0, len(content), ENTRY_BYTES)]
