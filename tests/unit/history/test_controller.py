"""Ownership follows the ring: taken at once when free, given up gently, never held by two."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator

import pytest
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.world import SeededIds, pass_time
from tests.unit.history.ownership import Cluster, as_fence
from tests.unit.membership.fakes import row

from perdure_engine.history.controller import (
    GIVE_UP_PER_STEP_MAX,
    STOP_LIMIT_S,
    ShardController,
    free_fences,
)
from perdure_engine.membership.lease import LEASE_S
from perdure_engine.ports.store import (
    NO_NODE,
    FenceState,
    NodeRow,
    StoreUnavailable,
)


def run(
    main: Callable[[Cluster], Coroutine[object, object, None]], shards: int = 64, seed: int = 0
) -> None:
    async def within(loop: SimulatedLoop) -> None:
        await main(Cluster(loop, shards))

    simulate(within, seed)


def test_a_lone_node_has_all_512_shards_within_a_second_and_in_one_call() -> None:
    async def main(cluster: Cluster) -> None:
        began = cluster.loop.time()
        await cluster.start("n1")
        assert cluster.loop.time() - began < 0.1
        assert cluster.settled()
        assert cluster.database.calls.count("bump_fences") == 1

        cluster.database.calls.clear()
        await pass_time(30)
        assert set(cluster.database.calls) == {"renew_node", "list_nodes"}, "at rest it asks little"

    run(main, shards=512)


def test_a_new_node_gets_its_shards_a_few_at_a_time_and_each_gap_is_short() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        cluster.start("n2")
        most = 0
        for _ in range(1_500):
            await cluster.watch(0.01)
            most = max(most, sum(not cluster.servers(n) for n in cluster.database.fences))
        assert cluster.settled()
        assert {len(engine.shards.owned()) > 150 for engine in cluster.engines.values()} == {True}
        assert most <= GIVE_UP_PER_STEP_MAX
        assert max(cluster.gaps.values()) < 1.0
        assert all(len(released) == 1 for released in cluster.engines["n1"].shards.releases)

    run(main, shards=512)


def test_invariant_26_a_killed_nodes_shards_are_taken_when_its_lease_has_ended_not_before() -> None:
    """Fault F2, and F21 from the other side."""

    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        await cluster.start("n2")
        await cluster.watch(10)
        assert cluster.settled()
        cluster.kill("n2")
        ends_us = cluster.database.nodes[b"n2"].lease_end_us
        orphans = [n for n, f in cluster.database.fences.items() if f.owner_id == b"n2"]
        while cluster.database.clock.now_us() < ends_us:
            assert all(cluster.database.fences[n].owner_id == b"n2" for n in orphans)
            await cluster.watch(0.01)
        await cluster.watch(4)
        assert cluster.settled()
        assert max(cluster.gaps.values()) < LEASE_S + 4

    run(main)


@pytest.mark.parametrize("seed", range(5))
def test_invariants_25_and_29_a_node_stopped_for_20_s_serves_nothing_that_others_took(
    seed: int,
) -> None:
    """Fault F4."""

    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        await cluster.start("n2")
        await cluster.watch(8)
        for seconds in (20, 3, 7):
            cluster.freeze("n1")
            await cluster.watch(seconds)
            cluster.thaw("n1")
            await cluster.watch(12)
            assert cluster.settled()

    run(main, shards=16, seed=seed)


def test_a_rolling_restart_leaves_no_shard_alone_for_a_second() -> None:
    """Fault F3."""

    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        await cluster.start("n2")
        await cluster.watch(10)
        cluster.gaps.clear()
        stopping = cluster.stop("n1")
        await cluster.watch(6)
        assert stopping.done()
        assert cluster.settled()
        assert b"n1" not in cluster.database.nodes
        assert max(cluster.gaps.values()) < 1.0

    run(main)


def test_the_last_node_releases_everything_when_it_stops() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        engine = cluster.engines["n1"]
        await cluster.stop("n1")
        await engine.controller.stop()
        assert {fence.owner_id for fence in cluster.database.fences.values()} == {NO_NODE}
        assert engine.shards.releases == [sorted(cluster.database.fences)]

    run(main)


def test_stopping_without_the_database_ends_all_the_same() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        cluster.database.stalled_until = cluster.loop.time() + 1_000
        began = cluster.loop.time()
        await cluster.engines["n1"].controller.stop()
        assert cluster.loop.time() - began <= STOP_LIMIT_S + 0.1

    run(main)


# ---- what may be taken


def fence(shard_id: int, owner_id: bytes, range_id: int = 1) -> FenceState:
    return FenceState(shard_id, range_id, 1, owner_id, NO_NODE)


def node(name: str, *, alive: bool) -> NodeRow:
    return NodeRow(name.encode(), name, "", "history", 1, 0, alive)


def test_a_fence_is_free_when_its_owner_is_nobody_ourselves_unknown_or_dead() -> None:
    fences = [fence(1, NO_NODE), fence(2, b"me"), fence(3, b"gone"), fence(4, b"dead")]
    nodes = [node("me", alive=True), node("dead", alive=False), node("lives", alive=True)]

    assert free_fences([*fences, fence(5, b"lives")], nodes, b"me") == fences


def test_invariant_29_an_owner_that_comes_back_is_not_robbed_by_a_decision_made_before() -> None:
    """The taker has found the owner dead; then the owner renews; then the taker's bump arrives."""

    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        database = cluster.database
        cluster.freeze("n1")
        await pass_time(LEASE_S + 0.5)
        read: list[str] = []
        hold = asyncio.Event()
        taker = cluster.engines["n1"].shards  # only its lease and database are used below

        class Holding:
            async def read_fences(self, shard_ids: list[int]) -> list[FenceState]:
                read.append("fences")
                return await database.read_fences(shard_ids)

            async def list_nodes(self) -> list[NodeRow]:
                read.append("nodes")
                nodes = await database.list_nodes()
                await hold.wait()
                return nodes

        shards = FakeOwned()
        membership = FakeMembership(database_nodes=[row("n2")])
        controller = ShardController(shards, membership, Holding(), len(database.fences))
        step = asyncio.ensure_future(controller.step_once())
        await pass_time(0.1)
        cluster.thaw("n1")
        await cluster.watch(1)
        assert cluster.settled(), "the owner is back, and has proved it"
        hold.set()
        await step
        assert read == ["fences", "nodes"]
        assert shards.asked, "the scene is not set"
        assert await database.bump_fences([as_fence(f) for f in shards.asked], b"n2") == []
        assert len(taker.owned()) == len(database.fences)

    run(main, shards=4)


# ---- one controller alone


class FakeMembership:
    """Implements ports.membership.Membership for node n2; the test says what is true."""

    node_id = b"n2"
    address = "n2:7233"

    def __init__(self, database_nodes: list[NodeRow]) -> None:
        self.nodes = database_nodes
        self.valid = True
        self.owners: dict[int, NodeRow | None] = {}
        self.changed: list[Callable[[], None]] = []

    def lease_valid(self) -> bool:
        return self.valid

    def live_nodes(self) -> list[NodeRow]:
        return self.nodes

    def owner_of(self, shard_id: int) -> NodeRow | None:
        return self.owners.get(shard_id, row("n2"))

    def subscribe(self, changed: Callable[[], None]) -> None:
        self.changed.append(changed)


class FakeOwned:
    """Implements ports.shards.OwnedShards: remembers what it was asked."""

    def __init__(self, owned: frozenset[int] = frozenset()) -> None:
        self.now = owned
        self.asked: list[FenceState] = []
        self.released: list[int] = []
        self.when_released: Callable[[], None] | None = None

    def owned(self) -> frozenset[int]:
        return self.now

    async def acquire_many(self, fences: list[FenceState]) -> frozenset[int]:
        self.asked += fences
        return frozenset()

    async def release_many(self, shard_ids: list[int]) -> None:
        self.released += shard_ids
        self.now -= frozenset(shard_ids)
        if self.when_released is not None:
            self.when_released()

    def lapsed(self) -> None:
        raise AssertionError("not the controller's to call")


async def alone(
    cluster: Cluster, owned: frozenset[int]
) -> tuple[ShardController, FakeOwned, FakeMembership]:
    shards, membership = FakeOwned(owned), FakeMembership([row("n2")])
    controller = ShardController(shards, membership, cluster.database, len(cluster.database.fences))
    return controller, shards, membership


def test_a_node_whose_lease_is_not_valid_takes_nothing_and_gives_up_nothing() -> None:
    async def main(cluster: Cluster) -> None:
        controller, shards, membership = await alone(cluster, frozenset({1, 2}))
        membership.owners = {1: row("n1"), 2: row("n1")}
        membership.valid = False
        assert not await controller.step_once()
        assert (shards.asked, shards.released, cluster.database.calls) == ([], [], [])
        membership.valid = True
        await controller.step_once()
        assert len(shards.asked) == 2
        assert shards.released == [1, 2]

    run(main, shards=4)


def test_a_lease_lost_between_the_steps_ends_them() -> None:
    async def main(cluster: Cluster) -> None:
        controller, shards, membership = await alone(cluster, frozenset({1, 2, 3}))
        membership.owners = dict.fromkeys((1, 2, 3), row("n1"))

        def lose() -> None:
            membership.valid = False

        shards.when_released = lose
        await controller.step_once()
        assert shards.released == [1]

        controller, shards, membership = await alone(cluster, frozenset())
        step = asyncio.ensure_future(controller.step_once())
        await pass_time(0.001)
        membership.valid = False
        await step
        assert shards.asked == []

    run(main, shards=4)


def test_shards_are_given_up_only_to_a_live_other_node_as_the_view_is_at_that_moment() -> None:
    """Fault F24: a view that flaps."""

    async def main(cluster: Cluster) -> None:
        controller, shards, membership = await alone(cluster, frozenset({1, 2, 3, 4}))
        membership.owners = {1: None, 2: row("n1"), 3: row("n1")}

        def flap() -> None:
            membership.owners = {}

        shards.when_released = flap
        await controller.step_once()
        assert shards.released == [2]

    run(main, shards=4)


def test_a_change_of_the_members_is_acted_on_at_once() -> None:
    async def main(cluster: Cluster) -> None:
        controller, shards, membership = await alone(cluster, frozenset({1, 2, 3, 4}))
        await controller.start()
        await pass_time(0.3)
        membership.owners = {1: row("n1")}
        membership.changed[0]()
        await pass_time(0.01)
        assert shards.released == [1]
        await controller.stop()
        assert shards.owned() == frozenset()

    run(main, shards=4)


def test_a_database_that_does_not_answer_is_tried_again() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start("n1")
        engine = cluster.engines["n1"]
        await engine.shards.release_many([1, 2])
        cluster.database.down = True
        with pytest.raises(StoreUnavailable):
            await engine.controller.step_once()
        await pass_time(3)
        cluster.database.down = False
        await pass_time(2)
        assert cluster.settled()

    run(main, shards=4)


# ---- everything at once


@pytest.mark.parametrize("seed", range(25))
def test_invariants_25_27_29_random_stops_kills_and_outages_never_give_a_shard_to_two(
    seed: int,
) -> None:
    async def main(cluster: Cluster) -> None:
        ids = SeededIds(seed)
        names = iter(f"n{number}" for number in range(1, 1_000))
        for _ in range(3):
            cluster.start(next(names))
        await cluster.watch(5)
        for _ in range(20):
            await trouble(cluster, ids, names)
            await cluster.watch(ids.jitter() * 8, every_s=0.02)
        for name in list(cluster.frozen):
            cluster.thaw(name)
        cluster.database.down = False
        cluster.start(next(names))
        await cluster.watch(30, every_s=0.05)
        assert cluster.settled()

    run(main, shards=8, seed=seed)


async def trouble(cluster: Cluster, ids: SeededIds, names: Iterator[str]) -> None:
    """Something happens to one process or to the database."""
    running = [name for name in cluster.engines if name not in cluster.frozen]
    victim = running[int(ids.jitter() * len(running))] if running else ""
    dice = ids.jitter()
    cluster.database.down = False
    if dice < 0.3 and victim:
        cluster.freeze(victim)
    elif dice < 0.6 and cluster.frozen:
        cluster.thaw(sorted(cluster.frozen)[0])
    elif dice < 0.7:
        cluster.database.down = True
    elif dice < 0.8:
        cluster.database.stalled_until = cluster.loop.time() + ids.jitter() * 10
    elif dice < 0.9 and len(running) > 1:
        cluster.kill(victim)
        cluster.start(next(names))
    elif len(running) > 1:
        cluster.stop(victim)
        cluster.start(next(names))
