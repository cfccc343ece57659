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
TICK = timedelta(microseconds=1)
YEARS_SEARCHED_MAX = 40  # the longest that a date lets wait for itself: a fifth Monday in February
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
        """The first instant past `after`, an aware datetime. None: none comes within the years searched."""
        local = after.astimezone(self.zone)
        found = [self._first(after, wall_of(local)), self._in_second_pass(local)]
        return min((at for at in found if at is not None), default=None)

    def next_us(self, after_us: int) -> int:
        """As `next_after`, of an instant in µs; 0: there is none."""
        at = self.next_after(EPOCH + timedelta(microseconds=after_us))
        return 0 if at is None else us_of(at)

    def _in_second_pass(self, local: datetime) -> datetime | None:
        """Inside the first pass of what will be repeated: the first of the earlier times that come again."""
        if self._once or local.fold or local.utcoffset() == local.replace(fold=1).utcoffset():
            return None
        begin, end = self._changed(wall_of(local))
        wall = next(self._walls(begin - TICK), end)
        return self._shown(wall)[-1] if wall < end else None

    def _first(self, after: datetime, start: datetime) -> datetime | None:
        """Of what the clock shows later than `start`, which it shows at `after`.

        A time without an instant past `after` lies in a gap, or in the second pass of what comes once. All of that
        is left behind in one step: it may be an hour of seconds in every year.
        """
        last_year = 0
        while True:
            wall = next(self._walls(start), None)
            if wall is None:
                return None
            last_year = last_year or wall.year + YEARS_SEARCHED_MAX
            if wall.year > last_year:
                return None
            later = [at for at in self._instants(wall) if at > after]
            if later:
                return min(later)
            start = max(wall, self._changed(wall)[1] - TICK)

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
        return self._change(wall).replace(second=0)

    def _changed(self, wall: datetime) -> tuple[datetime, datetime]:
        """Of a time that is skipped or repeated: where all that is begins on the wall, and where it ends."""
        change = self._change(wall)
        new = wall_of(change.astimezone(self.zone))
        old = wall_of((change - TICK).astimezone(self.zone)) + TICK
        return min(old, new), max(old, new)

    def _change(self, wall: datetime) -> datetime:
        """Of a time that is skipped or repeated: the first instant with the new offset, a full second."""
        passes = [wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        low, high = min(passes), max(passes)
        new_offset = high.astimezone(self.zone).utcoffset()  # low is before the change
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) // 2
            if middle.astimezone(self.zone).utcoffset() == new_offset:
                high = middle
            else:
                low = middle
        return high.replace(microsecond=0)


def us_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def wall_of(at: datetime) -> datetime:
    """What the clock shows."""
    return at.replace(tzinfo=None, fold=0)
