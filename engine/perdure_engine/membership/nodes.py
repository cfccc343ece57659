"""The view of all nodes, and through the ring of all shards. Implements ports.membership.Membership.

The view is at most a few seconds old and may differ from another node's. That is fine: it says who
*should* own a shard. Who does is decided by leases and fences (design §9), so a view that flaps
moves shards about but never gives one to two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from perdure_engine.membership import ring
from perdure_engine.membership.lease import NodeLease
from perdure_engine.membership.periodic import Periodic
from perdure_engine.ports.clock import Clock
from perdure_engine.ports.store import MembershipStore, NodeRow, StoreError

log = logging.getLogger(__name__)

READ_EVERY_S = 2.0
READ_LIMIT_S = 2.5
# Until each other node has read that we are leaving: its pause, and time for the read itself.
NOTICE_S = READ_EVERY_S + 0.5
SHARD_ROLE = "history"


def no_region(shard_id: int) -> str:
    return ""


class NodeDirectory:
    """Start it after the lease, stop it before. `region_of_shard` "" is no preference."""

    def __init__(
        self,
        lease: NodeLease,
        store: MembershipStore,
        clock: Clock,
        region_of_shard: Callable[[int], str] = no_region,
    ) -> None:
        self.node_id = lease.node.node_id
        self.address = lease.node.address
        self._lease = lease
        self._store = store
        self._clock = clock
        self._region_of_shard = region_of_shard
        self._job = Periodic("node directory", self._refresh_and_pause, READ_EVERY_S)
        self._others: list[NodeRow] = []
        self._members: list[NodeRow] = []
        self._owners: dict[int, NodeRow | None] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._failing = False
        self._own: NodeRow | None = None  # how this node sees itself while it leaves

    async def start(self) -> None:
        """Read the nodes and go on reading. Raises StoreError or TimeoutError."""
        await self._read()
        self._job.start(READ_EVERY_S)

    async def stop(self) -> None:
        await self._job.stop()

    async def leave(self) -> None:
        """Before a planned stop: return when the others have stopped counting on this node.

        On its own ring it stays until then: shards released before the others have noticed would
        have no owner meanwhile. Released afterwards they find their new owner waiting.
        """
        self._own = self._lease.row()
        await self._lease.leave()
        if self._others:
            await self._clock.sleep(NOTICE_S)
        self._own = None
        self._judge()

    def lease_valid(self) -> bool:
        return self._lease.lease_valid()

    def live_nodes(self) -> list[NodeRow]:
        own = self._lease.row()
        return [own, *self._others] if own.alive else list(self._others)

    def owner_of(self, shard_id: int) -> NodeRow | None:
        """See the port. This node is on its own ring even while its lease is in doubt: whoever acts
        on the answer checks the lease, and a hiccup of the database must not move shards."""
        if shard_id not in self._owners:
            region = self._region_of_shard(shard_id)
            self._owners[shard_id] = ring.owner(shard_id, region, self._members)
        return self._owners[shard_id]

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._subscribers.append(changed)

    async def refresh_once(self) -> bool:
        """Read the nodes. False: no answer, the view stays as it was."""
        try:
            await self._read()
        except (StoreError, TimeoutError) as error:
            if not self._failing:
                log.warning("the nodes were not read: %r", error)
            self._failing = True
            return False
        self._failing = False
        return True

    async def _refresh_and_pause(self) -> float:
        await self.refresh_once()
        return READ_EVERY_S

    async def _read(self) -> None:
        async with asyncio.timeout(READ_LIMIT_S):
            rows = await self._store.list_nodes()
        self._others = [row for row in rows if row.alive and row.node_id != self.node_id]
        self._judge()

    def _judge(self) -> None:
        """Compute the ring's members; tell the subscribers if they are others than before."""
        nodes = [self._own or self._lease.row(), *self._others]
        members = [node for node in nodes if SHARD_ROLE in node.roles.split(",")]
        if set(map(_identity, members)) == set(map(_identity, self._members)):
            return
        self._members = members
        self._owners = {}
        for changed in self._subscribers:
            changed()


def _identity(node: NodeRow) -> tuple[bytes, str, str]:
    """What matters of a node to others; its lease's end is new at every look."""
    return node.node_id, node.address, node.region
