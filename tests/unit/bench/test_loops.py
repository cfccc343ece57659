"""Closed loops."""

import asyncio

import pytest

from perdure.bench.loops import closed_loop


def nobody(text: str) -> None:
    pass


async def test_each_number_once_and_no_more_at_a_time_than_allowed() -> None:
    seen: list[int] = []
    lanes: set[int] = set()
    now, most = 0, 0

    async def one(lane: int, number: int) -> None:
        nonlocal now, most
        seen.append(number)
        assert lane not in lanes, "one after the other in a lane"
        lanes.add(lane)
        now += 1
        most = max(most, now)
        for _ in range(3):
            await asyncio.get_running_loop().run_in_executor(None, int)
        now -= 1
        lanes.remove(lane)

    latencies_s = await closed_loop(20, 4, one, nobody)

    assert sorted(seen) == list(range(20))
    assert most == 4
    assert len(latencies_s) == 20
    assert min(latencies_s) > 0


async def test_fewer_than_there_are_lanes() -> None:
    async def one(lane: int, number: int) -> None:
        assert lane in (0, 1)

    assert len(await closed_loop(2, 100, one, nobody)) == 2


async def test_the_first_error_ends_all_of_it() -> None:
    ended: list[int] = []

    async def one(lane: int, number: int) -> None:
        if lane == 1:
            raise ValueError("one of them")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(lane)

    with pytest.raises(ValueError, match="one of them"):
        await closed_loop(3, 3, one, nobody)

    assert sorted(ended) == [0, 2]


async def test_progress_ends_with_the_total() -> None:
    said: list[str] = []

    async def one(lane: int, number: int) -> None:
        pass

    await closed_loop(1000, 10, one, said.append)

    assert said[-1] == "1,000 of 1,000"
