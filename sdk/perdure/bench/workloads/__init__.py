"""The workloads, by their ids; what each does is in WORKLOADS."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from perdure.bench.bed import Bed
from perdure.bench.report import Measured
from perdure.bench.workloads.fan_out import w10, w12
from perdure.bench.workloads.jobs import w4, w5
from perdure.bench.workloads.kills import w9
from perdure.bench.workloads.resume import w8
from perdure.bench.workloads.signals import w6
from perdure.bench.workloads.sleepers import w7
from perdure.bench.workloads.steady import schedules, sustained
from perdure.bench.workloads.throughput import w1, w2, w3
from perdure.bench.workloads.updates import w11

Run = Callable[[Bed, int, int], Awaitable[Measured]]
RunForWindow = Callable[[Bed, int, int, float], Awaitable[Measured]]


@dataclass(frozen=True)
class Workload:
    run: Run
    n: int
    """Unless told otherwise: of what, see WORKLOADS."""
    in_flight: int


def workloads(window_s: float) -> Mapping[str, Workload]:
    """`window_s`: how long those take that go on until they are told to end."""

    def for_window(run: RunForWindow) -> Run:
        async def run_for_window(bed: Bed, n: int, in_flight: int) -> Measured:
            return await run(bed, n, in_flight, window_s)

        return run_for_window

    return {
        "W1": Workload(w1, 10_000, 256),
        "W2": Workload(w2, 2_000, 64),
        "W3": Workload(w3, 500, 1),
        "W4": Workload(w4, 20_000, 1),
        "W5": Workload(w5, 2_000, 1),
        "W6": Workload(w6, 4_000, 16),
        "W7": Workload(for_window(w7), 10_000, 256),
        "W8": Workload(w8, 2_000, 1),
        "W9": Workload(w9, 2_000, 256),
        "W10": Workload(w10, 500, 1),
        "W11": Workload(w11, 500, 1),
        "W12": Workload(w12, 1_000, 1),
        "schedules": Workload(for_window(schedules), 10_000, 1),
        "sustained": Workload(for_window(sustained), 5_000, 1),
    }
