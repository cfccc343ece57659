"""The process's real clock and its real ids."""

from __future__ import annotations

import asyncio
import os
import random
import time

# Linux's CLOCK_MONOTONIC stands still while the machine is suspended, and the leases of this node
# do not: after waking up it would trust them for longer than the database does. macOS's counts.
_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_VERSION_7 = 0x7000
_VARIANT = 0x80


class SystemClock:
    """Implements ports.clock.Clock."""

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK_ID)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIds:
    """Implements ports.clock.IdSource.

    The ids are UUIDs of version 7: what is made together lies together in the tables, and a batch
    touches few pages. Nothing relies on their order.
    """

    def new_id(self) -> bytes:
        milliseconds = time.time_ns() // 1_000_000
        noise = os.urandom(10)
        head = _VERSION_7 | (noise[0] & 0x0F) << 8 | noise[1]
        return b"%b%b%c%b" % (
            milliseconds.to_bytes(6, "big"),
            head.to_bytes(2, "big"),
            _VARIANT | noise[2] & 0x3F,
            noise[3:],
        )

    def jitter(self) -> float:
        return random.random()


def new_incarnation() -> int:
    """Larger than that of any earlier start on this machine, unless its clock was set back."""
    return time.time_ns() // 1_000
