"""The command `perdure`: its parts, put together."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from perdure.cli import activity, audit, batch, bench, demo, entity, namespace, workflow
from perdure.cli.engine import RootGroup, add_engine_commands
from perdure.cli.errors import ExitCode
from perdure.cli.output import Output
from perdure.cli.settings import OutputFormat

HELP = (
    "Perdure runs workflows that must finish.\n\n"
    "Defaults come from PERDURE_ADDRESS, PERDURE_NAMESPACE, PERDURE_OUTPUT and PERDURE_CALL_TIMEOUT,"
    " or from the file PERDURE_CONFIG (~/.config/perdure/config.toml).\n\n"
    "Exit codes: 0 done, 1 error, 2 usage, 3 not found, 4 the workflow failed, 5 timed out,"
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
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    if no_color:
        # For whatever draws after this, and for the processes that are started here.
        os.environ["NO_COLOR"] = "1"


app.add_typer(workflow.app)
app.add_typer(namespace.app)
app.add_typer(activity.app)
app.add_typer(batch.app)
app.add_typer(audit.app)
app.add_typer(entity.app)
add_engine_commands(app)
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)


@app.command("version")
def version_command(
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="How it is printed.")
    ] = OutputFormat.TABLE,
) -> None:
    """Show the versions of Perdure and of Python."""
    found = {"perdure": perdure_version(), "python": platform.python_version()}
    if output is OutputFormat.JSON:
        Output(output, color=False).document(found)
    else:
        print(f"perdure {found['perdure']} (Python {found['python']})")


def perdure_version() -> str:
    try:
        return installed_version("perdure")
    except PackageNotFoundError:
        return "unknown"  # run from a checkout that is not installed


def main() -> None:
    """Runs the command line; always ends by SystemExit."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
