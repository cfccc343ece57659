"""W10 and W12: one workflow starts many activities at once and gathers, or maps, them."""

from __future__ import annotations

from perdure.bench.bed import Bed
from perdure.bench.report import Measured, median_run
from perdure.bench.workflows import FanOut, MapOut
from perdure.bench.workloads.throughput import warm_up

RUNS = 5


async def w10(bed: Bed, n: int, in_flight: int) -> Measured:
    """`in_flight` has no meaning: all of them are."""
    await warm_up(bed, 50, 50)
    await _run(bed, n, "warm-up")
    return median_run([await _run(bed, n, str(number)) for number in range(RUNS)])


async def w12(bed: Bed, n: int, in_flight: int) -> Measured:
    """The same by `workflow.map`."""
    await warm_up(bed, 50, 50)
    await _run(bed, n, "warm-up", MapOut)
    return median_run([await _run(bed, n, str(number), MapOut) for number in range(RUNS)])


async def _run(
    bed: Bed, n: int, name: str, workflow: type[FanOut] | type[MapOut] = FanOut
) -> Measured:
    bed.say(f"Starting {n:,} activities at once")
    with bed.measuring():
        done = await bed.client.execute_workflow(
            workflow.run, n, id=bed.workflow_id(name), task_queue=bed.task_queue
        )
    assert done == n, f"{done} activities, not {n}"
    return Measured(
        n=n, units=n, seconds=bed.usage.seconds, usage=bed.usage, notes=[f"median of {RUNS}"]
    )
