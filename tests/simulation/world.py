"""A simulation's surroundings: virtual clocks, ids that come from the seed, time that passes."""

from __future__ import annotations

import asyncio
import random

from tests.simulation.loop import SimulatedLoop


class VirtualClock:
    """Implements ports.clock.Clock over the loop's time.

    `offset` makes each node's clock its own. `jump` lets time pass for this clock alone, while the
    loop does not turn: what a process sees after it was held up for so long.
    """

    def __init__(self, loop: SimulatedLoop, offset: float = 0.0) -> None:
        self._loop = loop
        self._offset = offset

    def monotonic(self) -> float:
        return self._loop.time() + self._offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        assert seconds >= 0, "a monotonic clock never goes back"
        self._offset += seconds


class DatabaseClock:
    """The database's time in µs: virtual, and the only one that two nodes may compare."""

    def __init__(self, loop: SimulatedLoop, start_us: int = 1_700_000_000_000_000) -> None:
        self._loop = loop
        self._start_us = start_us - round(loop.time() * 1_000_000)

    def now_us(self) -> int:
        return self._start_us + round(self._loop.time() * 1_000_000)

    def jump(self, seconds: float) -> None:
        self._start_us += round(seconds * 1_000_000)


class SeededIds:
    """Implements ports.clock.IdSource: random bytes marked as UUID version 4, from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def new_id(self) -> bytes:
        raw = bytearray(self._random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        return bytes(raw)

    def jitter(self) -> float:
        return self._random.random()


async def pass_time(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


async def turns(count: int = 6) -> None:
    """Let the loop turn until what was called soon has happened; virtual time stands still."""
    for _ in range(count):
        await asyncio.sleep(0)
