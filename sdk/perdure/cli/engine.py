"""`perdure server`, `dev` and `db`, which live in the engine's package.

The SDK and the engine never import each other, so the commands are found by name, in the
entry-point group `perdure.engine`, and only when one of them is asked for: `perdure --help` needs
neither the engine nor a database driver.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from perdure.cli.errors import CliError

ENTRY_POINT_GROUP = "perdure.engine"

COMMANDS: Mapping[str, str] = {
    "dev": "Run everything on this machine: engine and an embedded PostgreSQL.",
    "server": "Run an engine process on a database of yours.",
    "db": "Create and upgrade the engine's tables.",
}
# The commands import these when they run, not when they are loaded: so they are looked for here.
NEEDED = ("alembic", "psycopg", "starlette", "structlog", "uvicorn")
EXTRAS: Mapping[str, str] = {"dev": "dev-server", "server": "server", "db": "server"}


class RootGroup(TyperGroup):
    """Puts the real command in the place of its entry in the help, once it has been chosen."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in COMMANDS and command is not None:
            try:
                command = load_engine_command(name)
            except CliError as error:
                # A shell that completes the line has no use for advice.
                if not ctx.resilient_parsing:
                    typer.echo(str(error), err=True)
                    raise typer.Exit(error.exit_code) from None
        return name, command, rest


def add_engine_commands(app: typer.Typer) -> None:
    for name, summary in COMMANDS.items():
        app.command(name, help=summary)(_placeholder)


def load_engine_command(name: str) -> Any:
    """The command, as typer runs it. Raises CliError that says what to install."""
    target = load_engine_part(name, f"perdure {name}", EXTRAS[name])
    if isinstance(target, typer.Typer):
        app = target
    else:
        app = typer.Typer(add_completion=False)
        app.command(name)(target)
    return typer.main.get_command(app)


def load_engine_part(
    name: str, what: str, extra: str = "server", needed: Sequence[str] = NEEDED
) -> Any:
    """What the engine's package names so. Raises CliError that says what to install for `what`."""
    found = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)
    if found is None:
        raise CliError(_advice(what, extra, "this installation of perdure names no engine"))
    missing = [module for module in needed if importlib.util.find_spec(module) is None]
    if missing:
        raise CliError(_advice(what, extra, f"{', '.join(missing)} not installed"))
    try:
        return found.load()
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0].startswith("perdure"):
            raise  # a defect of ours, which no installation would cure
        raise CliError(_advice(what, extra, f"{error.name} is not installed")) from None


def _advice(what: str, extra: str, reason: str) -> str:
    return (
        f"{what} needs the engine ({reason}). Install it with:\n    pip install 'perdure[{extra}]'"
    )


def _placeholder() -> None:
    raise AssertionError("resolve_command replaces it")
