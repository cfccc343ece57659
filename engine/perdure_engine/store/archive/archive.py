"""The archive on an object store: the door's two sides, writing for history and reading for the frontend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, TypeVar

from perdure_engine.core.ids import uuid_text
from perdure_engine.ports.archive import (
    DAY_US,
    WHOLE,
    ArchiveCorrupt,
    ArchivedJob,
    ArchivedJobFilter,
    ArchivedJobs,
    ArchivedRun,
    ArchivedRuns,
    ArchiveForm,
    ArchivePlace,
    ArchiveUnavailable,
    Kind,
    Shelf,
)
from perdure_engine.ports.clock import Clock
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.archive import names, rows
from perdure_engine.store.archive.id_index import Entry, IdIndex, id_key, workflow_key
from perdure_engine.store.archive.lines import lines_of
from perdure_engine.store.archive.misses import Misses
from perdure_engine.store.archive.objects import Found, Missing, Objects
from perdure_engine.store.archive.parcel import ObjectParcel
from perdure_engine.store.memory.filters import listed

T = TypeVar("T")

ANSWER_S = 10.0  # what somebody who asks waits at most
READERS_MAX = 16  # of those who ask at a time: the others wait
OBJECTS_PER_PAGE_MAX = 32  # that one page of a list looks into
LISTED_AT_ONCE = 1_000
BESIDE_THE_LOOP_MIN = 1024 * 1024  # compressed: from here on a thread reads it
KEPT_S = 30.0  # the run that was read last: who reads a history asks for page after page


class Days(NamedTuple):
    """The lists of one kind, from a day on."""

    namespace_id: bytes
    kind: Kind
    first: int


class ObjectArchive:
    """Implements ports.archive.Archive."""

    def __init__(self, objects: Objects, clock: Clock, form: ArchiveForm) -> None:
        self._objects = objects
        self._clock = clock
        self._form = form
        self._readers = asyncio.Semaphore(READERS_MAX)
        self._misses = Misses(clock)
        self._kept: tuple[tuple[bytes, str, bytes], float, ArchivedRun] | None = None

    # ---- writing

    async def written(self, shelf: Shelf) -> set[tuple[bytes, int]]:
        folder = names.index_folder(shelf.namespace_id, shelf.kind, shelf.day)
        prefix = names.shelf_prefix(shelf)
        found: set[tuple[bytes, int]] = set()
        async for name in self._names(folder, after=prefix):
            if not name.startswith(prefix):
                break
            for line in await self._lines(f"{folder}/{name}"):
                found.add(_key_of(shelf, line))
            await self._clock.sleep(0)
        return found

    def parcel(self, shelf: Shelf) -> ObjectParcel:
        index = self._ids(shelf.namespace_id, shelf.kind, shelf.shard_id)
        return ObjectParcel(self._objects, self._clock, self._form, shelf, index)

    # ---- reading

    async def find_run(
        self, namespace_id: bytes, shard_id: int, workflow_id: str, run_id: bytes
    ) -> ArchivedRun | None:
        asked = (namespace_id, workflow_id, run_id)
        kept = self._kept
        if kept is not None and kept[0] == asked and self._clock.monotonic() < kept[1]:
            return kept[2]
        if self._misses.knows(asked):
            return None
        found = await self._answer(self._find_run(namespace_id, shard_id, workflow_id, run_id))
        if found is None:
            self._misses.add(asked)
        elif run_id:
            until_s = self._clock.monotonic() + KEPT_S
            self._kept = (asked, until_s, found)
            # Not told the run itself: the timers would hold all that were read in this time.
            asyncio.get_running_loop().call_later(KEPT_S, self._let_go, until_s)
        return found

    def _let_go(self, until_s: float) -> None:
        if self._kept is not None and self._kept[1] <= until_s:
            self._kept = None

    async def _find_run(
        self, namespace_id: bytes, shard_id: int, workflow_id: str, run_id: bytes
    ) -> ArchivedRun | None:
        key = id_key(run_id) if run_id else workflow_key(workflow_id)
        entry = await self._ids(namespace_id, Kind.WORKFLOWS, shard_id).newest(key)
        if entry is None:
            return None

        def read(line: bytes) -> ArchivedRun | None:
            row = rows.run_line_row(line, namespace_id, shard_id)
            if (row.workflow_id, row.close_us) != (workflow_id, entry.close_us):
                return None
            return rows.run_line(line, row) if run_id in (b"", row.run_id) else None

        return await self._read(namespace_id, Kind.WORKFLOWS, shard_id, entry, read)

    async def list_runs(
        self, where: VisibilityFilter, past: ArchivePlace | None, limit: int
    ) -> ArchivedRuns:
        def read(line: bytes, shard_id: int) -> tuple[bytes, VisibilityRow] | None:
            row = rows.visibility_row(line, where.namespace_id, shard_id)
            return (row.run_id, row) if listed(where, row) else None

        # what began then closed then, or later
        days = Days(where.namespace_id, Kind.WORKFLOWS, where.start_min_us // DAY_US)
        return ArchivedRuns(*await self._answer(self._page(days, past, limit, read)))

    async def find_job(
        self, namespace_id: bytes, shard_id: int, job_id: bytes
    ) -> ArchivedJob | None:
        asked = (namespace_id, job_id)
        if self._misses.knows(asked):
            return None
        found = await self._answer(self._find_job(namespace_id, shard_id, job_id))
        if found is None:
            self._misses.add(asked)
        return found

    async def _find_job(
        self, namespace_id: bytes, shard_id: int, job_id: bytes
    ) -> ArchivedJob | None:
        entry = await self._ids(namespace_id, Kind.JOBS, shard_id).newest(id_key(job_id))
        if entry is None:
            return None
        wanted = (uuid_text(job_id), entry.close_us)

        def read(line: bytes) -> ArchivedJob | None:
            row = rows.job_line_row(line)
            return ArchivedJob(line) if (row.job_id, row.close_time_us) == wanted else None

        return await self._read(namespace_id, Kind.JOBS, shard_id, entry, read)

    async def list_jobs(
        self, where: ArchivedJobFilter, past: ArchivePlace | None, limit: int
    ) -> ArchivedJobs:
        def read(line: bytes, _: int) -> tuple[bytes, ArchivedJob] | None:
            row = rows.job_row(line)
            if not rows.job_listed(where, row):
                return None
            return rows.id_bytes(row.job_id), ArchivedJob(line)

        days = Days(where.where.namespace_id, Kind.JOBS, where.where.from_us // DAY_US)
        return ArchivedJobs(*await self._answer(self._page(days, past, limit, read)))

    async def _page(
        self,
        days: Days,
        past: ArchivePlace | None,
        limit: int,
        read: Callable[[bytes, int], tuple[bytes, T] | None],
    ) -> tuple[list[tuple[T, ArchivePlace]], ArchivePlace | None]:
        """`read` makes of a line its id and what is shown of it, or None. A place where to go on, or None."""
        shown: list[tuple[T, ArchivePlace]] = []
        seen: set[bytes] = set()  # a run may lie there twice (ADR 19)
        at: ArchivePlace | None = None
        looked = 0
        async for day, name, first in self._lists(days, past):
            if looked == OBJECTS_PER_PAGE_MAX:
                return shown, at
            looked += 1
            folder = names.index_folder(days.namespace_id, days.kind, day)
            shard_id = names.shard_of_name(name)
            lines = await self._lines(f"{folder}/{name}")
            at = end = ArchivePlace(day, name, WHOLE)
            for index in range(first, len(lines)):
                at = ArchivePlace(day, name, index) if index + 1 < len(lines) else end
                found = read(lines[index], shard_id)
                if found is not None and found[0] not in seen:
                    seen.add(found[0])
                    shown.append((found[1], at))
                    if len(shown) == limit:
                        return shown, at
            await self._clock.sleep(0)
        return shown, None

    # ---- both

    def _ids(self, namespace_id: bytes, kind: Kind, shard_id: int) -> IdIndex:
        folder = names.ids_folder(namespace_id, kind, shard_id)
        return IdIndex(self._objects, self._clock, folder)

    async def _lists(
        self, days: Days, past: ArchivePlace | None
    ) -> AsyncIterator[tuple[int, str, int]]:
        """The lists past a place: day, name, and the row to begin with."""
        folders = await self._objects.folders(names.days_folder(days.namespace_id, days.kind))
        found = [day for day in map(names.day_of_folder, folders) if day is not None]
        for day in sorted(found, reverse=True):
            if day < days.first or (past is not None and day > past.day):
                continue
            after = ""
            if past is not None and day == past.day:
                after = past.name
                if past.index != WHOLE:
                    yield day, past.name, past.index + 1
            folder = names.index_folder(days.namespace_id, days.kind, day)
            async for name in self._names(folder, after):
                yield day, name, 0

    async def _names(self, folder: str, after: str) -> AsyncIterator[str]:
        page: list[Found] = []
        while not page or len(page) == LISTED_AT_ONCE:
            page = await self._objects.contents(folder, after, LISTED_AT_ONCE)
            if not page:
                return
            for found in page:
                after = found.name.rpartition("/")[2]
                yield after

    async def _lines(self, name: str) -> list[bytes]:
        """None of an object that the bucket has thrown away."""
        try:
            return lines_of(await self._objects.get(name))
        except Missing:
            return []

    async def _read(
        self,
        namespace_id: bytes,
        kind: Kind,
        shard_id: int,
        entry: Entry,
        read: Callable[[bytes], T | None],
    ) -> T | None:
        """What `read` makes of the line that the entry is about. None: the bucket has thrown it away.

        The same runs put again may lie in other frames (another version of zstd): then the whole object is looked
        through.
        """
        folder = names.data_folder(namespace_id, kind, entry.close_us // DAY_US)
        name = f"{folder}/{names.object_name(shard_id, entry.digest)}"
        try:
            try:
                content = await self._objects.get(name, entry.offset, entry.size)
                found = await self._first(content, read)
            except ArchiveCorrupt:
                found = None
            return found or await self._first(await self._objects.get(name), read)
        except Missing:
            return None

    async def _first(self, content: bytes, read: Callable[[bytes], T | None]) -> T | None:
        def look() -> T | None:
            return next((found for line in lines_of(content) if (found := read(line))), None)

        if len(content) < BESIDE_THE_LOOP_MIN:
            return look()
        return await asyncio.to_thread(look)

    async def _answer(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(ANSWER_S), self._readers:
                return await work
        except TimeoutError:
            raise ArchiveUnavailable(
                f"the archive did not answer within {ANSWER_S:.0f} s"
            ) from None


def _key_of(shelf: Shelf, line: bytes) -> tuple[bytes, int]:
    """Id and close of a list's line."""
    if shelf.kind is Kind.JOBS:
        job = rows.job_row(line)
        return rows.id_bytes(job.job_id), job.close_time_us
    row = rows.visibility_row(line, shelf.namespace_id, shelf.shard_id)
    return row.run_id, row.close_us or 0
