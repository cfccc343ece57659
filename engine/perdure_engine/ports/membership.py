"""Who lives, and who should own what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure_engine.ports.store import NodeRow


class Membership(Protocol):
    """This node's lease and its view of the others.

    `lease_valid` is judged by this process's own monotonic clock, counted from before the last renewal was sent,
    minus 1 s: when it says True, no other node may have taken our shards by the database's clock.
    """

    node_id: bytes
    address: str

    def lease_valid(self) -> bool: ...

    def live_nodes(self) -> list[NodeRow]:
        """As last read, this node included while its lease holds."""
        ...

    def owner_of(self, shard_id: int) -> NodeRow | None:
        """Which live node the ring gives the shard to. None: no node is known yet."""
        ...

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call `changed` on the event loop whenever the set of live nodes changes."""
        ...
