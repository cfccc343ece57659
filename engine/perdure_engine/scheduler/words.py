"""A schedule in words, in English."""

from __future__ import annotations

from cron_descriptor import Options, get_description
from cron_descriptor.Exception import FormatException, MissingFieldException

from perdure_engine.core.instants import instant_text
from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    IntervalSpec,
    ScheduleSpec,
)
from perdure_engine.scheduler.calendars import YEAR, is_whole
from perdure_engine.scheduler.cron import CronSpec
from perdure_engine.scheduler.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    FieldKind,
)

DATES_SHOWN_MAX = 3
ANY = "*"
UNITS_MS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


def description_of(spec: CronSpec) -> str:
    """ "" for what the library has no words for."""
    options = Options()
    options.use_24hour_time_format = True
    options.day_of_week_start_index_zero = True
    options.verbose = False
    try:
        text: str = get_description(" ".join(spec.words), options)
    except (FormatException, MissingFieldException):
        return ""
    return text


def in_words(spec: ScheduleSpec, crons: list[CronSpec]) -> str:
    """`crons`: those of the spec, read."""
    parts = [description_of(cron) or " ".join(cron.words) for cron in crons]
    parts += [_interval(interval) for interval in spec.intervals]
    parts += [calendar.comment or _calendar(calendar) for calendar in spec.calendars]
    if len(spec.dates_us) > DATES_SHOWN_MAX:
        parts.append(f"At {len(spec.dates_us)} dates")
    elif spec.dates_us:
        parts.append("At " + ", ".join(instant_text(at_us) for at_us in sorted(spec.dates_us)))
    said = "; ".join(parts)
    if spec.exclude:
        said += ", except " + "; ".join(
            calendar.comment or _calendar(calendar) for calendar in spec.exclude
        )
    if spec.start_us:
        said += f", from {instant_text(spec.start_us)}"
    if spec.end_us:
        said += f", until {instant_text(spec.end_us)}"
    if spec.jitter_ms:
        said += f", up to {_duration(spec.jitter_ms)} later"
    return said if spec.timezone == "UTC" else f"{said} ({spec.timezone})"


def _interval(interval: IntervalSpec) -> str:
    said = f"Every {_duration(interval.every_ms, one='')}"
    return f"{said}, {_duration(interval.phase_ms)} later" if interval.phase_ms else said


def _duration(ms: int, *, one: str = "1 ") -> str:
    """In the largest unit that it is a multiple of. `one` stands before a single unit."""
    for unit, unit_ms in UNITS_MS:
        if ms % unit_ms == 0:
            count = ms // unit_ms
            return f"{one}{unit}" if count == 1 else f"{count} {unit}s"
    return f"{ms / 1000:g} seconds"


def _calendar(spec: CalendarSpec) -> str:
    times = [
        _ranges(kind, ranges) or "0"
        for kind, ranges in ((HOUR, spec.hour), (MINUTE, spec.minute), (SECOND, spec.second))
    ]
    if all(part.isdigit() for part in times):
        said = "At " + ":".join(part.zfill(2) for part in times)
    elif times == [ANY, ANY, ANY]:
        said = "At any time"
    else:
        said = "At hour {}, minute {}, second {}".format(*times)
    dates = {
        DAY_OF_MONTH: spec.day_of_month,
        MONTH: spec.month,
        DAY_OF_WEEK: spec.day_of_week,
        YEAR: spec.year,
    }
    return said + "".join(
        f", {kind.name} {numbers}"
        for kind, ranges in dates.items()
        if (numbers := _ranges(kind, ranges)) not in ("", ANY)
    )


def _ranges(kind: FieldKind, ranges: tuple[CalendarRange, ...]) -> str:
    if any(is_whole(kind, item) and item.step == 1 for item in ranges):
        return ANY
    return ",".join(_range(item) for item in ranges)


def _range(item: CalendarRange) -> str:
    said = str(item.start) if item.end in (0, item.start) else f"{item.start}-{item.end}"
    return f"{said}/{item.step}" if item.step != 1 else said
