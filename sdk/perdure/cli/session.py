"""What stands around every command that talks to an engine: options, connection, errors, Ctrl-C."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from perdure.cli.errors import CliError, ExitCode, exit_code_of, lines_of
from perdure.cli.output import Output
from perdure.cli.settings import Flags, OutputFormat, Settings, load_settings
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.client import Client

P = ParamSpec("P")

INTERRUPTED_NOTE = "Interrupted."


@dataclass(frozen=True)
class Session:
    """What a command is given: a connected client, where to print, how it was asked."""

    client: Client
    out: Output
    settings: Settings

    @property
    def call_timeout(self) -> timedelta:
        return self.settings.call_timeout


_COMMON = {
    "address": Annotated[
        str | None, typer.Option(help="Where the engine is: HOST:PORT.", metavar="HOST:PORT")
    ],
    "namespace": Annotated[str | None, typer.Option("--namespace", "-n", help="Which tenant.")],
    "output": Annotated[
        OutputFormat | None, typer.Option("--output", "-o", help="How data are printed.")
    ],
    "call_timeout": Annotated[
        str | None, typer.Option(help="How long to wait for an answer.", metavar="DURATION")
    ],
    "no_color": Annotated[bool, typer.Option("--no-color", help="No colours.")],
}


def connected(
    app: typer.Typer, name: str
) -> Callable[
    [Callable[Concatenate[Session, P], Awaitable[None]]],
    Callable[Concatenate[Session, P], Awaitable[None]],
]:
    """Makes `async def body(session, …)` the command `name` of `app`.

    The command takes the body's other parameters and those that all commands share. Rejected:
    options of the root command alone, because everybody writes them after the subcommand.
    """

    def register(
        body: Callable[Concatenate[Session, P], Awaitable[None]],
    ) -> Callable[Concatenate[Session, P], Awaitable[None]]:
        def command(**values: Any) -> None:
            common = {one: values.pop(one) for one in _COMMON}
            run_session(Flags(**common), lambda session: body(session, **values))

        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        shared = [
            inspect.Parameter(
                one,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if one == "no_color" else None,
                annotation=annotation,
            )
            for one, annotation in _COMMON.items()
        ]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
        setattr(command, "__signature__", inspect.Signature(parameters))  # noqa: B010 - mypy
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name, help=body.__doc__)(command)
        return body

    return register


def run_session(flags: Flags, body: Callable[[Session], Awaitable[None]]) -> None:
    """Runs the body with a client, and turns what it raises into a message and an exit code."""
    out = Output(OutputFormat.TABLE, color=not flags.no_color)
    try:
        settings = load_settings(flags, os.environ)
        out = Output(settings.output, color=settings.color)
        asyncio.run(_run(settings, out, body))
    except KeyboardInterrupt:
        out.note(INTERRUPTED_NOTE)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except (CliError, PerdureError) as error:
        fail(out, error)


def fail(out: Output, error: Exception) -> None:
    for line in lines_of(error):
        out.note(line, "red")
    raise typer.Exit(exit_code_of(error)) from None


async def _run(
    settings: Settings, out: Output, body: Callable[[Session], Awaitable[None]]
) -> None:
    from perdure.client import Client  # gRPC takes longer to import than --help may take

    async with await Client.connect(settings.address, namespace=settings.namespace) as client:
        await body(Session(client, out, settings))
