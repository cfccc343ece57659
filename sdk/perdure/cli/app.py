"""The command `perdure`: its parts, put together."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from perdure.cli import (
    activity,
    audit,
    batch,
    bench,
    contract,
    demo,
    entity,
    job,
    namespace,
    queue,
    schedule,
    version,
    workflow,
)
from perdure.cli.engine import RootGroup, add_engine_commands
from perdure.cli.errors import ExitCode
from perdure.cli.version import perdure_version

HELP = (
    "Perdure runs workflows that must finish.\n\n"
    "Defaults come from PERDURE_ADDRESS, PERDURE_NAMESPACE, PERDURE_OUTPUT and PERDURE_CALL_TIMEOUT,"
    " or from the file PERDURE_CONFIG (~/.config/perdure/config.toml).\n\n"
    "Exit codes: 0 done, 1 error, 2 usage, 3 not found, 4 the workflow or job failed, 5 timed out,"
    " 6 cancelled, 130 interrupted."
)

app = typer.Typer(
    name="perdure",
    help=HELP,
    cls=RootGroup,
    no_args_is_help=True,
    # A trace with the values of local variables could show what should stay secret.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"perdure {perdure_version()}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    if no_color:
        # For whatever draws after this, and for the processes that are started here.
        os.environ["NO_COLOR"] = "1"


app.add_typer(workflow.app)
app.add_typer(namespace.app)
app.add_typer(schedule.app)
app.add_typer(job.app)
app.add_typer(queue.app)
app.add_typer(activity.app)
app.add_typer(batch.app)
app.add_typer(audit.app)
app.add_typer(entity.app)
app.add_typer(version.app)
app.add_typer(contract.app)
add_engine_commands(app)
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)


def main() -> None:
    """Runs the command line; always ends by SystemExit."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
