"""The clock of a test's engine."""

from __future__ import annotations

from perdure_engine.history.database_clock import DatabaseClock
from perdure_engine.server.in_process.virtual_time import VirtualTime

START_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000


class HandClock:
    """Implements ports.clock.Clock."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


def test_it_passes_like_the_clock_and_jumps_forward_only() -> None:
    clock = HandClock()
    time = VirtualTime(clock, START_US)
    assert time.now_us() == START_US

    clock.now += 1.5
    assert time.now_us() == START_US + 1_500_000
    time.jump_to(START_US + DAY_US)
    assert time.now_us() == START_US + DAY_US
    time.jump_to(START_US)
    assert time.now_us() == START_US + DAY_US
    clock.now += 1
    assert time.now_us() == START_US + DAY_US + 1_000_000


def test_one_sample_takes_the_lower_bound_along_and_never_ahead() -> None:
    """Invariant 21: what was sampled right after a jump is reached by db_low, and not passed."""
    clock = HandClock()
    time = VirtualTime(clock, START_US)
    low = DatabaseClock(clock)
    low.sample(time.now_us())

    for number in range(1, 50):
        clock.now += 0.000_3 * number
        time.jump_to(START_US + number * DAY_US)
        low.sample(time.now_us())
        assert START_US + number * DAY_US <= low.low_us() <= time.now_us()
