"""Side effects that can be counted: one line of a file for each time that an activity ran.

The file is outside of the engine, so that it shows what really happened: an attempt whose
completion was lost with its worker, and the attempt that repeated it.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure import activity


@dataclass(frozen=True)
class Effect:
    key: str
    """The activity's idempotency key: the same for every attempt."""
    number: int
    at_s: float
    """By the wall clock, which is also the engine's on this machine."""


class EffectLog:
    """Lines are appended by one write each, so that a kill -9 leaves whole lines only."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    @activity.defn(name="record")
    async def record(self, number: int) -> int:
        line = {"key": activity.info().idempotency_key, "number": number, "at_s": time.time()}
        os.write(self._descriptor, f"{json.dumps(line)}\n".encode())
        return number


def read_effects(path: Path) -> list[Effect]:
    """In the order in which they happened; none when no activity ran."""
    if not path.exists():
        return []
    return [Effect(**json.loads(line)) for line in path.read_text(encoding="ascii").splitlines()]


def repeated(effects: Iterable[Effect]) -> list[list[Effect]]:
    """Those that happened more than once, by key, each in order."""
    by_key: Mapping[str, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_key[effect.key].append(effect)
    return [same for same in by_key.values() if len(same) > 1]


def count_in_flight(
    repetitions: Sequence[Sequence[Effect]],
    kills_s: Sequence[float],
    completed_s: Callable[[int], float | None],
) -> int:
    """How many effects were repeated for no other reason than that a kill hit an attempt in flight.

    Such an attempt had its effect before a kill and no saved completion when it was run again:
    `completed_s` tells when the completion of a number's activity was saved, if ever. Anything else
    is the engine's fault: it ran again what it knew to be done, or what nobody had interrupted.
    """
    return sum(
        _was_in_flight(earlier, later, kills_s, completed_s(later.number))
        for same in repetitions
        for earlier, later in itertools.pairwise(same)
    )


def _was_in_flight(
    earlier: Effect, later: Effect, kills_s: Sequence[float], completed_s: float | None
) -> bool:
    was_killed = any(earlier.at_s <= kill_s <= later.at_s for kill_s in kills_s)
    return was_killed and (completed_s is None or completed_s >= later.at_s)
