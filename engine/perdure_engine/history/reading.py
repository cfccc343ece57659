"""Saved events, straight from the store: history is append-only, so what is read is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_engine.core.errors import Code, Rejected, unavailable
from perdure_engine.core.events import Event
from perdure_engine.history.loading import decode_history
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

BATCHES_PER_READ = 64
PAGE_BYTES = 2 * 1024 * 1024  # a page of history that was read is not larger, but for its last read
EVENT_BYTES_GUESS = 64  # of an event's own fields; payload bytes are counted by their batch


async def read_events(shard: Shard, run_id: bytes, from_event_id: int, limit: int) -> list[Event]:
    """Up to `limit` saved events from an id on; fewer when they are large (PAGE_BYTES) or there are no more."""
    events: list[Event] = []
    more = True
    size = 0
    next_id = from_event_id
    while more and len(events) < limit and size < PAGE_BYTES:
        page, more, page_bytes = await _page(shard, run_id, next_id)
        if not page:
            break
        events += page
        size += page_bytes
        next_id = page[-1].event_id + 1
    return events[:limit]


async def read_task_events(
    shard: Shard, run_id: bytes, from_event_id: int, to_event_id: int, limit_bytes: int
) -> tuple[list[Event], int]:
    """Events from .. to (inclusive), cut at about `limit_bytes`; and the id to go on from, 0 when all were read."""
    events: list[Event] = []
    size = 0
    next_id = from_event_id
    while next_id <= to_event_id and size < limit_bytes:
        page, _, page_bytes = await _page(shard, run_id, next_id)
        if not page:
            raise Rejected(Code.DATA_LOSS, "HISTORY_INCOMPLETE", f"event {next_id} is missing")
        events += [event for event in page if event.event_id <= to_event_id]
        size += page_bytes
        next_id = page[-1].event_id + 1
    return events, next_id if next_id <= to_event_id else 0


async def _page(shard: Shard, run_id: bytes, from_event_id: int) -> tuple[list[Event], bool, int]:
    rooms = shard.rooms
    try:
        page = await rooms.store.load_history(
            shard.shard_id, run_id, from_event_id, BATCHES_PER_READ
        )
        events = decode_history(page.rows, rooms.codec)
    except StoreError as error:
        raise unavailable(
            "DATABASE_UNAVAILABLE", f"the database did not answer a read: {error}"
        ) from error
    except CorruptRow as error:
        raise Rejected(Code.DATA_LOSS, "HISTORY_CORRUPT", str(error)) from error
    wanted = [event for event in events if event.event_id >= from_event_id]
    if wanted and (
        wanted[0].event_id != from_event_id
        or wanted[-1].event_id - from_event_id + 1 != len(wanted)
    ):  # invariant 1: a gap is data loss, never a shorter history
        raise Rejected(
            Code.DATA_LOSS, "HISTORY_INCOMPLETE", f"events after {from_event_id} are missing"
        )
    return (
        wanted,
        page.more,
        sum(len(row.payload) for row in page.rows) + EVENT_BYTES_GUESS * len(wanted),
    )
