"""`preview`: what a schedule means, before anything depends on it."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from perdure._schedules.times import ScheduleCalendarSpec
from perdure.cli.durations import parse_instant, parse_time
from perdure.cli.engine import load_engine_part
from perdure.cli.errors import UsageError
from perdure.cli.schedule.calendars import parse_calendar, parse_exclusions, parse_interval
from perdure.cli.schedule.group import app
from perdure.cli.schedule.options import CALENDAR, DATE, EXCLUDE, INTERVAL
from perdure.cli.session import Session, run_session
from perdure.cli.settings import Flags, OutputFormat

COUNT_DEFAULT = 5
COUNT_MAX = 1_000
NEEDED = ("cron_descriptor", "croniter", "tzdata")  # of the engine's own, by the preview


class Gap(StrEnum):
    RUN_AFTER = "run-after"
    SKIP = "skip"


class Overlap(StrEnum):
    FIRST = "first"
    BOTH = "both"


@app.command("preview")
def preview(
    cron: Annotated[
        list[str] | None,
        typer.Option(
            help="Five fields, or @hourly … @yearly; again for more.",
            metavar="EXPRESSION",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[list[str] | None, INTERVAL] = None,
    calendar: Annotated[list[str] | None, CALENDAR] = None,
    date: Annotated[list[str] | None, DATE] = None,
    exclude: Annotated[list[str] | None, EXCLUDE] = None,
    timezone: Annotated[
        str, typer.Option(help="Whose clock it goes by; UTC unless given.", metavar="ZONE")
    ] = "",
    after: Annotated[
        str | None,
        typer.Option(help="Times past this one; past now unless given.", metavar="TIME"),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=COUNT_MAX, help="How many times.")
    ] = COUNT_DEFAULT,
    seconds_first: Annotated[
        bool, typer.Option("--seconds-first", help="Six fields: the first are the seconds.")
    ] = False,
    gap: Annotated[
        Gap, typer.Option(help="What becomes of a fixed time that the clocks skip.")
    ] = Gap.RUN_AFTER,
    overlap: Annotated[
        Overlap, typer.Option(help="When a fixed time comes that the clocks show twice.")
    ] = Overlap.FIRST,
    output: Annotated[
        OutputFormat | None, typer.Option("--output", "-o", help="How data are printed.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    """Show the next times of a schedule, and what it says in words. Needs no engine.

    Exits with 2 for a schedule that is refused. As JSON: a list of times.
    """

    async def body(session: Session) -> None:
        now = datetime.now(UTC)
        when = _when(cron, interval, calendar, date, exclude)
        since = now if after is None else parse_instant(after, now)
        next_times = load_engine_part("schedule_preview", "perdure schedule preview", needed=NEEDED)
        try:
            found = next_times(
                timezone=timezone,
                after=since,
                count=count,
                seconds_first=seconds_first,
                gap=gap.value,
                overlap=overlap.value,
                **when,
            )
        except ValueError as refusal:
            raise UsageError(str(refusal)) from None
        if session.out.is_json:
            session.out.document([time.isoformat() for time in found.times])
            return
        if found.description:
            session.out.line(found.description, "bold")
        for time in found.times:
            session.out.line(time.isoformat())

    run_session(Flags(output=output, no_color=no_color), body)


def _when(
    cron: list[str] | None,
    interval: list[str] | None,
    calendar: list[str] | None,
    date: list[str] | None,
    exclude: list[str] | None,
) -> dict[str, Any]:
    """As the engine's preview takes it. Raises UsageError."""
    if not (cron or interval or calendar or date):
        raise UsageError("say when: --cron, --interval, --calendar or --date")
    intervals = [parse_interval(one) for one in interval or ()]
    return {
        "crons": cron or [],
        "intervals": [(one.every, one.offset or timedelta()) for one in intervals],
        "calendars": [_plain(parse_calendar(one)) for one in calendar or ()],
        "dates": [parse_time(one) for one in date or ()],
        "exclude": [_plain(one) for one in parse_exclusions(exclude or ())],
    }


def _plain(calendar: ScheduleCalendarSpec) -> dict[str, Any]:
    """Of types that the engine knows too."""
    plain: dict[str, Any] = {"comment": calendar.comment or ""}
    for field in fields(calendar):
        ranges = getattr(calendar, field.name)
        if field.name != "comment":
            plain[field.name] = [(one.start, one.end, one.step) for one in ranges]
    return plain
