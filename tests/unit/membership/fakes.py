"""A database of nodes and fences across a simulated network, and nodes that live on it."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace
from tests.simulation.loop import SimulatedLoop
from tests.simulation.world import DatabaseClock, SeededIds, VirtualClock

from perdure_engine.membership.lease import NodeIdentity, NodeLease
from perdure_engine.membership.nodes import NodeDirectory
from perdure_engine.ports.store import (
    NO_NODE,
    Fence,
    FenceState,
    NodeRow,
    ShardRow,
    StoreUnavailable,
    TokenKeyRow,
)

T = TypeVar("T")


class FakeDatabase:
    """Implements ports.store.MembershipStore and the fences of CommitStore.

    A call takes a while each way; in between it takes effect in one instant, whether or not the
    caller still lives, waits, or is frozen. `down`: refused. `stalled_until`: held up until then.
    """

    def __init__(self, loop: SimulatedLoop, *, shards: int = 0, delay_s: float = 0.002) -> None:
        self.loop = loop
        self.clock = DatabaseClock(loop)
        self.delay_s = delay_s
        self.down = False
        self.stalled_until = 0.0
        self.deaf: set[bytes] = set()  # these nodes' renewals land, and the answers are lost
        self.nodes: dict[bytes, NodeRow] = {}
        self.fences = {n: FenceState(n, 0, 1, NO_NODE, NO_NODE) for n in range(1, shards + 1)}
        self.calls: list[str] = []
        self._ids = SeededIds(loop.seed)

    async def _call(self, name: str, effect: Callable[[], T], *, deaf: bool = False) -> T:
        self.calls.append(name)
        answer: asyncio.Future[T] = self.loop.create_future()

        def arrive() -> None:
            if self.loop.time() < self.stalled_until:
                self._later(self.stalled_until - self.loop.time(), arrive)
                return
            if self.down:
                self._later(self._travel_s(), lambda: refuse(answer))
                return
            result = effect()
            if not deaf:
                self._later(self._travel_s(), lambda: resolve(answer, result))

        self._later(self._travel_s(), arrive)
        return await answer

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        """On behalf of the world: an empty context has no node."""
        self.loop.call_later(seconds, call, context=contextvars.Context())

    def _travel_s(self) -> float:
        return self.delay_s * (0.5 + self._ids.jitter())

    # ---- MembershipStore

    async def renew_node(
        self, node_id: bytes, address: str, region: str, roles: str, incarnation: int, lease_ms: int
    ) -> int:
        def effect() -> int:
            now_us = self.clock.now_us()
            end_us = now_us + lease_ms * 1_000
            self.nodes[node_id] = NodeRow(
                node_id, address, region, roles, incarnation, end_us, True
            )
            return now_us

        return await self._call("renew_node", effect, deaf=node_id in self.deaf)

    async def release_node(self, node_id: bytes) -> None:
        await self._call("release_node", lambda: self.nodes.pop(node_id, None))

    async def list_nodes(self) -> list[NodeRow]:
        return await self._call("list_nodes", self.nodes_now)

    def nodes_now(self) -> list[NodeRow]:
        now_us = self.clock.now_us()
        return [replace(node, alive=node.lease_end_us > now_us) for node in self.nodes.values()]

    async def list_shards(self) -> list[ShardRow]:
        raise NotImplementedError

    async def put_shard(self, shard_id: int, node_id: bytes, address: str) -> None:
        raise NotImplementedError

    async def list_token_keys(self) -> list[TokenKeyRow]:
        raise NotImplementedError

    async def put_token_key(self, key_id: int, secret: bytes) -> bool:
        raise NotImplementedError

    # ---- the fences of CommitStore

    async def read_fences(self, shard_ids: list[int]) -> list[FenceState]:
        return await self._call("read_fences", lambda: [self.fences[n] for n in shard_ids])

    async def bump_fences(self, fences: list[Fence], new_owner_id: bytes) -> list[FenceState]:
        def effect() -> list[FenceState]:
            bumped = []
            for fence in fences:
                now = self.fences[fence.shard_id]
                if (now.range_id, now.owner_id) == (fence.range_id, fence.owner_id):
                    now = FenceState(
                        now.shard_id, now.range_id + 1, now.commit_seq, new_owner_id, now.batch_id
                    )
                    self.fences[now.shard_id] = now
                    bumped.append(now)
            return bumped

        return await self._call("bump_fences", effect)


def resolve(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():  # its caller gave up
        answer.set_result(result)


def refuse(answer: asyncio.Future[T]) -> None:
    if not answer.done():
        answer.set_exception(StoreUnavailable("down"))


def row(name: str, *, region: str = "", roles: str = "history", address: str = "") -> NodeRow:
    return NodeRow(name.encode(), address or name, region, roles, 1, 0, True)


class FakeNode:
    """One engine process: its clock, its lease, its view. Starts on behalf of a node of its name."""

    def __init__(
        self, loop: SimulatedLoop, database: FakeDatabase, name: str, region: str = ""
    ) -> None:
        self.name = name
        self.clock = VirtualClock(loop, offset=1_000.0 * len(name) + 7.0)
        self.lapses: list[float] = []
        identity = NodeIdentity(name.encode(), f"{name}:7233", region, "frontend,history", 1)
        self.lease = NodeLease(identity, database, self.clock, SeededIds(loop.seed))
        self.lease.on_lapse(lambda: self.lapses.append(loop.time()))
        self.directory = NodeDirectory(self.lease, database, self.clock)

    async def start(self) -> None:
        await self.lease.start()
        await self.directory.start()

    async def stop(self) -> None:
        await self.directory.stop()
        await self.lease.stop()

    def ends_us(self, database: FakeDatabase) -> int:
        """When its lease ends by the database's clock."""
        return database.nodes[self.name.encode()].lease_end_us
