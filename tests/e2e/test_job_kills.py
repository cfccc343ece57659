"""kill -9 in the middle of thousands of jobs (invariants 14, 25, 57): none is lost, none is run again that was not in
flight, and a dead worker's jobs are with another one within ten seconds.

The jobs leave a line in a file each time that they run, which no engine can take back.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from perdure import job
from perdure.bench.bed import Bed, Target, prepare
from perdure.bench.effects import Effect, count_in_flight, read_effects, repeated
from perdure.bench.processes import Child
from perdure.client import JobHandle
from perdure.job import JobStatus

JOBS = 16_000  # some seconds' worth: the kills must come before the last, also on a busy machine
REDELIVERED_S_MAX = 10.0
# A kill takes a moment, and so does a start: what is timed is the engine's part of it.
SLACK_S = 5.0
PATIENCE_S = 90.0
# Of one line of the file, at least: how many there are is told by its size.
LINE_BYTES = 90

pytestmark = pytest.mark.timeout(240)


async def ran(bed: Bed, least: int) -> None:
    """Returns when so many lines are there."""
    size = 0
    async with asyncio.timeout(PATIENCE_S):
        while size < least * LINE_BYTES:
            await asyncio.sleep(0.002)
            size = bed.effects.stat().st_size if bed.effects.exists() else 0


async def killed_after(bed: Bed, child: Child, least: int) -> float:
    """kill -9 of it, and of all below it, when so many jobs have run. Returns when it was gone, by the wall clock."""
    await ran(bed, least)
    child.kill()
    killed_s = time.time()
    child.start()
    return killed_s


@pytest.mark.soak
async def test_no_job_is_lost_and_none_is_repeated_without_a_reason() -> None:
    async with prepare("W4", Target(), None, lambda line: None) as bed:
        assert bed.engine is not None
        made = await bed.client.jobs.create_many(
            [job.new("record", number, queue=bed.task_queue) for number in range(JOBS)]
        )
        kills_s = [await killed_after(bed, bed.worker, JOBS // 4)]
        kills_s.append(await killed_after(bed, bed.engine.child, JOBS // 2))
        assert len(read_effects(bed.effects)) < JOBS, "all was over before the kills"
        await completed(bed)
        effects = read_effects(bed.effects)
        repetitions = repeated(effects)
        again = {same[0].key for same in repetitions}
        closed_s = {one.id: await close_time_s(one) for one in made if one.id in again}

    assert {effect.number for effect in effects} == set(range(JOBS))
    assert {effect.key for effect in effects} == {handle.id for handle in made}
    keys = {effect.number: effect.key for effect in effects}
    in_flight = count_in_flight(repetitions, kills_s, lambda number: closed_s.get(keys[number]))
    assert in_flight == sum(len(same) - 1 for same in repetitions)
    last_s = max(effect.at_s for effect in effects) - kills_s[-1]
    assert last_s < REDELIVERED_S_MAX + SLACK_S, f"{last_s:.1f} s"


async def completed(bed: Bed) -> None:
    """Returns when all jobs have completed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await bed.client.jobs.count(queue=bed.task_queue)
            if found.by_status == {JobStatus.COMPLETED: JOBS}:
                return
            await asyncio.sleep(0.1)


async def close_time_s(handle: JobHandle[object]) -> float | None:
    found = await handle.describe()
    return None if found.close_time is None else found.close_time.timestamp()


def test_what_counts_as_in_flight() -> None:
    """Else the test above would let pass what it is there to catch."""
    twice = [Effect("k", 1, 10.0), Effect("k", 1, 12.0)]

    assert count_in_flight([twice], [11.0], lambda _: 12.5) == 1
    assert count_in_flight([twice], [9.0], lambda _: 12.5) == 0
    assert count_in_flight([twice], [11.0], lambda _: 10.5) == 0
