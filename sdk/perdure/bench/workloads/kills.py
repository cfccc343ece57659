"""W9: kill -9 of the worker, then of the engine with its database, in the middle of W1."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perdure.bench.accounting import Component
from perdure.bench.bed import Bed
from perdure.bench.effects import Effect, count_in_flight, read_effects, repeated
from perdure.bench.loops import closed_loop
from perdure.bench.report import Figure, Measured
from perdure.bench.workflows import Recorded
from perdure.bench.workloads.throughput import warm_up

# Whoever has no result by then is lost; what is promised is 10 s.
PATIENCE_S = 120.0
WARM_UP = 200


@dataclass
class _Phase:
    """One W1 with one kill in its middle."""

    name: str
    numbers: range
    results: dict[int, int] = field(default_factory=dict[int, int])
    half_done: asyncio.Event = field(default_factory=asyncio.Event)
    killed_at_s: float = 0.0
    """By the wall clock, as effects and events are."""
    restarted_s: float = 0.0
    last_result_s: float = 0.0

    @property
    def recovery_s(self) -> float:
        return round(self.last_result_s - self.restarted_s, 3)


async def w9(bed: Bed, n: int, in_flight: int) -> Measured:
    await warm_up(bed, WARM_UP, in_flight)
    phases = [_Phase("worker", range(n))]
    if bed.engine is not None:
        phases.append(_Phase("engine", range(n, 2 * n)))
    with bed.measuring():
        for phase in phases:
            kill = _kill_worker if phase.name == "worker" else _kill_engine
            await _run_phase(bed, phase, in_flight, kill)
    effects = read_effects(bed.effects)
    figures: dict[str, Figure] = {
        "lost": sum(_count_lost(phase, effects) for phase in phases),
        **await _count_duplicates(bed, phases, repeated(effects)),
        "worker_recovery_s": phases[0].recovery_s,
        "engine_recovery_s": phases[1].recovery_s if len(phases) > 1 else None,
    }
    notes = [
        "each kill in a W1 of its own with n workflows",
        "recovery: from restart to last result",
    ]
    if bed.engine is None:
        notes.append("the engine is not ours to kill")
    done = sum(len(phase.results) for phase in phases)
    return Measured(
        n=n, units=done, seconds=bed.usage.seconds, usage=bed.usage, figures=figures, notes=notes
    )


async def _run_phase(
    bed: Bed, phase: _Phase, in_flight: int, kill: Callable[[Bed], tuple[float, float]]
) -> None:
    async def one(lane: int, index: int) -> None:
        number = phase.numbers[index]
        phase.results[number] = await bed.client.execute_workflow(
            Recorded.run, number, id=bed.workflow_id(number), task_queue=bed.task_queue
        )
        phase.last_result_s = time.perf_counter()
        if len(phase.results) * 2 >= len(phase.numbers):
            phase.half_done.set()

    bed.say(f"Running {len(phase.numbers):,} workflows, {in_flight} at a time")
    running = asyncio.ensure_future(closed_loop(len(phase.numbers), in_flight, one, bed.say))
    half_done = asyncio.ensure_future(phase.half_done.wait())
    try:
        await asyncio.wait((running, half_done), return_when=asyncio.FIRST_COMPLETED)
        phase.killed_at_s, phase.restarted_s = kill(bed)
        bed.say(f"Killed the {phase.name} with -9 and restarted it")
        await asyncio.wait((running,), timeout=PATIENCE_S)
        if running.done():
            running.result()
    finally:
        half_done.cancel()
        running.cancel()
        await asyncio.wait((running, half_done))
    bed.say(f"Last result {phase.recovery_s} s after the restart of the {phase.name}")


def _kill_worker(bed: Bed) -> tuple[float, float]:
    """Returns when the last of it was gone, by the wall clock (what it did until then it did before the kill), and
    when it was restarted, by the monotonic one."""
    bed.meter.before_kill(Component.WORKER)
    bed.worker.kill()
    killed_at_s, restarted_s = time.time(), time.perf_counter()
    bed.worker.start()
    return killed_at_s, restarted_s


def _kill_engine(bed: Bed) -> tuple[float, float]:
    assert bed.engine is not None
    bed.meter.before_kill(Component.ENGINE)
    bed.meter.before_kill(Component.DATABASE)
    bed.engine.child.kill()
    killed_at_s, restarted_s = time.time(), time.perf_counter()
    bed.engine.child.start()
    return killed_at_s, restarted_s


def _count_lost(phase: _Phase, effects: Sequence[Effect]) -> int:
    """Workflows without their result, or with a result of what never happened."""
    happened = {effect.number for effect in effects}
    return sum(
        phase.results.get(number) != number or number not in happened for number in phase.numbers
    )


async def _count_duplicates(
    bed: Bed, phases: Sequence[_Phase], repetitions: Sequence[Sequence[Effect]]
) -> dict[str, Figure]:
    numbers = {same[0].number for same in repetitions}
    completed_s = {number: await _completed_s(bed, number) for number in numbers}
    kills_s = [phase.killed_at_s for phase in phases]
    return {
        "duplicates": sum(len(same) - 1 for same in repetitions),
        "duplicates_in_flight": count_in_flight(repetitions, kills_s, completed_s.get),
    }


async def _completed_s(bed: Bed, number: int) -> float | None:
    """When the completion of the workflow's activity was saved, by the wall clock."""
    handle = bed.client.get_workflow_handle(bed.workflow_id(number))
    async for event in handle.fetch_history_events():
        if event.event_type == "ActivityTaskCompleted" and event.event_time is not None:
            return event.event_time.timestamp()
    return None
