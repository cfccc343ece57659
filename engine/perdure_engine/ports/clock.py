"""Time, ids and randomness come in through here; only `server` (and the simulation) makes them."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds of this process's own steady clock. Never compared with another process's."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class IdSource(Protocol):
    def new_id(self) -> bytes:
        """16 bytes of a fresh UUID."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...
