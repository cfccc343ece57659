"""How many jobs of a queue this node may start in a second, as matching asks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class QueueRates(Protocol):
    """The limits of all namespaces' queues, as this node knows them, and its share of each."""

    def rate_of(self, namespace_id: bytes, queue: str) -> float:
        """Starts of jobs in a second; 0: any."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have the listener called when some answer may be another one from now on."""
        ...


class NoRates:
    """Of a node without limits."""

    def rate_of(self, namespace_id: bytes, queue: str) -> float:
        return 0.0

    def on_change(self, listener: Callable[[], None]) -> None:
        pass
