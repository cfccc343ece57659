"""Membership of an engine that is alone with its store.

No lease: a lease says until when nobody else may take our shards, and nobody else can reach a store
in our memory. A real one would end whenever the database's time jumps, and whenever a debugger
holds the process.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure_engine.ports.store import NodeRow


class OnlyNode:
    """Implements ports.membership.Membership."""

    def __init__(self, row: NodeRow) -> None:
        self.node_id = row.node_id
        self.address = row.address
        self._row = row

    def lease_valid(self) -> bool:
        return True

    def live_nodes(self) -> list[NodeRow]:
        return [self._row]

    def owner_of(self, shard_id: int) -> NodeRow | None:
        return self._row

    def subscribe(self, changed: Callable[[], None]) -> None:
        """It never changes."""
