"""The whole engine inside a test's own process and event loop, for `perdure.testing`.

The SDK finds this module by the entry point `testing` of the group `perdure.engine`, and knows it by
two coroutines that return an `Engine`: `start_time_skipping` and `start_local`.

    skipping.py        an engine on the memory store, put together
    virtual_time.py    the database's time, which can jump; when it may
    only_node.py       membership without leases: there is nobody who could take a shard
    local.py           a node on an embedded PostgreSQL in a folder that goes with it

Nothing heavy is imported before one of them is asked for.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Engine(Protocol):
    """A running engine. `address` is host:port of its gRPC listener."""

    address: str
    skips_time: bool

    def now_us(self) -> int:
        """The engine's time: what workflows and timers go by."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when so much of the engine's time has passed and what fell due meanwhile has run.

        Where time is skipped it passes as fast as tasks allow.
        """
        ...

    def time_held(self) -> AbstractContextManager[None]:
        """While it is open, waiting for a result makes no time pass. `sleep` still does."""
        ...

    async def stop(self) -> None:
        """Stopping twice is fine."""
        ...


async def start_time_skipping() -> Engine:
    from perdure_engine.server.in_process.skipping import SkippingEngine

    return await SkippingEngine.start()


async def start_local() -> Engine:
    """Raises RuntimeError, with the reason, when an embedded PostgreSQL cannot run here."""
    from perdure_engine.server.in_process.local import LocalEngine

    return await LocalEngine.start()
