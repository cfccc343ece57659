"""Retention: runs that closed longer ago than their namespace keeps them are deleted.

No row is written for it when a run closes, and no index is kept: once an hour the owner of a shard
walks through the list rows of the shard by key, in pages, and hands what is too old to the shard.
Rejected: a timer row for each closed run (a row more for each start and close, to be deleted a week
later) and an index by close time (dearer still).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from perdure_engine.history.removing import Leaving
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.store import RetentionStore, StoreError

ROWS_PER_PAGE = 1_000
FIRST_PASS_AFTER_S = 60.0  # a process that has just started has more urgent things to do
RETRY_S = 60.0  # after a pass that the database did not let end
_BEFORE_ALL = bytes(16)


class Retention:
    """Start it after the controller, stop it before."""

    def __init__(
        self,
        rooms: Rooms,
        store: RetentionStore,
        shards: Callable[[], Iterable[Shard]],
        others: Iterable[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        """`others`: what else is over its time, looked for after the runs."""
        self._rooms = rooms
        self._store = store
        self._shards = shards
        self._others = tuple(others)
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
        pause_s = FIRST_PASS_AFTER_S
        while True:
            # not all processes at the same time
            await self._rooms.clock.sleep(pause_s * (0.75 + self._rooms.ids.jitter() / 2))
            try:
                await self.run_once()
                for other in self._others:
                    await other()
                pause_s = self._rooms.config.retention_pass_every_s
            except StoreError:
                pause_s = RETRY_S
            except Exception as error:  # a bug: the next pass may do better, and somebody must hear
                self._rooms.alarm("retention_failed", error=error)
                pause_s = RETRY_S

    async def run_once(self) -> int:
        """One pass over the shards that are ours; how many runs were handed to them. Raises StoreError."""
        retention_us = {
            row.namespace_id: row.retention_ms * 1_000
            for row in await self._store.list_namespaces()
        }
        handed = 0
        for shard in list(self._shards()):
            handed += await self._pass(shard, retention_us)
        return handed

    async def _pass(self, shard: Shard, retention_us: dict[bytes, int]) -> int:
        handed = 0
        after: bytes | None = _BEFORE_ALL
        while after is not None and not shard.closed and not shard.leaving:
            page = await self._store.load_closed_runs(shard.shard_id, after, ROWS_PER_PAGE)
            now_us = self._rooms.database_clock.low_us()
            for run in page.runs:
                kept_us = retention_us.get(run.namespace_id)
                if kept_us is not None and run.close_us + kept_us <= now_us:
                    handed += 1
                    shard.removing.add(
                        Leaving(
                            run.run_id, run.namespace_id, run.workflow_id, run.history_bytes, []
                        )
                    )
            await shard.removing.wait_idle()  # one page at a time: memory and the shard stay free
            after = page.last_run_id
        return handed
