"""`perdure bench`: measures the engine on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.bench.profiling import ProfileFormat, ProfileOptions, Profiler, find_py_spy
from perdure.cli.errors import CliError, ExitCode, UsageError
from perdure.cli.output import Output
from perdure.cli.session import INTERRUPTED_NOTE, fail
from perdure.cli.settings import DEFAULT_NAMESPACE, OutputFormat, checked_address
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.bench.running import Order

N_MAX = 10_000_000
IN_FLIGHT_MAX = 100_000
WINDOW_S_MAX = 86_400.0
SHARDS_MAX = 65_536


class WorkloadId(StrEnum):
    W1 = "W1"
    W2 = "W2"
    W3 = "W3"
    W4 = "W4"
    W5 = "W5"
    W6 = "W6"
    W7 = "W7"
    W8 = "W8"
    W9 = "W9"
    W10 = "W10"
    W11 = "W11"
    W12 = "W12"
    SCHEDULES = "schedules"
    SUSTAINED = "sustained"


Workload = Annotated[
    WorkloadId,
    typer.Argument(
        case_sensitive=False,
        show_default=False,
        help="W1 one activity, W2 ten in a row, W3 an idle system, W4 jobs, W5 jobs due at once, "
        "W6 signals, W7 sleepers, W8 a cold worker, W9 kill -9, W10 fan-out, W11 updates, W12 fan-out by map; "
        "schedules: fire together each minute; sustained: jobs a second, with times of their own.",
    ),
]
N = Annotated[
    int | None, typer.Option("--n", min=1, max=N_MAX, help="How much; each has its own default.")
]
InFlight = Annotated[int | None, typer.Option(min=1, max=IN_FLIGHT_MAX, help="How many at a time.")]
JsonOnly = Annotated[bool, typer.Option("--json", help="The line of JSON alone, no table.")]
Address = Annotated[
    str | None,
    typer.Option(
        help="An engine that runs already, instead of one of our own. Its CPU is not counted.",
        metavar="HOST:PORT",
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="With --address: which one.")]
Shards = Annotated[int | None, typer.Option(min=1, max=SHARDS_MAX, help="Of our own engine.")]
Window = Annotated[
    float,
    typer.Option(min=0.1, max=WINDOW_S_MAX, help="W7, schedules, sustained: for how long, in s."),
]
ProfileFolder = Annotated[
    Path | None,
    typer.Option(help="Profile engine and worker with py-spy into this folder.", metavar="DIR"),
]
FormatOfProfile = Annotated[ProfileFormat, typer.Option(help="For speedscope, or stacks as text.")]


def bench(
    workload: Workload,
    n: N = None,
    in_flight: InFlight = None,
    json_only: JsonOnly = False,
    address: Address = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    shards: Shards = None,
    window: Window = 60.0,
    profile: ProfileFolder = None,
    profile_format: FormatOfProfile = ProfileFormat.SPEEDSCOPE,
) -> None:
    """Measure the engine on this machine; the last line is one JSON object.

    Starts an engine with a temporary database (durable settings on), a worker and a client.
    """
    out = Output(OutputFormat.JSON, color=not os.environ.get("NO_COLOR"))
    try:
        from perdure.bench.bed import Target
        from perdure.bench.running import Order

        if address is not None and shards is not None:
            raise UsageError("--shards is for an engine of our own, without --address")
        checked = None if address is None else checked_address(address)
        order = Order(
            workload=workload,
            n=n,
            in_flight=in_flight,
            window_s=window,
            target=Target(address=checked, namespace=namespace, shards=shards),
        )
        _run(order, _profiler(workload, profile, profile_format), out, json_only)
    except KeyboardInterrupt:
        out.note(INTERRUPTED_NOTE)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except asyncio.CancelledError:
        raise typer.Exit(ExitCode.TERMINATED) from None
    except (CliError, PerdureError) as error:
        fail(out, error)


def _run(order: Order, profiler: Profiler | None, out: Output, json_only: bool) -> None:
    from perdure.bench import proc
    from perdure.bench.processes import ProcessFailed
    from perdure.bench.running import run_workload

    if not proc.is_available():
        raise CliError("the bench counts the CPU of processes, and needs Linux with /proc for that")
    try:
        line = run_workload(order, profiler, out.note)
    except ProcessFailed as error:
        raise CliError(str(error)) from None
    if not json_only:
        out.fields({name: value for name, value in line.items() if value not in (None, "")})
    print(json.dumps(line))


def _profiler(workload: WorkloadId, folder: Path | None, format: ProfileFormat) -> Profiler | None:
    if folder is None:
        return None
    program = find_py_spy()
    if program is None:
        raise UsageError("--profile needs py-spy: pip install py-spy")
    return Profiler(program, ProfileOptions(folder, format), workload)
