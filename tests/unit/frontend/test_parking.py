"""Parked calls: ended by what they wait for, by time, or by the node's stop."""

import asyncio

import pytest

from perdure_engine.frontend.parking import Parking


async def test_what_is_awaited_comes_back() -> None:
    parking = Parking()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.set_result(7)

    assert await parking.wait(future, 10) == 7
    assert len(parking) == 0


async def test_time_that_is_over_cancels_what_was_awaited() -> None:
    parking = Parking()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    assert await parking.wait(future, 0) is None
    assert future.cancelled()


async def test_closing_ends_every_wait_and_those_to_come() -> None:
    parking = Parking()
    futures: list[asyncio.Future[int]] = [
        asyncio.get_running_loop().create_future() for _ in range(3)
    ]
    waits = [asyncio.ensure_future(parking.wait(future, None)) for future in futures]
    while len(parking) < 3:
        await asyncio.tasks.sleep(0)  # one turn of the loop, no time
    parking.close()

    assert await asyncio.gather(*waits) == [None, None, None]
    assert all(future.cancelled() for future in futures)
    late: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    assert await parking.wait(late, None) is None
    parking.close()


async def test_a_cancelled_caller_is_cancelled() -> None:
    parking = Parking()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    wait = asyncio.ensure_future(parking.wait(future, None))
    while not len(parking):
        await asyncio.tasks.sleep(0)  # one turn of the loop, no time
    wait.cancel()

    with pytest.raises(asyncio.CancelledError):
        await wait
    assert future.cancelled()


async def test_a_timeout_of_what_is_awaited_is_not_taken_for_ours() -> None:
    parking = Parking()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.set_exception(TimeoutError("theirs"))

    with pytest.raises(TimeoutError, match="theirs"):
        await parking.wait(future, 10)
