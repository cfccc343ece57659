"""A lower bound of database time, from samples that come back with every statement (design §5).

`db_low = t_db + (monotonic now - monotonic at receipt)`: the database read its clock before we received the
answer, so the bound never runs ahead. The best (largest) of the samples of the last minute counts, and the
value never goes back within a process.
"""

from __future__ import annotations

from perdure_engine.ports.clock import Clock

SAMPLE_AGE_S_MAX = 60.0  # an older sample may have drifted: 60 s at 100 ppm is 6 ms


class DatabaseClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._best_us: int | None = None  # t_db - monotonic, of the window that fills now
        self._previous_us: int | None = None  # of the window before it
        self._window_ends = 0.0
        self._floor_us = 0

    def sample(self, database_us: int) -> None:
        """`database_us` was read by a statement whose answer has just come in."""
        now = self._clock.monotonic()
        offset = database_us - int(now * 1_000_000)
        if now >= self._window_ends:
            self._previous_us, self._best_us = self._best_us, None
            self._window_ends = now + SAMPLE_AGE_S_MAX / 2
        if self._best_us is None or offset > self._best_us:
            self._best_us = offset

    def low_us(self) -> int:
        """At most what the database's clock says now (µs). 0 before the first sample."""
        best, previous = self._best_us, self._previous_us
        if best is None or (previous is not None and previous > best):
            best = previous
        if best is not None:
            low = best + int(self._clock.monotonic() * 1_000_000)
            if low > self._floor_us:
                self._floor_us = low
        return self._floor_us
