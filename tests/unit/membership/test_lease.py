"""The node's lease: trusted for less time than the database grants, and not after any gap."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.world import pass_time
from tests.unit.membership.fakes import FakeDatabase, FakeNode

from perdure_engine.membership.lease import (
    LATE_S,
    LEASE_S,
    MARGIN_S,
    PULSE_S,
    RENEW_EVERY_S,
    RENEW_LIMIT_S,
)
from perdure_engine.ports.store import StoreUnavailable


def run(
    main: Callable[[SimulatedLoop, FakeDatabase, FakeNode], Coroutine[object, object, None]],
    seed: int = 0,
) -> None:
    async def within(loop: SimulatedLoop) -> None:
        database = FakeDatabase(loop)
        await main(loop, database, FakeNode(loop, database, "n1"))

    simulate(within, seed)


async def valid_for(lease_valid: Callable[[], bool]) -> float:
    """Seconds until the lease is no longer valid, in steps of 10 ms."""
    for step in range(3_000):
        if not lease_valid():
            return step / 100
        await pass_time(0.01)
    raise AssertionError("valid for ever")


def test_a_lease_is_renewed_in_time_and_valid_throughout() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        assert not node.lease.lease_valid()
        await node.lease.start()
        for _ in range(600):
            assert node.lease.lease_valid()
            await pass_time(0.1)
        assert database.calls.count("renew_node") == pytest.approx(60 / RENEW_EVERY_S, abs=2)
        assert node.lapses == []
        await node.lease.stop()

    run(main)


def test_invariant_26_the_lease_counts_from_before_the_renewal_was_sent() -> None:
    """However long the answer took: the database may have counted from the very beginning."""

    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        await pass_time(0.1)
        database.delay_s = 1.0  # each way
        sent = loop.time()
        assert await node.lease.renew_once()
        answered = loop.time()
        assert answered - sent > 1.0
        database.down = True
        left = await valid_for(node.lease.lease_valid)
        assert sent + LEASE_S - MARGIN_S == pytest.approx(answered + left, abs=0.02)
        await node.lease.stop()

    run(main)


@pytest.mark.parametrize("how", ["down", "stalled", "deaf"])
def test_invariant_29_without_answers_the_node_stops_before_others_may_take_over(how: str) -> None:
    """Faults F18, F21, F23: the own clock ends the lease before the database's does."""

    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        await pass_time(7.3)
        ends_us = node.ends_us(database)
        if how == "down":
            database.down = True
        elif how == "stalled":
            database.stalled_until = loop.time() + 15
        else:
            database.deaf.add(b"n1")
        await valid_for(node.lease.lease_valid)
        assert database.clock.now_us() <= ends_us - 0.9 * MARGIN_S * 1_000_000

        database.down, database.deaf = False, set()
        await pass_time(20)
        assert node.lease.lease_valid()
        await node.lease.stop()

    run(main)


def test_a_failed_renewal_is_tried_again_soon_and_one_failure_costs_nothing() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        await pass_time(1.9)
        database.down = True
        await pass_time(1.0)
        database.down = False
        for _ in range(100):
            assert node.lease.lease_valid()
            await pass_time(0.1)
        assert node.lapses == []
        await node.lease.stop()

    run(main)


def test_a_slow_database_does_not_make_the_lease_flap() -> None:
    """Fault F17: 200 ms more for each statement."""

    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        database.delay_s = 0.2
        await node.lease.start()
        for _ in range(3_000):
            assert node.lease.lease_valid()
            await pass_time(0.1)
        assert node.lapses == []
        await node.lease.stop()

    run(main)


def test_a_renewal_has_a_time_limit_and_never_overlaps_another() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        in_flight = most = 0
        renew = database.renew_node
        took: list[float] = []

        async def counted(*args: object) -> int:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            began = loop.time()
            try:
                return await renew(*args)  # type: ignore[arg-type]
            finally:
                in_flight -= 1
                took.append(loop.time() - began)

        database.renew_node = counted  # type: ignore[assignment]
        database.stalled_until = loop.time() + 10
        together = [asyncio.ensure_future(node.lease.renew_once()) for _ in range(3)]
        await asyncio.gather(*together)
        await pass_time(10)
        assert most == 1
        assert max(took) == pytest.approx(RENEW_LIMIT_S)
        await node.lease.stop()

    run(main)


def test_invariant_26_a_stuck_loop_makes_the_lease_invalid_until_a_new_renewal_is_answered() -> (
    None
):
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        node.clock.jump(PULSE_S + LATE_S + 0.01)  # no callback ran, not even the pulse's
        assert not node.lease.lease_valid()
        await pass_time(PULSE_S + 0.1)  # the loop turns again: the pulse alone proves nothing
        assert not node.lease.lease_valid()
        assert await node.lease.renew_once()
        assert node.lease.lease_valid()
        await node.lease.stop()

    run(main)


def test_a_small_delay_of_the_loop_is_no_gap() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        node.clock.jump(LATE_S - 0.01)
        assert node.lease.lease_valid()
        await pass_time(5)
        assert node.lease.lease_valid()
        await node.lease.stop()

    run(main)


def test_a_renewal_sent_before_the_gap_proves_nothing() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        database.delay_s = 0.5
        in_flight = asyncio.ensure_future(node.lease.renew_once())
        await pass_time(0.1)
        node.clock.jump(PULSE_S + LATE_S + 0.01)
        assert await in_flight
        assert not node.lease.lease_valid()
        assert await node.lease.renew_once()
        assert node.lease.lease_valid()
        await node.lease.stop()

    run(main)


@pytest.mark.parametrize("seed", range(10))
def test_a_process_stopped_for_20_s_finds_out_before_it_trusts_its_lease_again(seed: int) -> None:
    """Fault F4. Whatever runs first after SIGCONT must see an invalid lease, then the lapse."""

    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        seen: list[tuple[bool, int]] = []

        async def look() -> None:
            while True:
                seen.append((node.lease.lease_valid(), len(node.lapses)))
                await pass_time(0.05)

        await loop.spawn("n1", node.lease.start())
        watcher = loop.spawn("n1", look())
        await pass_time(3)
        loop.freeze("n1")
        await pass_time(20)
        before = len(seen)
        loop.thaw("n1")
        await pass_time(2)
        watcher.cancel()
        after = seen[before:]
        assert after[0] == (False, 0)
        assert after[-1] == (True, 1)
        assert (True, 0) not in after, "trusted the lease before anybody was told of the lapse"

    run(main, seed)


def test_a_lapse_is_told_though_the_gap_was_only_in_the_database() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        database.down = True
        await pass_time(LEASE_S + 1)
        assert node.lapses == []
        database.down = False
        await pass_time(1)
        assert len(node.lapses) == 1
        await pass_time(20)
        assert len(node.lapses) == 1
        await node.lease.stop()

    run(main)


def test_stopping_releases_the_lease_and_nothing_renews_it_after() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        database.delay_s = 0.8
        await pass_time(RENEW_EVERY_S)  # a renewal is under way
        await node.lease.stop()
        await node.lease.stop()
        assert not node.lease.lease_valid()
        await pass_time(10)
        assert database.nodes == {}
        assert database.calls.count("release_node") == 1

    run(main)


def test_a_lease_that_cannot_be_had_at_the_start_is_an_error() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        database.down = True
        with pytest.raises(StoreUnavailable):
            await node.lease.start()
        assert not node.lease.lease_valid()
        await pass_time(5)
        assert database.calls == ["renew_node"]

    run(main)


def test_stopping_without_the_database_ends_all_the_same() -> None:
    async def main(loop: SimulatedLoop, database: FakeDatabase, node: FakeNode) -> None:
        await node.lease.start()
        database.stalled_until = loop.time() + 1_000
        began = loop.time()
        await node.lease.stop()
        assert loop.time() - began <= 2 * RENEW_LIMIT_S + 0.1

    run(main)
