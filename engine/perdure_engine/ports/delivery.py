"""How what one run, or a schedule, says to another comes to the other's shard, wherever that is served."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from perdure_engine.core.intents import DeliveredIntent
from perdure_engine.core.replies import Reply


class Delivery(Protocol):
    """Ends after the commit at the receiver, or raises core.errors.Rejected. UNAVAILABLE says nothing of whether
    it arrived: it is to be delivered again, and the receiver knows it by its ids."""

    number_of_shards: int

    def deliver(self, shard_id: int, intent: DeliveredIntent) -> Awaitable[object]: ...


class Peers(Protocol):
    """The other nodes of the cluster."""

    def deliver(self, shard_id: int, intent: DeliveredIntent) -> Awaitable[object]:
        """As Delivery, but for the reply, of which only a `RunStatus` is carried. UNAVAILABLE too when nobody is known
        to serve the shard, or the node there does not any more."""
        ...


class Receiver(Protocol):
    """The shards of this node, as the other nodes reach them."""

    def receive(self, shard_id: int, intent: DeliveredIntent) -> Awaitable[Reply]:
        """UNAVAILABLE with reason SHARD_MOVED for a shard that is not served here; nobody is asked further."""
        ...
