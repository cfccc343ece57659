"""Runs on their way into the archive: an object with their lines, its list, and where each id is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from perdure_engine.core.events import Event
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.ports.archive import ArchiveForm, Shelf
from perdure_engine.ports.clock import Clock
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.store.archive import rows
from perdure_engine.store.archive.id_index import Entry, IdIndex, id_key, workflow_key
from perdure_engine.store.archive.lines import FRAME_BYTES, LineCompressor, LinesWriter
from perdure_engine.store.archive.names import data_folder, digest_of, index_folder, object_name
from perdure_engine.store.archive.objects import Objects

BYTES_MAX = 16 * 1024 * 1024  # compressed: what memory holds of a parcel, and a request carries
RUNS_MAX = 10_000
EVENTS_AT_ONCE = 128  # a millisecond's work; then the loop turns


class ObjectParcel:
    """Implements ports.archive.Parcel."""

    def __init__(
        self, objects: Objects, clock: Clock, form: ArchiveForm, shelf: Shelf, ids: IdIndex
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._form = form
        self._shelf = shelf
        self._ids = ids
        self._lines = LinesWriter()
        self._rows: list[bytes] = []
        self._runs: list[tuple[bytes, int]] = []  # id and close, in the order of the lines
        self._keys: list[tuple[bytes, ...]] = []  # of each, for the id index

    @property
    def full(self) -> bool:
        return self._lines.size >= BYTES_MAX or len(self._runs) >= RUNS_MAX

    async def add_run(self, row: VisibilityRow, pages: AsyncIterator[Sequence[Event]]) -> None:
        listed = rows.encode(rows.run_row(row))
        parts = [b'{"workflow":' + listed + b',"events":[']
        size, separator = 0, b""
        compressor: LineCompressor | None = None
        async for page in pages:
            for first in range(0, len(page), EVENTS_AT_ONCE):
                events = [self._form.event(one) for one in page[first : first + EVENTS_AT_ONCE]]
                parts.append(separator + b",".join(events))
                size, separator = size + len(parts[-1]), b","
                await self._clock.sleep(0)
                if size >= FRAME_BYTES:
                    compressor = compressor or LineCompressor()
                    compressor.write(b"".join(parts))
                    parts, size = [], 0
        parts.append(b"]}\n")
        if compressor is None:
            self._lines.add(b"".join(parts))
        else:
            compressor.write(b"".join(parts))
            self._lines.add_compressed(compressor.finish())
        assert row.close_us is not None, "it has closed"
        self._add(
            row.run_id, row.close_us, listed, id_key(row.run_id), workflow_key(row.workflow_id)
        )

    def add_job(self, job: JobDescription) -> None:
        listed, details = self._form.job(job)
        self._lines.add(details + b"\n")
        info = job.info
        self._add(info.job_id, info.closed_us, listed, id_key(info.job_id))

    def _add(self, id_: bytes, close_us: int, listed: bytes, *keys: bytes) -> None:
        self._runs.append((id_, close_us))
        self._rows.append(listed + b"\n")
        self._keys.append(keys)

    async def put(self) -> int:
        """Its list comes last: what a list shows can be found, and what can be found is there."""
        shelf, digest = self._shelf, digest_of(self._runs)
        name = object_name(shelf.shard_id, digest)
        content = self._lines.content()
        listed = LinesWriter()
        for row in self._rows:
            listed.add(row)
        folder = data_folder(shelf.namespace_id, shelf.kind, shelf.day)
        await self._objects.put(f"{folder}/{name}", content)
        await self._ids.add(self._entries(digest))
        folder = index_folder(shelf.namespace_id, shelf.kind, shelf.day)
        await self._objects.put(f"{folder}/{name}", listed.content())
        return len(content)

    def _entries(self, digest: bytes) -> list[Entry]:
        return [
            Entry(key, close_us, digest, frame.offset, frame.size)
            for (_, close_us), keys, frame in zip(
                self._runs, self._keys, self._lines.frames, strict=True
            )
            for key in keys
        ]
