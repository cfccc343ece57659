"""What was looked for and is not there. A caller that asks again and again for an id that nobody has would otherwise
cost some twenty requests each time."""

from __future__ import annotations

from collections import OrderedDict

from perdure_engine.ports.clock import Clock

# Nothing that is nowhere now can be in the archive before its retention is over, which is an hour at least.
KNOWN_S = 60.0
KNOWN_MAX = 10_000


class Misses:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: OrderedDict[object, float] = OrderedDict()

    def knows(self, asked: object) -> bool:
        return self._until.get(asked, 0.0) > self._clock.monotonic()

    def add(self, asked: object) -> None:
        self._until[asked] = self._clock.monotonic() + KNOWN_S
        self._until.move_to_end(asked)
        if len(self._until) > KNOWN_MAX:
            self._until.popitem(last=False)
