"""A running engine process, as those see it who started it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure_engine.frontend.frontend import About
from perdure_engine.server.lifecycle import Lifecycle


class Shards(Protocol):
    """The part of history that a node tells of."""

    number_of_shards: int

    def owned(self) -> frozenset[int]: ...


class Node:
    """`wiring.start_node` makes it; whoever has it stops it.

    `address` and `http_address` are host:port of the listeners.
    """

    def __init__(
        self,
        node_id: bytes,
        address: str,
        about: About,
        shards: Shards,
        lifecycle: Lifecycle,
        lease_valid: Callable[[], bool],
    ) -> None:
        self.node_id = node_id
        self.address = address
        self.http_address = ""
        self.about = about
        self.number_of_shards = shards.number_of_shards
        self._shards = shards
        self._lifecycle = lifecycle
        self._lease_valid = lease_valid
        self._open = False

    def opened(self) -> None:
        """All doors are open."""
        self._open = True

    def ready(self) -> bool:
        """Whether this node should be sent work: it serves, holds its lease, and is not stopping."""
        return self._open and not self._lifecycle.stopping and self._lease_valid()

    def owned_shards(self) -> frozenset[int]:
        return self._shards.owned()

    def describe(self) -> str:
        """A short text for people."""
        return (
            f"Perdure {self.about.version}\n"
            f"gRPC      {self.address}\n"
            f"HTTP      http://{self.http_address}\n"
            f"database  {self.about.database}\n"
            f"shards    {len(self.owned_shards())} of {self.number_of_shards} on this node\n"
        )

    async def stop(self) -> None:
        """Answer what was taken in, hand the shards over; return within lifecycle.STOP_S.

        Stopping twice is fine.
        """
        await self._lifecycle.stop()
