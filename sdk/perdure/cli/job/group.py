"""The command group that the modules beside this one add their commands to, and what they share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(
    name="job", help="Run functions as jobs: now, or at a time.", no_args_is_help=True
)

JobId = Annotated[str, typer.Argument(help="The job's id.", show_default=False)]
Task = Annotated[str, typer.Option("--task", help="Only of this function.", show_default=False)]
Queue = Annotated[
    str, typer.Option("--queue", "-q", help="Only of this queue.", show_default=False)
]
User = Annotated[str, typer.Option("--user", help="Only this user's.", show_default=False)]
Schedule = Annotated[str, typer.Option("--schedule", help="Only of this schedule.")]
Batch = Annotated[str, typer.Option("--batch", help="Only of this batch.")]
FailureType = Annotated[
    str, typer.Option("--failure-type", help="Only those whose last failure is of this type.")
]


class DeadLetter(StrEnum):
    FAILED = "failed"
    POISONED = "poisoned"
    SUSPENDED = "suspended"


DeadLetters = Annotated[
    list[DeadLetter] | None,
    typer.Option("--status", help="Only these; again for more. All three unless given."),
]
Since = Annotated[
    str | None, typer.Option(help="Scheduled at or after: a time, or 2h ago.", metavar="TIME")
]
Until = Annotated[str | None, typer.Option(help="Scheduled before.", metavar="TIME")]
