"""Times on the wall clock, and when they come: what a change of the clocks does to a schedule (semantics §11).

Whoever searches (`cron`, `calendars`) does it in plain wall-clock time without a zone. A *fixed* time that the clocks
skip comes at the first minute after the gap (or not at all: `GapPolicy`), one that they repeat comes once (or
twice: `RepeatPolicy`). What is not fixed follows real time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from perdure_engine.core.schedules.model import GapPolicy, RepeatPolicy

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Walls = Callable[[datetime], Iterator[datetime]]
"""Times on the wall clock strictly past the given one, in order; they end when there are no more."""


class WallTimes:
    """The instants of times on the wall clock of a zone."""

    def __init__(
        self, walls: Walls, zone: ZoneInfo, *, fixed: bool, gap: GapPolicy, repeat: RepeatPolicy
    ) -> None:
        self.zone = zone
        self._walls = walls
        self._runs_after = fixed and gap is GapPolicy.RUN_AFTER
        self._once = fixed and repeat is RepeatPolicy.FIRST

    def next_after(self, after: datetime) -> datetime | None:
        """The first instant past `after`, an aware datetime. None: there is none."""
        local = after.astimezone(self.zone)
        candidates = self._second_pass(after, local)
        first = self._first(after, self._walls(wall_of(local)))
        if first is not None:
            candidates.append(first)
        return min(candidates, default=None)

    def next_us(self, after_us: int) -> int:
        """As `next_after`, of an instant in µs; 0: there is none."""
        at = self.next_after(EPOCH + timedelta(microseconds=after_us))
        return 0 if at is None else us_of(at)

    def _second_pass(self, after: datetime, local: datetime) -> list[datetime]:
        """Inside the first pass of what will be repeated: the second pass shows earlier times again."""
        candidates: list[datetime] = []
        if self._once or local.fold:
            return candidates
        repeat = local.replace(fold=1)
        repeated = (local.utcoffset() or timedelta()) - (repeat.utcoffset() or timedelta())
        if repeated > timedelta():
            for wall in self._walls(wall_of(local) - repeated):
                if wall > wall_of(local):
                    break
                candidates += [at for at in self._instants(wall) if at > after]
        return candidates

    def _first(self, after: datetime, walls: Iterator[datetime]) -> datetime | None:
        for wall in walls:
            later = [at for at in self._instants(wall) if at > after]
            if later:
                return min(later)
        return None

    def _instants(self, wall: datetime) -> list[datetime]:
        """When it comes: never, once, or twice."""
        shown = self._shown(wall)
        if not shown:
            return [self._after_gap(wall)] if self._runs_after else []
        return shown[:1] if self._once else shown

    def _shown(self, wall: datetime) -> list[datetime]:
        """The instants at which the clock shows it, in order: none, one, or two."""
        instants = {wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        return sorted(at for at in instants if wall_of(at.astimezone(self.zone)) == wall)

    def _after_gap(self, wall: datetime) -> datetime:
        """The end of the gap that skips it."""
        skipped = wall.replace(tzinfo=self.zone)
        low, high = skipped.replace(fold=1).astimezone(UTC), skipped.astimezone(UTC)
        new_offset = high.astimezone(self.zone).utcoffset()  # low is before the change
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) // 2
            if middle.astimezone(self.zone).utcoffset() == new_offset:
                high = middle
            else:
                low = middle
        return high.replace(second=0, microsecond=0)


def us_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def wall_of(at: datetime) -> datetime:
    """What the clock shows."""
    return at.replace(tzinfo=None, fold=0)
