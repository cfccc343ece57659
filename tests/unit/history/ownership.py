"""A cluster for the controller's tests: shards that are fences only, and a watch over who serves."""

import asyncio

from tests.simulation.loop import SimulatedLoop
from tests.simulation.world import pass_time
from tests.unit.membership.fakes import FakeDatabase, FakeNode

from perdure_engine.history.controller import ShardController
from perdure_engine.ports.store import NO_NODE, Fence, FenceState, StoreError


class FakeShards:
    """Implements ports.shards.OwnedShards over the fences alone."""

    def __init__(self, database: FakeDatabase, node: FakeNode) -> None:
        self._database = database
        self._node = node
        self._fences: dict[int, FenceState] = {}
        self._unproven: set[int] = set()
        self._proving: asyncio.Future[None] | None = None
        self.releases: list[list[int]] = []
        node.lease.on_lapse(self.lapsed)

    def owned(self) -> frozenset[int]:
        return frozenset(self._fences)

    def serves(self, shard_id: int) -> bool:
        """Whether it would now answer from memory."""
        owned = shard_id in self._fences and shard_id not in self._unproven
        return owned and self._node.lease.lease_valid()

    async def acquire_many(self, fences: list[FenceState]) -> frozenset[int]:
        won = await self._bump(fences, self._node.name.encode())
        self._fences.update((fence.shard_id, fence) for fence in won)
        return frozenset(fence.shard_id for fence in won)

    async def release_many(self, shard_ids: list[int]) -> None:
        fences = [self._fences.pop(n) for n in shard_ids if n in self._fences]
        self.releases.append([fence.shard_id for fence in fences])
        await self._bump(fences, NO_NODE)

    def lapsed(self) -> None:
        self._unproven |= set(self._fences)
        self._proving = asyncio.ensure_future(self._prove())

    async def _prove(self) -> None:
        while self._unproven:
            asked = [self._fences[n] for n in self._unproven if n in self._fences]
            try:
                won = await self._bump(asked, self._node.name.encode())
            except StoreError:
                await pass_time(0.1)
                continue
            for fence in asked:
                self._fences.pop(fence.shard_id, None)
            self._fences.update((fence.shard_id, fence) for fence in won)
            self._unproven.clear()

    async def _bump(self, fences: list[FenceState], owner_id: bytes) -> list[FenceState]:
        return await self._database.bump_fences([as_fence(fence) for fence in fences], owner_id)


def as_fence(state: FenceState) -> Fence:
    return Fence(state.shard_id, state.range_id, state.commit_seq, state.owner_id)


class Engine(FakeNode):
    """An engine process as far as ownership goes."""

    def __init__(self, loop: SimulatedLoop, database: FakeDatabase, name: str) -> None:
        super().__init__(loop, database, name)
        self.shards = FakeShards(database, self)
        self.controller = ShardController(
            self.shards, self.directory, database, len(database.fences)
        )

    async def start(self) -> None:
        await super().start()
        await self.controller.start()

    async def stop(self) -> None:
        await self.directory.leave()
        await self.controller.stop()
        await super().stop()


class Cluster:
    """Engines on one database. `watch` runs beside a test and fails it when two serve one shard."""

    def __init__(self, loop: SimulatedLoop, shards: int) -> None:
        self.loop = loop
        self.database = FakeDatabase(loop, shards=shards)
        self.engines: dict[str, Engine] = {}
        self.frozen: set[str] = set()
        self.gaps: dict[int, float] = {}  # longest time without a server, per shard
        self._unserved_since: dict[int, float] = {}
        self._ranges: dict[int, int] = {}

    def start(self, name: str) -> asyncio.Task[None]:
        self.engines[name] = Engine(self.loop, self.database, name)
        return self.loop.spawn(name, self._start(name))

    async def _start(self, name: str) -> None:
        try:
            await self.engines[name].start()
        except (StoreError, TimeoutError):
            self.kill(name)  # the process exits with an error

    def stop(self, name: str) -> asyncio.Task[None]:
        return self.loop.spawn(name, self._stop(name))

    async def _stop(self, name: str) -> None:
        await self.engines[name].stop()
        self.engines.pop(name, None)

    def kill(self, name: str) -> None:
        self.loop.kill(name)
        del self.engines[name]

    def freeze(self, name: str) -> None:
        self.frozen.add(name)
        self.loop.freeze(name)

    def thaw(self, name: str) -> None:
        self.frozen.discard(name)
        self.loop.thaw(name)
        self.check()  # before any of its callbacks has run

    def servers(self, shard_id: int) -> list[str]:
        """Who would answer for the shard now. A frozen process answers nobody."""
        return [
            name
            for name, engine in self.engines.items()
            if name not in self.frozen and engine.shards.serves(shard_id)
        ]

    def check(self) -> None:
        now = self.loop.time()
        for shard_id, fence in self.database.fences.items():
            assert fence.range_id >= self._ranges.get(shard_id, 0), "invariant 27"
            self._ranges[shard_id] = fence.range_id
            servers = self.servers(shard_id)
            assert len(servers) <= 1, f"invariant 29: {servers} serve shard {shard_id}"
            if servers:
                since = self._unserved_since.pop(shard_id, now)
                self.gaps[shard_id] = max(self.gaps.get(shard_id, 0.0), now - since)
            else:
                self._unserved_since.setdefault(shard_id, now)

    async def watch(self, seconds: float, every_s: float = 0.01) -> None:
        for _ in range(round(seconds / every_s)):
            self.check()
            await pass_time(every_s)

    def settled(self) -> bool:
        """Each shard is served by the node that the ring gives it to."""
        for shard_id in self.database.fences:
            for engine in self.engines.values():
                node = engine.directory.owner_of(shard_id)
                if node is None or self.servers(shard_id) != [node.node_id.decode()]:
                    return False
        return True
