"""Which shards this node takes and gives up, so that what it owns follows the ring.

The ring says who should own a shard; the fence says who does. The controller moves the second
towards the first, slowly where that costs availability: a shard is given up only to a live node
that waits for it, one after the other, and taken at once when it is free.

A node whose lease is not valid does neither: what it believes may be old.

Taking is safe against an owner that is only slow, by the order of three steps: read the fences, then
judge their owners' leases by the database's clock, then bump the fences as they were read. An owner
that comes back to life after the second step finds that its lease had ended and bumps its own
fences; whichever of the two bumps comes first, the other one finds another fence and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from perdure_engine.ports.membership import Membership
from perdure_engine.ports.shards import OwnedShards
from perdure_engine.ports.store import FenceState, NodeRow, StoreError

log = logging.getLogger(__name__)

STEP_EVERY_S = 1.0
STEP_EVERY_S_MOVING = 0.25  # a shard in a planned move is without an owner for about this long
GIVE_UP_PER_STEP_MAX = 16  # at most so many at a time on their way to another node
STOP_LIMIT_S = 5.0  # without the database a release is not possible: the lease ends by itself


class OwnershipStore(Protocol):
    """What the controller reads: parts of CommitStore and MembershipStore."""

    async def read_fences(self, shard_ids: list[int]) -> list[FenceState]: ...

    async def list_nodes(self) -> list[NodeRow]: ...


def free_fences(
    fences: Iterable[FenceState], nodes: Iterable[NodeRow], node_id: bytes
) -> list[FenceState]:
    """Those fences whose owner is nobody, ourselves, or a node whose lease has ended.

    `nodes` must have been read after `fences`.
    """
    live_others = {node.node_id for node in nodes if node.alive and node.node_id != node_id}
    return [fence for fence in fences if fence.owner_id not in live_others]


class ShardController:
    """Start it after the membership, stop it before."""

    def __init__(
        self,
        shards: OwnedShards,
        membership: Membership,
        store: OwnershipStore,
        number_of_shards: int,
    ) -> None:
        self._shards = shards
        self._membership = membership
        self._store = store
        self._shard_ids = range(1, number_of_shards + 1)
        self._changed = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take what is free, then keep following the ring."""
        assert self._task is None, "started once"
        self._membership.subscribe(self._changed.set)
        pause_s = await self._step_and_pause()
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(pause_s), name="shard controller")

    async def stop(self) -> None:
        """Release all shards. To move them gently, let the membership leave first."""
        if self._stopping:
            return
        self._stopping = True
        self._changed.set()
        if self._task is not None:
            await self._task
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await self._shards.release_many(sorted(self._shards.owned()))
        except (StoreError, TimeoutError) as error:
            log.warning("shards were not released, others wait for the lease to end: %r", error)

    async def step_once(self) -> bool:
        """Take and give up what can be now. True: ring and ownership agree. Raises StoreError."""
        if not self._membership.lease_valid():
            return False
        owned = self._shards.owned()
        missing = [s for s in self._shard_ids if s not in owned and self._is_ours(s)]
        if missing:
            await self._take(missing)
        leaving = [s for s in sorted(owned) if self._is_for_another(s)]
        for shard_id in leaving[:GIVE_UP_PER_STEP_MAX]:
            # Asked again each time: a release takes as long as a commit, and views change.
            if self._membership.lease_valid() and self._is_for_another(shard_id):
                await self._shards.release_many([shard_id])
        return not missing and not leaving

    def _is_ours(self, shard_id: int) -> bool:
        node = self._membership.owner_of(shard_id)
        return node is not None and node.node_id == self._membership.node_id

    def _is_for_another(self, shard_id: int) -> bool:
        node = self._membership.owner_of(shard_id)
        return node is not None and node.node_id != self._membership.node_id

    async def _take(self, missing: list[int]) -> None:
        """Take those that are free. The order of the steps matters: see the module."""
        fences = await self._store.read_fences(missing)
        nodes = await self._store.list_nodes()
        free = free_fences(fences, nodes, self._membership.node_id)
        if free and self._membership.lease_valid():
            taken = await self._shards.acquire_many(free)
            log.info("took %d of %d shards", len(taken), len(free))

    async def _step_and_pause(self) -> float:
        """One step; never raises. Returns how long to wait for the next."""
        try:
            settled = await self.step_once()
        except StoreError as error:
            log.warning("shards could not be moved: %r", error)
            return STEP_EVERY_S
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the shard controller failed", "exception": error}
            )
            return STEP_EVERY_S
        return STEP_EVERY_S if settled else STEP_EVERY_S_MOVING

    async def _run(self, pause_s: float) -> None:
        while not self._stopping:
            await self._pause(pause_s)
            if not self._stopping:
                pause_s = await self._step_and_pause()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()
