"""What stands around every command that talks to an engine: options, connection, errors, Ctrl-C."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
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


class Session:
    """What a command is given: how it was asked, where to print, and an engine when it wants one."""

    def __init__(self, settings: Settings, out: Output, at_end: AsyncExitStack) -> None:
        self.settings = settings
        self.out = out
        self._at_end = at_end

    @property
    def call_timeout(self) -> timedelta:
        return self.settings.call_timeout

    async def connect(self) -> Client:
        """Call it once, after the arguments have been checked: a mistake in them needs no engine.

        Raises RPCError UNAVAILABLE when no engine answers in time.
        """
        from perdure.cli.showing import SHOWING
        from perdure.client import Client  # gRPC takes longer to import than --help may take

        client = await Client.connect(
            self.settings.address,
            namespace=self.settings.namespace,
            data_converter=SHOWING,
            lazy=True,
        )
        self._at_end.push_async_callback(client.close)
        await client.core.connection.wait_ready(self.call_timeout.total_seconds())
        return client


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
        checked_by_typer: Callable[..., Awaitable[None]] = body

        def command(**values: Any) -> None:
            common = {one: values.pop(one) for one in _COMMON}
            run_session(Flags(**common), lambda session: checked_by_typer(session, **values))

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
    """Runs the body, and turns what it raises into a message and an exit code."""
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


async def _run(settings: Settings, out: Output, body: Callable[[Session], Awaitable[None]]) -> None:
    async with AsyncExitStack() as at_end:
        await body(Session(settings, out, at_end))
