"""The command group that the modules beside this one add their commands to."""

import typer

app = typer.Typer(
    name="workflow", help="Start workflows, look at them, talk to them.", no_args_is_help=True
)
