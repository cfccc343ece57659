"""W6: a signal to a waiting workflow, until what it changed can be seen."""

from __future__ import annotations

import asyncio
import itertools

from perdure.bench.bed import Bed
from perdure.bench.loops import closed_loop
from perdure.bench.report import Measured
from perdure.bench.workflows import Waiting

WARM_UP = 160


async def w6(bed: Bed, n: int, in_flight: int) -> Measured:
    bed.say(f"Starting {in_flight} workflows that wait")
    handles = await asyncio.gather(
        *(
            bed.client.start_workflow(
                Waiting.run, id=bed.workflow_id(number), task_queue=bed.task_queue
            )
            for number in range(in_flight)
        )
    )
    # Each signal carries a number that is higher than all before it.
    numbers = itertools.count(1)

    async def signal_and_see(lane: int, number: int) -> None:
        handle, told = handles[lane], next(numbers)
        await handle.signal(Waiting.tell, told)
        # One query is enough, because it sees every signal that was acknowledged. But that is the
        # engine's promise, and what is measured here is the reaction.
        while await handle.query(Waiting.seen) < told:
            pass

    bed.say(f"Warming up with {WARM_UP} signals")
    await closed_loop(WARM_UP, in_flight, signal_and_see, bed.say)
    bed.say(f"Sending {n:,} signals to {in_flight} workflows")
    with bed.measuring():
        latencies_s = await closed_loop(n, in_flight, signal_and_see, bed.say)
    return Measured(
        n=n,
        units=n,
        seconds=bed.usage.seconds,
        usage=bed.usage,
        latencies_s=latencies_s,
        notes=["reaction seen by query"],
    )
