"""Options that several commands share, each described once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Overlap(StrEnum):
    SKIP = "skip"
    BUFFER_ONE = "buffer-one"
    BUFFER_ALL = "buffer-all"
    CANCEL_OTHER = "cancel-other"
    TERMINATE_OTHER = "terminate-other"
    ALLOW_ALL = "allow-all"


NOTHING = "none"
INTERVAL = typer.Option(
    "--interval",
    help="Every so often, the phase counted from midnight UTC: 6h, 6h/30m; again for more.",
    metavar="DURATION[/PHASE]",
    show_default=False,
)
DATE = typer.Option(
    "--date", help="Once at this time; again for more.", metavar="TIME", show_default=False
)
CALENDAR = typer.Option(
    "--calendar",
    help='When all fields match: {"dayOfWeek": "Mon-Fri", "hour": 9}. Second, minute and hour are'
    " 0 unless given, the others any; again for more.",
    metavar="JSON",
    show_default=False,
)
EXCLUDE = typer.Option(
    "--exclude",
    help='Not then, a calendar in which what is not given is any: {"month": 12, "dayOfMonth": 25} is'
    f" a whole day; again for more, {NOTHING} for no exclusion.",
    metavar="JSON",
    show_default=False,
)

ScheduleId = Annotated[str, typer.Argument(help="The schedule's id.", show_default=False)]
OverlapOf = Annotated[
    Overlap | None, typer.Option("--overlap", help="Instead of the schedule's policy.")
]
Note = Annotated[str, typer.Option(help="Why; stands on the schedule.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
