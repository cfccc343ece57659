"""W8: a long workflow goes on at a worker that has never seen it."""

from __future__ import annotations

import asyncio

from perdure.bench.bed import Bed
from perdure.bench.report import Measured, median_run
from perdure.bench.workflows import ManySteps
from perdure.bench.workloads.throughput import warm_up
from perdure.client import WorkflowHandle

# Several, because one resumption is a single sample of a fraction of a second.
WORKFLOWS = 3
PROGRESS_INTERVAL_S = 0.5


async def w8(bed: Bed, n: int, in_flight: int) -> Measured:
    """`in_flight` has no meaning: one after the other resumes."""
    await warm_up(bed, 50, 50)
    bed.say(f"Running {WORKFLOWS} workflows of {n:,} activities each, one activity after the other")
    handles = await asyncio.gather(
        *(
            bed.client.start_workflow(
                ManySteps.run, n, id=bed.workflow_id(number), task_queue=bed.task_queue
            )
            for number in range(WORKFLOWS)
        )
    )
    for handle in handles:
        await _wait_for_steps(bed, handle, n)
    return median_run([await _resume(bed, handle, n) for handle in handles])


async def _wait_for_steps(bed: Bed, handle: WorkflowHandle[ManySteps, int], n: int) -> None:
    while (done := await handle.query(ManySteps.done)) < n:
        bed.say(f"{done:,} of {n:,}")
        await asyncio.sleep(PROGRESS_INTERVAL_S)


async def _resume(bed: Bed, handle: WorkflowHandle[ManySteps, int], n: int) -> Measured:
    # In order, so that nothing waits for the old worker: what a kill costs is W9's matter.
    bed.worker.stop()
    bed.worker.start()
    await bed.wait_for_pollers()
    bed.say("Resuming on a cold worker")
    with bed.measuring():
        await handle.signal(ManySteps.finish)
        done = await handle.result()
    assert done == n, f"{done} activities, not {n}"
    return Measured(
        n=n,
        units=n,
        seconds=bed.usage.seconds,
        usage=bed.usage,
        notes=[f"median of {WORKFLOWS}", "from the signal to the result"],
    )
