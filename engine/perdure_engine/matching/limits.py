"""The limits that operators set on queues (table `queue_limits`), and this node's share of them.

Every node reads all rows once a second (`server.following`). A node's share is that of the shards
which it owns, so that all nodes together start what the limit says: for a second or two after shards
have moved it may be a little more or less.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure_engine.ports.jobs import QueueLimitStore

LEAST_PER_S = (
    0.01  # of a node that has no shards yet, as far as it knows: 0 would be no limit at all
)


class QueueLimits:
    """Implements ports.limits.QueueRates. `share`: between 0 and 1."""

    def __init__(self, store: QueueLimitStore, share: Callable[[], float]) -> None:
        self._store = store
        self._share_now = share
        self._share = 0.0
        self._rates: dict[tuple[bytes, str], float] = {}  # over the whole installation
        self._listeners: list[Callable[[], None]] = []

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
