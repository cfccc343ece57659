"""`preview`: what a schedule means, before anything depends on it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from perdure.cli.durations import parse_instant
from perdure.cli.engine import load_engine_part
from perdure.cli.errors import UsageError
from perdure.cli.schedule.group import app
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
        str,
        typer.Option(
            help="The schedule: five fields, or @hourly … @yearly.",
            metavar="EXPRESSION",
            show_default=False,
        ),
    ],
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
    """Show the next times of a cron schedule, and what it says in words. Needs no engine.

    Exits with 2 for a schedule that is refused. As JSON: a list of times.
    """

    async def body(session: Session) -> None:
        now = datetime.now(UTC)
        since = now if after is None else parse_instant(after, now)
        next_times = load_engine_part("schedule_preview", "perdure schedule preview", needed=NEEDED)
        try:
            found = next_times(
                cron,
                timezone,
                after=since,
                count=count,
                seconds_first=seconds_first,
                gap=gap.value,
                overlap=overlap.value,
            )
        except ValueError as refusal:
            raise UsageError(f"--cron {cron!r}: {refusal}") from None
        if session.out.is_json:
            session.out.document([time.isoformat() for time in found.times])
            return
        if found.description:
            session.out.line(found.description, "bold")
        for time in found.times:
            session.out.line(time.isoformat())

    run_session(Flags(output=output, no_color=no_color), body)
