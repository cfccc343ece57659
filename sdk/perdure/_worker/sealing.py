"""Progress of activities on its way through a codec, which heartbeats cannot wait for.

Heartbeats leave from the guard thread, also while the event loop is stuck; codecs run on the loop.
So progress is encoded when the activity's code reports it, and heartbeats carry the latest that is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from perdure._wire.edge import PayloadEdge
from perdure._worker.holding import HeldTask, Progress

logger = logging.getLogger(__name__)


class ProgressWay(Protocol):
    """Where progress goes before heartbeats take it along: through a codec, or to another process."""

    def report(self, held: HeldTask, progress: Progress) -> None:
        """From any thread."""
        ...

    async def seal(self, held: HeldTask, progress: Progress) -> Progress:
        """On the loop: what is to be saved in its place."""
        ...


class Sealing:
    def __init__(self, edge: PayloadEdge, loop: asyncio.AbstractEventLoop) -> None:
        self._edge = edge
        self._loop = loop
        self._under_way: set[asyncio.Task[None]] = set()

    def report(self, held: HeldTask, progress: Progress) -> None:
        """From any thread. Of what is reported faster than it can be encoded the latest goes."""
        held.unsealed = progress
        if not held.sealing:
            held.sealing = True
            self._loop.call_soon_threadsafe(self._begin, held)

    async def seal(self, held: HeldTask, progress: Progress) -> Progress:
        """On the loop: for whoever can wait. Raises what the codec does."""
        held.unsealed = progress
        return Progress(await self._edge.encode_details(progress.details), progress.version)

    def _begin(self, held: HeldTask) -> None:
        task = self._loop.create_task(self._seal(held))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _seal(self, held: HeldTask) -> None:
        sealed: Progress | None = None
        while held.unsealed is not sealed:
            sealed = held.unsealed
            assert sealed is not None
            try:
                details = await self._edge.encode_details(sealed.details)
            except Exception as error:  # the attempt goes on, its progress is not saved
                logger.warning("progress of an activity cannot be encoded: %s", error)
            else:
                held.progress = Progress(details, sealed.version)
        held.sealing = False
        # What another thread reported between the last look and here found us at work.
        if held.unsealed is not sealed and not held.sealing:
            held.sealing = True
            self._begin(held)
