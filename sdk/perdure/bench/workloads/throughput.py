"""W1, W2, W3: how many workflows and activities, and how long each takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.bench.bed import Bed
from perdure.bench.loops import closed_loop
from perdure.bench.report import Measured
from perdure.bench.workflows import STEPS_OF_W2, OneStep, TenSteps

# Everything is imported, connected and planned by then. A workflow of W2 does ten times the work.
WARM_UP = 300
WARM_UP_W2 = 50
WARM_UP_W3 = 50


async def w1(bed: Bed, n: int, in_flight: int) -> Measured:
    return await _measure(bed, OneStep.run, n, in_flight, warm_up_n=WARM_UP)


async def w2(bed: Bed, n: int, in_flight: int) -> Measured:
    found = await _measure(bed, TenSteps.run, n, in_flight, warm_up_n=WARM_UP_W2)
    return Measured(
        n=n,
        units=n * STEPS_OF_W2,
        seconds=found.seconds,
        usage=found.usage,
        latencies_s=[one / STEPS_OF_W2 for one in found.latencies_s],
        notes=["latency: a workflow's, start to result, by its activities"],
    )


async def w3(bed: Bed, n: int, in_flight: int) -> Measured:
    return await _measure(bed, OneStep.run, n, in_flight, warm_up_n=WARM_UP_W3)


async def warm_up(bed: Bed, n: int, in_flight: int, workflow: Any = OneStep.run) -> None:
    bed.say(f"Warming up with {n} workflows")
    await _execute(bed, workflow, n, in_flight, "warm-up")


async def _measure(bed: Bed, workflow: Any, n: int, in_flight: int, *, warm_up_n: int) -> Measured:
    await warm_up(bed, warm_up_n, in_flight, workflow)
    bed.say(f"Running {n:,} workflows, {in_flight} at a time")
    with bed.measuring():
        latencies_s = await _execute(bed, workflow, n, in_flight, "run")
    return Measured(
        n=n, units=n, seconds=bed.usage.seconds, usage=bed.usage, latencies_s=latencies_s
    )


async def _execute(bed: Bed, workflow: Any, n: int, in_flight: int, prefix: str) -> Sequence[float]:
    async def one(lane: int, number: int) -> None:
        await bed.client.execute_workflow(
            workflow, id=bed.workflow_id(f"{prefix}-{number}"), task_queue=bed.task_queue
        )

    return await closed_loop(n, in_flight, one, bed.say)
