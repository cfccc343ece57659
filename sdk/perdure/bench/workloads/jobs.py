"""W4: how many jobs, and how long one takes on an idle system. W5: how late those begin that are due at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure import job
from perdure.bench.arithmetic import percentile, ratio, rounded
from perdure.bench.bed import Bed
from perdure.bench.loops import closed_loop
from perdure.bench.processes import ProcessFailed
from perdure.bench.report import Figure, Measured
from perdure.bench.workloads.job_runs import jobs_since, lateness_s, wait_until_run
from perdure.job import JobStatus, NewJob

WARM_UP = 2_000
WARM_UP_ONE = 50
ONE_AT_A_TIME = 200
# When all have run: until the last completion is saved.
SETTLE_PAUSE_S = 0.02
# From the first call to the instant when all are due.
LEAD_S = 5.0
LEAD_S_PER_JOB = 1 / 4_000
# Many due at once must not hold up others: one every 50 ms, in a queue of their own.
MANY = 10_000
OTHERS_PAUSE_S = 0.05
OTHERS = 300


async def w4(bed: Bed, n: int, in_flight: int) -> Measured:
    """`in_flight` has no meaning here: all are made at once."""
    bed.say(f"Warming up with {WARM_UP:,} jobs")
    await _run_all(bed, WARM_UP)
    bed.say(f"Running {ONE_AT_A_TIME} jobs, one at a time")
    await closed_loop(WARM_UP_ONE, 1, _one(bed), bed.say)
    one_s = sorted(await closed_loop(ONE_AT_A_TIME, 1, _one(bed), bed.say))
    bed.say(f"Running {n:,} jobs")
    with bed.measuring():
        began = datetime.now(UTC)
        await _run_all(bed, n)
    ended = max([one.close_time or began for one in await jobs_since(bed, began)])
    figures: dict[str, Figure] = {
        "cpu_s_per_10k": rounded(ratio(bed.usage.total_s * 10_000, n), 4),
        "one_p50_ms": round(percentile(one_s, 0.5) * 1e3, 3),
        "one_p99_ms": round(percentile(one_s, 0.99) * 1e3, 3),
    }
    return Measured(
        n=n,
        units=n,
        seconds=(ended - began).total_seconds(),
        usage=bed.usage,
        figures=figures,
        notes=["create_many", "to the last completion by the engine's clock"],
    )


async def w5(bed: Bed, n: int, in_flight: int) -> Measured:
    """`in_flight` has no meaning here: all are due in the same second."""
    bed.say(f"Warming up with {WARM_UP:,} jobs")
    await _run_all(bed, WARM_UP)
    lead_s = LEAD_S + n * LEAD_S_PER_JOB
    bed.say(f"Making {n:,} jobs that are due in {lead_s:g} s")
    before = bed.job_log.count()
    began = datetime.now(UTC)
    due = began + timedelta(seconds=lead_s)
    others: Sequence[NewJob[Any]] = _others(bed, due) if n > MANY else ()
    with bed.measuring():
        await bed.client.jobs.create_many([*_due_at_once(bed, due, n), *others])
        left_s = (due - datetime.now(UTC)).total_seconds()
        if left_s <= 0:
            raise ProcessFailed(f"{n:,} jobs could not be made in {lead_s:g} s")
        await asyncio.sleep(left_s)
        await wait_until_run(bed.job_log, before + n + len(others))
    await _wait_until_saved(bed, began, n)
    await _wait_until_saved(bed, began, len(others), bed.other_queue)
    late_s = lateness_s(await jobs_since(bed, began, "late"))
    by_worker_s = sorted(bed.job_log.lateness_s())
    figures: dict[str, Figure] = {"min_ms": _ms(late_s[0])}
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        figures[f"worker_{name}_ms"] = _ms(percentile(by_worker_s, share))
    if others:
        others_s = lateness_s(await jobs_since(bed, began, "count", bed.other_queue))
        figures["others_p99_ms"] = _ms(percentile(others_s, 0.99))
    return Measured(
        n=n,
        units=n,
        seconds=late_s[-1],
        usage=bed.usage,
        latencies_s=late_s,
        figures=figures,
        notes=["lateness by the engine's clock", "seconds: from the due time to the last start"],
    )


def _one(bed: Bed) -> Callable[[int, int], Awaitable[None]]:
    async def one(lane: int, number: int) -> None:
        await bed.client.jobs.execute("count", {"number": number}, queue=bed.task_queue)

    return one


async def _run_all(bed: Bed, n: int) -> None:
    """Returns when all of them have completed, and that is saved."""
    before = bed.job_log.count()
    began = datetime.now(UTC)
    made = await bed.client.jobs.create_many(
        [job.new("count", {"number": number}, queue=bed.task_queue) for number in range(n)]
    )
    assert len(made) == n
    await wait_until_run(bed.job_log, before + n)
    await _wait_until_saved(bed, began, n)


async def _wait_until_saved(bed: Bed, began: datetime, n: int, queue: str | None = None) -> None:
    """Returns when so many have completed. They have all run."""
    completed = 0
    while completed < n:
        await asyncio.sleep(SETTLE_PAUSE_S)
        found = await bed.client.jobs.count(queue=queue or bed.task_queue, scheduled_time_min=began)
        completed = found.by_status.get(JobStatus.COMPLETED, 0)


def _due_at_once(bed: Bed, due: datetime, n: int) -> Sequence[NewJob[Any]]:
    due_us = int(due.timestamp() * 1e6)
    return [job.new("late", due_us, queue=bed.task_queue, run_at=due) for _ in range(n)]


def _others(bed: Bed, due: datetime) -> Sequence[NewJob[Any]]:
    """In another queue, one after the other while all those come up."""
    return [
        job.new(
            "count",
            {"number": number},
            queue=bed.other_queue,
            run_at=due + timedelta(seconds=number * OTHERS_PAUSE_S),
        )
        for number in range(OTHERS)
    ]


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
