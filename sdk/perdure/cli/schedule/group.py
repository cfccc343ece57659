"""The command group that the modules beside this one add their commands to."""

import typer

app = typer.Typer(
    name="schedule", help="Run jobs and workflows at their times.", no_args_is_help=True
)
