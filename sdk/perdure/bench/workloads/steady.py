"""What goes on and on: jobs at a steady rate with times of their own (`sustained`), and schedules that all fire in the
same second of each minute (`schedules`)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure import job
from perdure.bench.arithmetic import percentile, rounded
from perdure.bench.bed import Bed
from perdure.bench.loops import closed_loop
from perdure.bench.processes import ProcessFailed
from perdure.bench.report import Figure, Measured
from perdure.bench.workloads.job_runs import jobs_since, lateness_s, wait_until_run
from perdure.bench.workloads.sleepers import cpu_pct, memory_mb
from perdure.client import (
    Schedule,
    ScheduleActionStartJob,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)
from perdure.job import NewJob

# One call each tenth of a second, for jobs that are due at any instant of the next minute, or of a
# window that is shorter.
CALL_PAUSE_S = 0.1
SPREAD_S = 60.0
LOOK_PAUSE_S = 0.1
MINUTE_S = 60.0
# Time enough to make them all before the first of them is due.
MAKE_S_PER_SCHEDULE = 1 / 200
MAKE_S_MIN = 5.0
MAKING = 64


async def sustained(bed: Bed, n: int, in_flight: int, window_s: float) -> Measured:
    """`n` jobs a second for `window_s`; `in_flight` has no meaning here."""
    loop, spread_s = asyncio.get_running_loop(), min(SPREAD_S, window_s)
    bed.say(f"Making {n:,} jobs a second for {window_s:g} s, each due within {spread_s:g} s")
    made, memory, rng = 0, list[float](), random.Random(0)
    with bed.measuring():
        began = loop.time()
        while (passed_s := loop.time() - began) < window_s:
            jobs = _spread(bed, int(passed_s * n) - made, spread_s, rng)
            if jobs:
                await bed.client.jobs.create_many(jobs)
            made += len(jobs)
            if passed_s > (len(memory) + 1) * window_s / 10 and (now_mb := memory_mb(bed)):
                memory.append(now_mb)
            await asyncio.sleep(CALL_PAUSE_S)
        await wait_until_run(
            bed.job_log, made, datetime.now(UTC) + timedelta(seconds=spread_s), LOOK_PAUSE_S
        )
    late_s = sorted(bed.job_log.lateness_s())
    figures: dict[str, Figure] = {
        "min_ms": round(late_s[0] * 1e3, 3),
        "lost": made - len(late_s),
        "rss_mb_half": memory[len(memory) // 2] if memory else None,
        "rss_mb": memory_mb(bed),
    }
    return Measured(
        n=n,
        units=made,
        seconds=window_s,
        usage=bed.usage,
        latencies_s=late_s,
        figures=figures,
        notes=["lateness by the worker's clock, which is the engine's", "n: jobs a second"],
    )


def _spread(bed: Bed, count: int, spread_s: float, rng: random.Random) -> Sequence[NewJob[Any]]:
    now = datetime.now(UTC)
    jobs: list[NewJob[Any]] = []
    for _ in range(count):
        due = now + timedelta(seconds=rng.random() * spread_s)
        due_us = int(due.timestamp() * 1e6)
        jobs.append(job.new("late", due_us, queue=bed.task_queue, run_at=due))
    return jobs


async def schedules(bed: Bed, n: int, in_flight: int, window_s: float) -> Measured:
    """`n` schedules that fire together, once a minute or, if `window_s` is less, once in so long."""
    every_s = min(MINUTE_S, window_s)
    firings = max(1, round(window_s / every_s))
    make_s = max(MAKE_S_MIN, n * MAKE_S_PER_SCHEDULE)
    first = _next_multiple(datetime.now(UTC) + timedelta(seconds=make_s), every_s)
    bed.say(f"Making {n:,} schedules that fire every {every_s:g} s from {first:%H:%M:%S} UTC on")
    end = first + timedelta(seconds=every_s * firings) - timedelta(milliseconds=1)
    await closed_loop(n, min(n, MAKING), _maker(bed, first, end, every_s), bed.say)
    if datetime.now(UTC) >= first:
        raise ProcessFailed(f"{n:,} schedules could not be made in {make_s:g} s")
    with bed.measuring():
        await wait_until_run(bed.job_log, n * firings, end, LOOK_PAUSE_S)
    ran = [one for one in await jobs_since(bed, first) if one.start_time is not None]
    slots = Counter((one.schedule_id, one.scheduled_time) for one in ran)
    late_s = lateness_s(ran)
    figures: dict[str, Figure] = {
        "min_ms": rounded(late_s[0] * 1e3, 3),
        "cpu_pct": cpu_pct(bed.usage),
        "firings": firings,
        "lost": n * firings - len(slots),
        "duplicates": len(ran) - len(slots),
        "drained_s": rounded(percentile(late_s, 1.0), 3),
    }
    return Measured(
        n=n,
        units=len(ran),
        seconds=bed.usage.seconds,
        usage=bed.usage,
        latencies_s=late_s,
        figures=figures,
        notes=["lateness by the engine's clock", "the time until the first of them is counted in"],
    )


def _maker(bed: Bed, first: datetime, end: datetime, every_s: float) -> Any:
    async def make(lane: int, number: int) -> None:
        await bed.client.create_schedule(
            f"{bed.task_queue}-{number}",
            Schedule(
                action=ScheduleActionStartJob("count", {"number": number}, queue=bed.task_queue),
                spec=_spec(first, end, every_s),
                policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL),
            ),
        )

    return make


def _spec(first: datetime, end: datetime, every_s: float) -> ScheduleSpec:
    if every_s == MINUTE_S:
        return ScheduleSpec(cron_expressions=["* * * * *"], start_at=first, end_at=end)
    every = ScheduleIntervalSpec(every=timedelta(seconds=every_s))
    return ScheduleSpec(intervals=[every], start_at=first, end_at=end)


def _next_multiple(after: datetime, every_s: float) -> datetime:
    return datetime.fromtimestamp((after.timestamp() // every_s + 1) * every_s, UTC)
