"""`CronSpec`: what a cron schedule means (semantics §11). The only importer of croniter.

croniter searches, in plain wall-clock time without a zone; which schedules are accepted is decided here, and what a
change of the clocks does to them in `walls`. A schedule is *fixed-time* when neither its minute nor its hour field
begins with `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, CroniterError, croniter

from perdure_engine.core.limits import CRON_BYTES_MAX
from perdure_engine.core.schedules.model import GapPolicy, RepeatPolicy
from perdure_engine.scheduler.fields import KINDS, SECOND, CronFault, expanded
from perdure_engine.scheduler.walls import YEARS_SEARCHED_MAX, WallTimes

SPECS_KEPT_MAX = 1_024  # a fleet has few schedules, and each is used again and again
ZONE_PREFIX = "CRON_TZ="
ZONE_BYTES_MAX = 100  # the longest name has 32
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Nothing else parts words: what only looks like a blank is no part of the dialect.
_BLANKS = re.compile(r"[ \t]+")
# Any day: what has no time within the years searched from here never has one.
PROBE = datetime(2025, 1, 1, tzinfo=UTC)


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
        gap: GapPolicy = GapPolicy.RUN_AFTER,
        repeat: RepeatPolicy = RepeatPolicy.FIRST,
    ) -> None:
        if len(text.encode()) > CRON_BYTES_MAX:
            raise CronFault(f"is longer than {CRON_BYTES_MAX} bytes")
        words = [word for word in _BLANKS.split(text) if word]
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
        expression = " ".join(expanded(kind, word) for kind, word in zip(kinds, words, strict=True))
        fixed_time = not (minute.startswith("*") or hour.startswith("*"))
        try:
            self._search = croniter(
                expression,
                max_years_between_matches=YEARS_SEARCHED_MAX,
                second_at_beginning=True,
            )
            self._times = WallTimes(
                self._walls, self.zone, fixed=fixed_time, gap=gap, repeat=repeat
            )
            found = self.next_after(PROBE)
        except CroniterError as error:
            raise CronFault("is not of the dialect") from error
        if found is None:
            raise CronFault("never fires: there is no such date")

    def next_after(self, after: datetime) -> datetime | None:
        """The first instant past `after`, an aware datetime, at which it fires. None: there is none."""
        return self._times.next_after(after)

    def next_us(self, after_us: int) -> int:
        """As `next_after`, of an instant in µs; 0: there is none."""
        return self._times.next_us(after_us)

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """Its times on the wall clock, past `start`."""
        wall = start
        while True:
            try:
                # told each time where to begin: two searches may go on side by side
                wall = self._search.get_next(datetime, start_time=wall)
            except CroniterBadDateError:
                return
            yield wall


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
            return spec_of(schedule).next_us(after_us)
        except CronFault:  # of another version's dialect
            return 0


@lru_cache(maxsize=SPECS_KEPT_MAX)
def spec_of(text: str) -> CronSpec:
    return CronSpec(text)


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
    parts = name.split("/") if name.isascii() and len(name) <= ZONE_BYTES_MAX else [""]
    if all(part.replace("_", "").replace("-", "").replace("+", "").isalnum() for part in parts):
        found = files("tzdata").joinpath("zoneinfo", *parts)
        if found.is_file() and parts[-1][0].isupper():
            with found.open("rb") as data:
                return ZoneInfo.from_file(data, key=name)
    raise CronFault(f"there is no time zone {name[:50]!r}")
