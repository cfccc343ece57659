"""Cron schedules. One implementation, `scheduler.cron`."""

from __future__ import annotations

from typing import Protocol


class Cron(Protocol):
    def fault(self, schedule: str) -> str:
        """What is wrong with it, for its author; "" when it can be used."""
        ...

    def next_fire_us(self, schedule: str, after_us: int) -> int:
        """The first instant past `after_us` at which it fires; 0: never again, or it cannot be read."""
        ...
