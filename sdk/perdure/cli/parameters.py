"""Parameters that several commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

WorkflowId = Annotated[str, typer.Argument(help="The workflow's id.", show_default=False)]
MaybeWorkflowId = Annotated[
    str | None, typer.Argument(help="The workflow's id, unless --query is given.")
]
RunId = Annotated[
    str | None, typer.Option(help="One run of that id; the current one unless given.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", help="An argument as JSON; again for the next.", metavar="JSON"),
]
InputFiles = Annotated[
    list[str] | None,
    typer.Option(help="The same from a file, or from standard input (-).", metavar="FILE"),
]
Reason = Annotated[str, typer.Option(help="Stands in the history.")]
AuditReason = Annotated[str, typer.Option(help="Stands in the audit log.")]
Wait = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        help="How long to wait for the workflow; without end unless given.",
        metavar="DURATION",
    ),
]
