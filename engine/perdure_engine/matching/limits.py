"""The limits that operators set on queues (table `queue_limits`), and this node's share of them.

Every node reads all rows once a second. A node's share is that of the shards which it owns, so that all nodes together
start what the limit says: for a second or two after shards have moved it may be a little more or less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure_engine.ports.jobs import QueueLimitStore
from perdure_engine.ports.store import StoreError

REFRESH_S = 1.0
REFRESH_TIMEOUT_S = 5.0
LEAST_PER_S = (
    0.01  # of a node that has no shards yet, as far as it knows: 0 would be no limit at all
)


class QueueLimits:
    """Implements ports.limits.QueueRates. `share`: between 0 and 1. `start` reads the rows; stopping twice is fine."""

    def __init__(self, store: QueueLimitStore, share: Callable[[], float]) -> None:
        self._store = store
        self._share_now = share
        self._share = 0.0
        self._rates: dict[tuple[bytes, str], float] = {}  # over the whole installation
        self._listeners: list[Callable[[], None]] = []
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def rate_of(self, namespace_id: bytes, queue: str) -> float:
        rate = self._rates.get((namespace_id, queue), 0.0)
        return max(rate * self._share, LEAST_PER_S) if rate else 0.0

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Read what the store has. Raises StoreError."""
        rows = await self._store.list_queue_limits()
        rates = {(row.namespace_id, row.queue): row.rate_per_s for row in rows if row.rate_per_s}
        share = self._share_now()
        if (rates, share) == (self._rates, self._share):
            return
        limited = bool(rates or self._rates)
        self._rates, self._share = rates, share
        if limited:
            for listener in self._listeners:
                listener()

    async def start(self) -> None:
        """Raises StoreError."""
        assert self._task is None, "started once"
        await self.refresh()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="queue limits")

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(REFRESH_S):
                    await self._stopping.wait()
            except TimeoutError:
                await self._refresh_once()

    async def _refresh_once(self) -> None:
        """What is known stays in force while the database does not answer."""
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self.refresh()
        except (StoreError, TimeoutError):
            return
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the limits of queues could not be read", "exception": error}
            )
