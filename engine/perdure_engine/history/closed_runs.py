"""Closed workflow runs on their way into the archive: their rows, and their whole histories."""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure_engine.core.events import Event
from perdure_engine.history.archiving import READ_BYTES_MAX
from perdure_engine.history.loading import decode_history
from perdure_engine.history.removing import Leaving
from perdure_engine.history.shard import Shard
from perdure_engine.ports.archive import Kind, Parcel
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.rows import HistoryRow, VisibilityRow
from perdure_engine.ports.store import ClosedRun, RetentionStore

BATCHES_PER_READ = 64  # of a history that is read in pages


class ClosedRuns:
    """Implements history.archiving.Goods, of one shard."""

    kind = Kind.WORKFLOWS

    def __init__(self, shard: Shard, store: RetentionStore) -> None:
        self._shard = shard
        self._store = store

    def key(self, item: ClosedRun) -> tuple[bytes, int]:
        return item.run_id, item.close_us

    def size(self, item: ClosedRun) -> int:
        return item.history_bytes

    async def fill(self, parcel: Parcel, items: list[ClosedRun]) -> list[ClosedRun]:
        shard_id = self._shard.shard_id
        run_ids = [run.run_id for run in items]
        listed = await self._store.load_listed_runs(shard_id, run_ids)
        rows = {row.run_id: row for row in listed}
        histories: dict[bytes, list[HistoryRow]] = {}
        large = len(items) == 1 and items[0].history_bytes > READ_BYTES_MAX
        if not large:
            for part in await self._store.load_histories(shard_id, run_ids):
                histories.setdefault(part.run_id, []).append(part)
        inside: list[ClosedRun] = []
        for run in items:
            row = rows.get(run.run_id)
            if row is None or self._shard.outbox.holds(run.run_id):
                continue  # deleted by a call meanwhile, or not done with others yet
            pages = self._pages(run.run_id) if large else self._page(histories.get(run.run_id, []))
            try:
                await parcel.add_run(row, _whole(row, pages))
            except CorruptRow as error:  # it stays where somebody can look at it
                self._shard.rooms.alarm(
                    "run_not_archived", run_id=run.run_id.hex(), error=str(error)
                )
            else:
                inside.append(run)
        return inside

    async def remove(self, items: list[ClosedRun]) -> bool:
        removing = self._shard.removing
        for run in items:
            removing.add(leaving(run))
        await removing.wait_idle()
        return True  # a run that has closed stays closed

    async def _page(self, rows: list[HistoryRow]) -> AsyncIterator[list[Event]]:
        yield decode_history(rows, self._shard.rooms.codec)

    async def _pages(self, run_id: bytes) -> AsyncIterator[list[Event]]:
        next_id, more = 1, True
        while more:
            page = await self._shard.rooms.store.load_history(
                self._shard.shard_id, run_id, next_id, BATCHES_PER_READ
            )
            events = decode_history(page.rows, self._shard.rooms.codec)
            if not events:
                return
            yield events
            next_id, more = events[-1].event_id + 1, page.more


def leaving(run: ClosedRun) -> Leaving:
    """For the shard's removal, on nobody's demand."""
    return Leaving(run.run_id, run.namespace_id, run.workflow_id, run.history_bytes, [])


async def _whole(
    row: VisibilityRow, pages: AsyncIterator[list[Event]]
) -> AsyncIterator[list[Event]]:
    """Invariant 1: events 1 to the last, without a gap. Raises CorruptRow otherwise."""
    seen = 0
    async for page in pages:
        if page:
            if page[0].event_id != seen + 1 or page[-1].event_id != seen + len(page):
                raise CorruptRow(f"events after {seen} are missing")
            seen = page[-1].event_id
            yield page
    if seen != row.history_events:
        raise CorruptRow(f"history ends with event {seen}, and had {row.history_events}")
