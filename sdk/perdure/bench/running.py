"""One run of the bench, from the command's options to the line of JSON."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from dataclasses import dataclass

from perdure.bench.bed import Bed, Say, Target, prepare
from perdure.bench.profiling import Profiler
from perdure.bench.report import Figure, Measured, report_line
from perdure.bench.worker import loop_factory
from perdure.bench.workloads import workloads
from perdure.worker import tune_grpc

WATCH_INTERVAL_S = 0.5


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
    tune_grpc()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(order, profiler, say))


async def _run(order: Order, profiler: Profiler | None, say: Say) -> dict[str, Figure]:
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    workload = workloads(order.window_s)[order.workload]
    async with prepare(order.workload, order.target, profiler, say) as bed:
        work = workload.run(bed, order.n or workload.n, order.in_flight or workload.in_flight)
        return report_line(order.workload, await _watched(bed, work))


async def _watched(bed: Bed, work: Awaitable[Measured]) -> Measured:
    """Without this a worker that died by itself would be waited for without end.

    Workloads that stop, kill and restart processes do so without an await between, so that here
    nothing is ever seen missing which is not.
    """
    working = asyncio.ensure_future(work)
    try:
        while not working.done():
            await asyncio.wait((working,), timeout=WATCH_INTERVAL_S)
            bed.check()
        return working.result()
    finally:
        working.cancel()
        await asyncio.wait((working,))
