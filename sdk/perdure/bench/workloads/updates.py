"""W11: an update of a waiting workflow, until its caller has the result."""

from __future__ import annotations

import asyncio

from perdure.bench.bed import Bed
from perdure.bench.loops import closed_loop
from perdure.bench.report import Measured
from perdure.bench.workflows import Waiting

WARM_UP = 50


async def w11(bed: Bed, n: int, in_flight: int) -> Measured:
    """`in_flight` workflows, with one update at a time each: 1 is an idle system."""
    handles = await asyncio.gather(
        *(
            bed.client.start_workflow(
                Waiting.run, id=bed.workflow_id(number), task_queue=bed.task_queue
            )
            for number in range(in_flight)
        )
    )

    async def add_one(lane: int, number: int) -> None:
        await handles[lane].execute_update(Waiting.add, 1)

    bed.say(f"Warming up with {WARM_UP} updates")
    await closed_loop(WARM_UP, in_flight, add_one, bed.say)
    bed.say(f"Sending {n:,} updates to {in_flight} workflows")
    with bed.measuring():
        latencies_s = await closed_loop(n, in_flight, add_one, bed.say)
    added = sum([await handle.execute_update(Waiting.add, 0) for handle in handles])
    assert added == WARM_UP + n, f"{added} updates happened, not {WARM_UP + n}"
    return Measured(
        n=n,
        units=n,
        seconds=bed.usage.seconds,
        usage=bed.usage,
        latencies_s=latencies_s,
        notes=["admitted, accepted and completed"],
    )
