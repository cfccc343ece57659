"""The simulation's loop: same seed same run, virtual time, deadlocks, nodes that stop and die."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.simulation.loop import Deadlock, Interrupted, SimulatedLoop, simulate
from tests.simulation.world import DatabaseClock, SeededIds, VirtualClock

ROOT = Path(__file__).parents[2]


async def crowd(loop: SimulatedLoop) -> list[str]:
    """Producers, consumers, timers, a gather and a time limit: something of everything."""
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=3)
    seen: list[str] = []

    async def produce(name: str) -> None:
        for number in range(10):
            await asyncio.sleep(0.01 * (number % 3))
            await queue.put(f"{name}{number}")

    async def consume() -> None:
        while True:
            seen.append(await queue.get())
            queue.task_done()

    consumers = [asyncio.ensure_future(consume()) for _ in range(3)]
    await asyncio.gather(*(produce(name) for name in "abcd"))
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await asyncio.Event().wait()
    return seen


def run_crowd(seed: int) -> tuple[list[str], str]:
    loop = SimulatedLoop(seed)
    try:
        return loop.run_until_complete(crowd(loop)), loop.trace_hash
    finally:
        loop.close()


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_crowd(7) == run_crowd(7)


def test_other_seeds_give_other_orders_and_lose_nothing() -> None:
    runs = [run_crowd(seed) for seed in range(20)]

    assert len({trace for _, trace in runs}) == 20
    assert len({tuple(seen) for seen, _ in runs}) > 1
    assert {tuple(sorted(seen)) for seen, _ in runs} == {tuple(sorted(runs[0][0]))}


def test_the_run_does_not_depend_on_pythons_hash_seed() -> None:
    program = "from tests.simulation.test_loop import run_crowd; print(run_crowd(11)[1])"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1")
    }

    assert hashes == {run_crowd(11)[1] + "\n"}


def test_time_stands_still_until_nothing_is_ready_and_then_jumps() -> None:
    async def main(loop: SimulatedLoop) -> list[float]:
        start = loop.time()
        times = []
        for _ in range(100):
            await asyncio.sleep(0)
        times.append(loop.time() - start)
        await asyncio.sleep(86_400)
        times.append(loop.time() - start)
        return times

    assert simulate(main) == [0.0, 86_400.0]


def test_waiting_for_what_nobody_will_do_is_a_failure() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"1 tasks wait: /1:.*main"):
        simulate(main)


def test_an_exception_that_nobody_handles_is_a_failure() -> None:
    async def main(loop: SimulatedLoop) -> None:
        loop.call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(Interrupted, match="ZeroDivisionError"):
        simulate(main)


def test_threads_are_refused() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(AssertionError, match="no threads"):
        simulate(main)


async def tick(log: list[float], loop: SimulatedLoop, done: list[str]) -> None:
    try:
        while True:
            await asyncio.sleep(1)
            log.append(loop.time())
    finally:
        done.append("finally")


def test_a_frozen_node_misses_its_timers_and_comes_back_late() -> None:
    async def main(loop: SimulatedLoop) -> tuple[list[float], list[float]]:
        frozen: list[float] = []
        other: list[float] = []
        ended: list[str] = []
        loop.spawn("a", tick(frozen, loop, ended))
        loop.spawn("b", tick(other, loop, ended))
        await asyncio.sleep(2.5)
        loop.freeze("a")
        await asyncio.sleep(3)
        loop.thaw("a")
        await asyncio.sleep(1.2)
        return frozen, other

    frozen, other = simulate(main)

    assert frozen == [1001.0, 1002.0, 1005.5, 1006.5]
    assert other == [1001.0, 1002.0, 1003.0, 1004.0, 1005.0, 1006.0]


def test_a_killed_node_runs_nothing_more_not_even_a_finally() -> None:
    ended: list[str] = []
    at_the_end: list[list[str]] = []

    async def child(log: list[float], loop: SimulatedLoop) -> None:
        await asyncio.ensure_future(tick(log, loop, ended))  # inherits the node

    async def main(loop: SimulatedLoop) -> list[float]:
        log: list[float] = []
        task = loop.spawn("a", child(log, loop))
        await asyncio.sleep(1.5)
        loop.kill("a")
        task.cancel()
        await asyncio.sleep(5)
        at_the_end.append(list(ended))
        return log

    assert simulate(main) == [1001.0]
    assert at_the_end == [[]]


def test_a_future_resolved_by_the_world_wakes_a_node_only_when_it_is_thawed() -> None:
    async def main(loop: SimulatedLoop) -> list[str]:
        answer = loop.create_future()
        log: list[str] = []

        async def wait() -> None:
            log.append(await answer)

        loop.spawn("a", wait())
        await asyncio.sleep(1)
        loop.freeze("a")
        answer.set_result("answer")
        await asyncio.sleep(1)
        log.append("still frozen")
        loop.thaw("a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return log

    assert simulate(main) == ["still frozen", "answer"]


def test_async_generators_and_their_ends_are_deterministic_too() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0.1)
            yield number

    async def main(loop: SimulatedLoop) -> list[int]:
        return [number async for number in numbers()]

    assert simulate(main) == [0, 1, 2]


def test_clocks_and_ids_come_from_the_loop_and_the_seed() -> None:
    async def main(loop: SimulatedLoop) -> tuple[float, int]:
        clock, database = VirtualClock(loop, offset=50.0), DatabaseClock(loop)
        started, started_us = clock.monotonic(), database.now_us()
        await clock.sleep(2.0)
        clock.jump(3.0)
        return clock.monotonic() - started, database.now_us() - started_us

    assert simulate(main) == (5.0, 2_000_000)
    ids = SeededIds(3)
    assert [ids.new_id() for _ in range(2)] == [b for b in two_ids(3)]
    assert two_ids(3) != two_ids(4)
    assert all(raw[6] >> 4 == 4 and len(raw) == 16 for raw in two_ids(3))


def two_ids(seed: int) -> list[bytes]:
    ids = SeededIds(seed)
    return [ids.new_id(), ids.new_id()]
