"""`perdure demo`: an order is worked on while its worker and its engine are killed.

story.py     what happens, in order          order.py   the workflow and its activities
proof.py     what must be true afterwards    ledger.py  the world outside: what really happened
timeline.py  how both are shown              worker.py  the worker's program
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli.errors import CliError, ExitCode
from perdure.cli.output import Output
from perdure.cli.session import INTERRUPTED_NOTE, fail
from perdure.cli.settings import OutputFormat
from perdure.errors import PerdureError


def demo(
    data: Annotated[
        Path | None,
        typer.Option(help="Keep the data here; otherwise they are removed.", metavar="DIR"),
    ] = None,
) -> None:
    """Watch an order survive kill -9 of its worker and of the engine, and check the proof.

    Exit code 1 when any part of the proof does not hold.
    """
    out = Output(OutputFormat.TABLE, color=not os.environ.get("NO_COLOR"))
    try:
        holds = _run(data, out)
    except KeyboardInterrupt:
        out.note(INTERRUPTED_NOTE)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except asyncio.CancelledError:
        raise typer.Exit(ExitCode.TERMINATED) from None
    except (CliError, PerdureError) as error:
        fail(out, error)
    else:
        raise typer.Exit(ExitCode.OK if holds else ExitCode.ERROR)


def _run(data: Path | None, out: Output) -> bool:
    from perdure.bench import proc
    from perdure.bench.processes import ProcessFailed
    from perdure.cli.demo.proof import check
    from perdure.cli.demo.story import tell
    from perdure.cli.demo.timeline import show_proof, show_timeline

    if not proc.is_available():
        raise CliError("the demo kills processes, and needs Linux with /proc for that")
    try:
        ended = asyncio.run(tell(data, out.note))
    except ProcessFailed as error:
        raise CliError(str(error)) from None
    show_timeline(out, ended)
    return show_proof(out, check(ended))
