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


ScheduleId = Annotated[str, typer.Argument(help="The schedule's id.", show_default=False)]
OverlapOf = Annotated[
    Overlap | None, typer.Option("--overlap", help="Instead of the schedule's policy.")
]
Note = Annotated[str, typer.Option(help="Why; stands on the schedule.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
