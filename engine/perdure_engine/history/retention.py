"""Retention: runs and jobs that ended longer ago than their namespace keeps them leave the tables.

They are deleted, or put into the archive first (`archiving`), as the installation and the namespace say. No row is
written for it when a run closes, and no index is kept: now and then the owner of a shard walks through the list rows of
the shard by key, in pages, and hands what is too old to the shard. How often follows from the shortest retention: a row
is looked at about nine times in its life, and stays an eighth longer than asked for, a day at most. Rejected: a timer
row for each closed run (a row more for each start and close, to be deleted a week later) and an index by close time
(dearer still).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from perdure_engine.history.archiving import Archiving, Over, lateness_us
from perdure_engine.history.closed_runs import ClosedRuns
from perdure_engine.history.jobs.retention import JobsPass
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.archive import Archive
from perdure_engine.ports.jobs import JobRetentionStore
from perdure_engine.ports.store import ClosedRun, NamespaceRow, RetentionStore, StoreError

ROWS_PER_PAGE = 1_000
FIRST_PASS_AFTER_S = 60.0  # a process that has just started has more urgent things to do
PASS_EVERY_US_MIN = 60_000_000  # however short what is kept
RETRY_S = 60.0  # after a pass that the database did not let end
ARCHIVE_RETRY_S = 300.0  # after one in which the archive took nothing: each walks through all rows


class AllRetentionStore(RetentionStore, JobRetentionStore, Protocol):
    """What retention reads of runs and of jobs."""


class Retention:
    """Start it after the controller, stop it before."""

    def __init__(
        self,
        rooms: Rooms,
        store: AllRetentionStore,
        shards: Callable[[], Iterable[Shard]],
        others: Iterable[Callable[[], Awaitable[object]]] = (),
        archive: Archive | None = None,
    ) -> None:
        """`others`: what else is over its time, looked for after the runs. `archive` None: all is deleted."""
        self._rooms = rooms
        self._store = store
        self._shards = shards
        self._others = tuple(others)
        self.archiving = Archiving(rooms, archive)
        self._namespaces: dict[bytes, NamespaceRow] = {}  # as the last pass has read them
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        assert self._task is None, "started once"
        self._task = asyncio.get_running_loop().create_task(self._run(), name="retention")

    async def stop(self) -> None:
        """Stopping twice is fine. A removal that is under way is the writer's, and ends there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        pause_s = min(FIRST_PASS_AFTER_S, self._rooms.config.retention_pass_every_s)
        while True:
            # not all processes at the same time
            await self._rooms.clock.sleep(pause_s * (0.75 + self._rooms.ids.jitter() / 2))
            try:
                await self.run_once()
                for other in self._others:
                    await other()
                pause_s = self._pass_every_us() / 1_000_000
                if self.archiving.failed:
                    pause_s = min(pause_s, ARCHIVE_RETRY_S)
            except StoreError:
                pause_s = RETRY_S
            except Exception as error:  # a bug: the next pass may do better, and somebody must hear
                self._rooms.alarm("retention_failed", error=error)
                pause_s = RETRY_S

    def _pass_every_us(self) -> int:
        shortest_us = (
            min([row.retention_ms for row in self._namespaces.values()], default=0) * 1_000
        )
        most_us = round(self._rooms.config.retention_pass_every_s * 1_000_000)
        return min(most_us, max(PASS_EVERY_US_MIN, lateness_us(shortest_us)))

    async def run_once(self) -> int:
        """One pass over the shards that are ours; how many runs and jobs left the tables. Raises StoreError."""
        self.archiving.failed = False
        self._namespaces = {row.namespace_id: row for row in await self._store.list_namespaces()}
        self.archiving.pass_every_us = self._pass_every_us()
        left = 0
        for shard in list(self._shards()):
            left += await self._runs(shard)
            left += await JobsPass(shard, self._store, self.archiving, self._is_over).run()
        return left

    async def _runs(self, shard: Shard) -> int:
        async def read(after: bytes) -> tuple[Over[ClosedRun], bytes | None]:
            page = await self._store.load_closed_runs(shard.shard_id, after, ROWS_PER_PAGE)
            over = [
                (run, namespace)
                for run in page.runs
                if (namespace := self._is_over(run.namespace_id, run.close_us)) is not None
            ]
            return over, page.last_run_id

        return await self.archiving.clear(shard, ClosedRuns(shard, self._store), read)

    def _is_over(self, namespace_id: bytes, ended_us: int) -> NamespaceRow | None:
        """The namespace, if what ended in it then is over its retention. One that is not known keeps what it has: it
        may have been made by another node a moment ago."""
        namespace = self._namespaces.get(namespace_id)
        if namespace is None:
            return None
        is_over = ended_us + namespace.retention_ms * 1_000 <= self._rooms.database_clock.low_us()
        return namespace if is_over else None
