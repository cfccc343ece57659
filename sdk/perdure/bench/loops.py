"""Closed loops: so many at a time, each followed by the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from perdure.bench.bed import Say

PROGRESS_INTERVAL_S = 2.0


async def closed_loop(
    total: int, in_flight: int, one: Callable[[int, int], Awaitable[None]], say: Say
) -> list[float]:
    """Runs `one(lane, number)` for all numbers below `total`; returns how long each took, in s.

    Lanes are the numbers below `in_flight`; in a lane one follows the other. The first error ends
    all of them and is raised.
    """
    numbers = iter(range(total))
    latencies_s: list[float] = []

    async def run_lane(lane: int) -> None:
        for number in numbers:
            began_s = time.perf_counter()
            await one(lane, number)
            latencies_s.append(time.perf_counter() - began_s)

    lanes = [asyncio.ensure_future(run_lane(lane)) for lane in range(min(in_flight, total))]
    try:
        while any(not lane.done() for lane in lanes):
            done, _ = await asyncio.wait(
                lanes, timeout=PROGRESS_INTERVAL_S, return_when=asyncio.FIRST_EXCEPTION
            )
            for lane in done:
                lane.result()
            say(f"{len(latencies_s):,} of {total:,}")
    finally:
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
    return latencies_s
