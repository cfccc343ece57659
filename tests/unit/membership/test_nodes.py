"""The view of the nodes: who lives, who should own what, and who is told of a change."""

import asyncio
from collections.abc import Callable, Coroutine

from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.world import pass_time
from tests.unit.membership.fakes import FakeDatabase, FakeNode

from perdure_engine.membership.nodes import NOTICE_S, READ_EVERY_S

SHARDS = range(1, 65)


def run(main: Callable[[SimulatedLoop, FakeDatabase], Coroutine[object, object, None]]) -> None:
    async def within(loop: SimulatedLoop) -> None:
        await main(loop, FakeDatabase(loop))

    simulate(within)


async def started(
    loop: SimulatedLoop, database: FakeDatabase, name: str, region: str = ""
) -> FakeNode:
    node = FakeNode(loop, database, name, region)
    await loop.spawn(name, node.start())
    return node


def names(node: FakeNode) -> list[str]:
    return sorted(row.node_id.decode() for row in node.directory.live_nodes())


def owners(node: FakeNode) -> dict[int, bytes]:
    found = {}
    for shard_id in SHARDS:
        row = node.directory.owner_of(shard_id)
        assert row is not None
        found[shard_id] = row.node_id
    return found


def test_nodes_see_each_other_agree_on_owners_and_are_told_of_changes() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        changes: list[list[str]] = []
        one.directory.subscribe(lambda: changes.append(names(one)))
        assert set(owners(one).values()) == {b"n1"}

        two = await started(loop, database, "n2")
        await pass_time(READ_EVERY_S + 0.1)
        assert names(one) == names(two) == ["n1", "n2"]
        assert owners(one) == owners(two)
        assert set(owners(one).values()) == {b"n1", b"n2"}

        await pass_time(20)  # leases are renewed all the time: that is no change
        assert changes == [["n1", "n2"]]

        loop.kill("n2")
        await pass_time(10)
        assert changes == [["n1", "n2"], ["n1"]]
        assert set(owners(one).values()) == {b"n1"}

    run(main)


def test_invariant_26_whether_a_node_lives_is_judged_by_the_databases_clock() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        await started(loop, database, "n2")
        await pass_time(READ_EVERY_S + 0.1)
        loop.kill("n2")
        ends_us = database.nodes[b"n2"].lease_end_us
        while "n2" in names(one):
            one.clock.jump(0.05)  # this process's clock runs six times too fast
            await pass_time(0.01)
            assert one.directory.live_nodes(), "its own lease is renewed by the fast clock"
        assert database.clock.now_us() >= ends_us

    run(main)


def test_a_database_that_does_not_answer_leaves_the_view_as_it_was() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        await started(loop, database, "n2")
        await pass_time(READ_EVERY_S + 0.1)
        before = owners(one)
        changes: list[None] = []
        one.directory.subscribe(lambda: changes.append(None))
        database.down = True
        await pass_time(30)
        assert names(one) == ["n2"], "the own node lives while its lease holds"
        assert owners(one) == before
        database.down = False
        await pass_time(5)
        assert names(one) == ["n1", "n2"]
        assert owners(one) == before
        assert changes == []

    run(main)


def test_a_lease_in_doubt_does_not_move_shards() -> None:
    """The nodes are read, but the renewals' answers are lost: nothing may be given up for that."""

    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        await started(loop, database, "n2")
        await pass_time(READ_EVERY_S + 0.1)
        before = owners(one)
        database.deaf.add(b"n1")
        await pass_time(10)
        assert not one.directory.lease_valid()
        assert names(one) == ["n2"]
        assert owners(one) == before

    run(main)


def test_only_nodes_with_shards_are_on_the_ring() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        await database.renew_node(b"fe", "fe:7233", "", "frontend", 1, 60_000)
        await pass_time(READ_EVERY_S + 0.1)
        assert names(one) == ["fe", "n1"]
        assert set(owners(one).values()) == {b"n1"}

    run(main)


def test_a_shard_prefers_its_region() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1", "eu")
        one.directory._region_of_shard = lambda shard_id: "us" if shard_id % 2 else "eu"
        await started(loop, database, "n2", "us")
        await pass_time(READ_EVERY_S + 0.1)
        assert {shard_id for shard_id, node in owners(one).items() if node == b"n2"} == {
            shard_id for shard_id in SHARDS if shard_id % 2
        }

    run(main)


def test_a_node_that_leaves_is_off_every_ring_when_leave_returns() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        two = await started(loop, database, "n2")
        await pass_time(READ_EVERY_S + 0.1)
        leaving = loop.spawn("n1", one.directory.leave())
        await pass_time(0.1)
        assert b"n1" in set(owners(one).values()), "it gives nothing up before the others noticed"
        await leaving
        assert set(owners(one).values()) == {b"n2"}
        assert set(owners(two).values()) == {b"n2"}
        assert one.directory.lease_valid(), "its shards are still served"

    run(main)


def test_the_last_node_leaves_without_waiting() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase) -> None:
        one = await started(loop, database, "n1")
        began = loop.time()
        await asyncio.wait_for(one.directory.leave(), 1)
        assert loop.time() - began < NOTICE_S / 2
        await one.stop()
        await one.stop()
        await pass_time(10)
        assert database.nodes == {}

    run(main)
