"""`CronSpec`: what a cron schedule means (semantics §11). The only importer of croniter.

croniter searches, in plain wall-clock time without a zone; which schedules are accepted, and what a change of the
clocks does to them, is decided here. A schedule is *fixed-time* when neither its minute nor its hour field begins
with `*`: one of its times that the clocks skip comes at the first minute after the gap (or not at all: `Gap`), one
that they repeat comes once (or twice: `Overlap`). The others follow real time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, CroniterError, croniter

from perdure_engine.core.limits import CRON_BYTES_MAX
from perdure_engine.scheduler.fields import KINDS, SECOND, CronFault, expanded

SPECS_KEPT_MAX = 1_024  # a fleet has few schedules, and each is used again and again
YEARS_SEARCHED_MAX = 40  # the longest that a date lets wait for itself: a fifth Monday in February
ZONE_PREFIX = "CRON_TZ="
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Any day: what has no time within the years searched from here never has one.
PROBE = datetime(2025, 1, 1, tzinfo=UTC)


class Gap(enum.StrEnum):
    """What becomes of a fixed time that the clocks skip."""

    RUN_AFTER = "run-after"  # it comes at the first minute after the gap
    SKIP = "skip"


class Overlap(enum.StrEnum):
    """When a fixed time comes that the clocks show twice."""

    FIRST = "first"
    BOTH = "both"


class CronSpec:
    """A schedule that has been read. Raises CronFault for one that is not of the dialect, or never fires.

    `timezone`: an IANA name, "" for UTC; the text may name one itself instead (`CRON_TZ=`). With `seconds_first` there
    are six fields, or a macro.
    """

    def __init__(
        self,
        text: str,
        timezone: str = "",
        *,
        seconds_first: bool = False,
        gap: Gap = Gap.RUN_AFTER,
        overlap: Overlap = Overlap.FIRST,
    ) -> None:
        if len(text.encode()) > CRON_BYTES_MAX:
            raise CronFault(f"is longer than {CRON_BYTES_MAX} bytes")
        words = text.split()
        self.zone = _zone_of(words, timezone)
        words = _fields_of(words, seconds_first=seconds_first)
        self.words = tuple(words)  # as they were written, macros replaced
        minute, hour, day, _, weekday = words[-len(KINDS) :]
        stepped = "/" in day and weekday != "*", "/" in weekday and day != "*"
        if any(stepped):
            raise CronFault("a step in one of the day fields while the other one is restricted")
        if "#" in weekday and day != "*":
            raise CronFault("#n while the day of month is restricted")
        kinds = (SECOND, *KINDS)[-len(words) :]
        self._expression = " ".join(
            expanded(kind, word) for kind, word in zip(kinds, words, strict=True)
        )
        fixed_time = not (minute.startswith("*") or hour.startswith("*"))
        self._runs_after = fixed_time and gap is Gap.RUN_AFTER
        self._once = fixed_time and overlap is Overlap.FIRST
        try:
            found = self.next_after(PROBE)
        except CroniterError as error:
            raise CronFault("is not of the dialect") from error
        if found is None:
            raise CronFault("never fires: there is no such date")

    def next_after(self, after: datetime) -> datetime | None:
        """The first instant past `after`, an aware datetime, at which it fires. None: there is none."""
        local = after.astimezone(self.zone)
        try:
            return min(self._candidates(after, local))
        except CroniterBadDateError:
            return None

    def _candidates(self, after: datetime, local: datetime) -> list[datetime]:
        candidates = [self._first(after, self._walls(_wall(local)))]
        repeat = local.replace(fold=1)
        repeated = (local.utcoffset() or timedelta()) - (repeat.utcoffset() or timedelta())
        if not self._once and local.fold == 0 and repeated > timedelta():
            # inside the first pass of what will be repeated: the second pass shows earlier times again
            for wall in self._walls(_wall(local) - repeated):
                if wall > _wall(local):
                    break
                candidates += [at for at in self._instants(wall) if at > after]
        return candidates

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """Its times on the wall clock, past `start`."""
        found = croniter(
            self._expression,
            start,
            max_years_between_matches=YEARS_SEARCHED_MAX,
            second_at_beginning=True,
        )
        while True:
            wall: datetime = found.get_next(datetime)
            yield wall

    def _first(self, after: datetime, walls: Iterator[datetime]) -> datetime:
        while True:
            later = [at for at in self._instants(next(walls)) if at > after]
            if later:
                return min(later)

    def _instants(self, wall: datetime) -> list[datetime]:
        """When it comes: never, once, or twice."""
        shown = self._shown(wall)
        if not shown:
            return [self._after_gap(wall)] if self._runs_after else []
        return shown[:1] if self._once else shown

    def _shown(self, wall: datetime) -> list[datetime]:
        """The instants at which the clock shows it, in order: none, one, or two."""
        instants = {wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        return sorted(at for at in instants if _wall(at.astimezone(self.zone)) == wall)

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


class CronSpecs:
    """Implements ports.cron.Cron."""

    def fault(self, schedule: str) -> str:
        try:
            spec_of(schedule)
        except CronFault as fault:
            return str(fault)
        return ""

    def next_fire_us(self, schedule: str, after_us: int) -> int:
        try:
            at = spec_of(schedule).next_after(EPOCH + timedelta(microseconds=after_us))
        except CronFault:  # of another version's dialect
            return 0
        return 0 if at is None else (at - EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=SPECS_KEPT_MAX)
def spec_of(text: str) -> CronSpec:
    return CronSpec(text)


def _wall(at: datetime) -> datetime:
    return at.replace(tzinfo=None, fold=0)


def _zone_of(words: list[str], timezone: str) -> ZoneInfo:
    """The zone that the first word names, which is taken away; else the other one; else UTC."""
    if not words or not words[0].startswith(ZONE_PREFIX):
        return zone(timezone or "UTC")
    if timezone:
        raise CronFault("names a time zone beside the schedule's own")
    return zone(words.pop(0).removeprefix(ZONE_PREFIX))


def _fields_of(words: list[str], *, seconds_first: bool) -> list[str]:
    wanted = len(KINDS) + seconds_first
    if len(words) == 1:
        words = MACROS.get(words[0].lower(), "").split()
        if words and seconds_first:
            words = ["0", *words]
    if len(words) != wanted:
        count = "six fields, the seconds first," if seconds_first else "five fields,"
        raise CronFault(f"must have {count} or be one of @hourly … @yearly")
    return words


@lru_cache(maxsize=SPECS_KEPT_MAX)
def zone(name: str) -> ZoneInfo:
    """Of the tzdata package, not of the operating system: the same on each node. Raises CronFault."""
    parts = name.split("/")
    if all(part.replace("_", "").replace("-", "").replace("+", "").isalnum() for part in parts):
        found = files("tzdata").joinpath("zoneinfo", *parts)
        if found.is_file() and parts[-1][0].isupper():
            with found.open("rb") as data:
                return ZoneInfo.from_file(data, key=name)
    raise CronFault(f"there is no time zone {name[:50]!r}")
