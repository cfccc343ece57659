"""One run of the bench, from the command's options to the line of JSON."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

from perdure.bench.bed import Say, Target, prepare
from perdure.bench.profiling import Profiler
from perdure.bench.report import Figure, report_line
from perdure.bench.worker import loop_factory
from perdure.bench.workloads import workloads


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be run. None: the workload's own figure."""

    workload: str
    n: int | None
    in_flight: int | None
    window_s: float
    target: Target


def run_workload(order: Order, profiler: Profiler | None, say: Say) -> dict[str, Figure]:
    """Blocks until it has run. Raises what went wrong; leaves no process behind either way.

    Ctrl-C is a KeyboardInterrupt and SIGTERM a CancelledError, both after everything was stopped.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(order, profiler, say))


async def _run(order: Order, profiler: Profiler | None, say: Say) -> dict[str, Figure]:
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    workload = workloads(order.window_s)[order.workload]
    async with prepare(order.workload, order.target, profiler, say) as bed:
        measured = await workload.run(
            bed, order.n or workload.n, order.in_flight or workload.in_flight
        )
        return report_line(order.workload, measured)
