"""A token bucket. Pure: the caller knows the time."""

from __future__ import annotations

BURST_S = 0.1  # of the rate may come at once: in any second at most a tenth more than the rate
WAIT_S_MIN = 0.001
ROUNDING = 1e-6  # of a token: what sums of parts may lack


class Pace:
    """`per_s` above 0. Starts full. Times are seconds of one steady clock."""

    def __init__(self, per_s: float, now: float) -> None:
        self.burst = max(1.0, per_s * BURST_S)
        self.per_s = per_s
        self._tokens = self.burst
        self._at = now

    def available(self, now: float) -> int:
        """How many may go now."""
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.per_s)
        self._at = now
        return int(self._tokens + ROUNDING)

    def use(self, count: int) -> None:
        self._tokens -= count

    @property
    def next_s(self) -> float:
        """How long after the last look one more may go."""
        return max(WAIT_S_MIN, (int(self._tokens + ROUNDING) + 1.0 - self._tokens) / self.per_s)
