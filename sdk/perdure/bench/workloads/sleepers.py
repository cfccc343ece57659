"""W7: what workflows cost that only sleep."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from perdure.bench import proc
from perdure.bench.accounting import Component, Usage
from perdure.bench.arithmetic import ratio, rounded
from perdure.bench.bed import Bed
from perdure.bench.loops import closed_loop
from perdure.bench.report import Figure, Measured
from perdure.bench.workflows import Sleeping

# What has been started is still being written out and tidied up for a while.
QUIET_CORES = 0.03
QUIET_WINDOW_S = 2.0
QUIET_PATIENCE_S = 60.0
WARM_UP = 100


async def w7(bed: Bed, n: int, in_flight: int, window_s: float) -> Measured:
    await _start_sleepers(bed, WARM_UP, in_flight, "warm-up")
    await _wait_until_quiet(bed)
    bed.say(f"Watching the system without them for {window_s:g} s")
    empty = await _watch(bed, window_s)
    bytes_before = _database_bytes(bed)
    bed.say(f"Starting {n:,} workflows that sleep")
    await _start_sleepers(bed, n, in_flight, "run")
    await _wait_until_quiet(bed)
    bed.say(f"Watching {n:,} sleepers for {window_s:g} s")
    asleep = await _watch(bed, window_s)
    bytes_after = _database_bytes(bed)
    figures: dict[str, Figure] = {
        "cpu_pct": cpu_pct(asleep),
        "cpu_pct_empty": cpu_pct(empty),
        "rss_mb": memory_mb(bed),
        "bytes_per_run": (
            None
            if bytes_before is None or bytes_after is None
            else round((bytes_after - bytes_before) / n)
        ),
    }
    return Measured(
        n=n,
        units=0,
        seconds=asleep.seconds,
        usage=asleep,
        figures=figures,
        notes=[
            f"the empty system holds {WARM_UP} sleepers",
            "rss_mb: proportional share, engine and database",
            "bytes_per_run: tables and indexes, dead rows included",
        ],
    )


async def _start_sleepers(bed: Bed, n: int, in_flight: int, prefix: str) -> None:
    """Returns when all of them sleep."""

    async def one(lane: int, number: int) -> None:
        handle = await bed.client.start_workflow(
            Sleeping.run, id=bed.workflow_id(f"{prefix}-{number}"), task_queue=bed.task_queue
        )
        asleep = False
        while not asleep:
            asleep = bool((await handle.describe()).pending_timers)

    await closed_loop(n, in_flight, one, bed.say)


async def _watch(bed: Bed, window_s: float) -> Usage:
    with bed.measuring():
        await asyncio.sleep(window_s)
    return bed.usage


async def _wait_until_quiet(bed: Bed) -> None:
    """Returns also when it never becomes quiet: that is then what is measured."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + QUIET_PATIENCE_S
    while loop.time() < deadline_s:
        bed.meter.begin()
        await asyncio.sleep(QUIET_WINDOW_S)
        usage = bed.meter.end()
        if usage.total_s < QUIET_CORES * usage.seconds:
            return


def cpu_pct(usage: Usage) -> float | None:
    """Of one core; None when the engine is not ours to see."""
    server = (Component.ENGINE, Component.DATABASE)
    if not all(one in usage.cpu_s for one in server):
        return None
    return rounded(ratio(100 * sum(usage.cpu_s[one] for one in server), usage.seconds), 2)


def memory_mb(bed: Bed) -> float | None:
    """Of engine and database, by proportional share."""
    if bed.engine is None:
        return None
    pids: Iterable[int] = (*bed.engine.engine_pids, *bed.engine.database_pids)
    return round(sum(map(proc.memory_bytes, pids)) / 1e6, 1)


def _database_bytes(bed: Bed) -> int | None:
    return None if bed.engine is None else bed.engine.database_bytes
