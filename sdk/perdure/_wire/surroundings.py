"""Clock, chance and ids, handed in by whoever may fetch them (client.py, worker.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Surroundings:
    monotonic_s: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    """Evenly from [0, 1)."""
    new_uuid: Callable[[], str]
    """Canonical text, never the same twice."""
