"""One engine node after the other is stopped in order and replaced, under activities that take long."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from dataclasses import dataclass
from typing import Any

from tests.chaos.callers import Nodes
from tests.chaos.effects import read_effects
from tests.chaos.load import Load, wait_for
from tests.chaos.machines import Process, Scene
from tests.chaos.paused_owner import both_own_shards
from tests.chaos.program import Slow
from tests.chaos.random_kills import shards_of
from tests.chaos.verdict import Verdict, compare

STOP_S = 30.0
PATIENCE_S = 90.0


@dataclass
class Outcome:
    load: Load
    verdict: Verdict
    alarms: list[str]
    exit_codes: list[int]
    stops_s: list[float]
    effects: int
    running_at_restarts: list[int]
    restarts_after_s: float

    def say(self) -> None:
        figures: dict[str, Any] = {
            "acknowledged": self.load.acked.figures(),
            "effects": self.effects,
            "running_at_restarts": self.running_at_restarts,
            "restarts_done_after_s": round(self.restarts_after_s, 1),
            "exit_codes": self.exit_codes,
            "stops_s": [round(one, 2) for one in self.stops_s],
            "alarms": len(self.alarms),
            **self.verdict.figures(),
        }
        print("\n" + json.dumps(figures))
        for line in [*self.load.acked.wrong, *self.alarms][:10]:
            print("  ", line)
        print(self.verdict.examples())


async def rolling_restart(scene: Scene, *, activities: int, seconds: float) -> Outcome:
    engines = [scene.engine("first"), scene.engine("second")]
    addresses = [address for _, address in engines]
    worker = scene.worker("worker", addresses)
    for process in (*(process for process, _ in engines), worker):
        process.start()
    await both_own_shards(scene)
    nodes = await Nodes.connect(addresses, await shards_of(scene))
    load = Load(nodes, scene.task_queue, seed=1)

    async def one(workflow_id: str, number: int) -> None:
        await load.start(workflow_id, Slow.__name__, number, [number, seconds])
        await load.result(workflow_id, number)

    began_s = time.perf_counter()
    running = asyncio.gather(*(load.watched(one, number) for number in range(activities)))
    stops_s: list[float] = []
    running_at: list[int] = []
    codes: list[int] = []
    try:
        await _all_begun(scene, activities)
        for process, _ in engines:
            running_at.append(activities - len(load.acked.results))
            code, took_s = await asyncio.to_thread(_replace, process)
            codes.append(code)
            stops_s.append(took_s)
            await both_own_shards(scene)
        restarts_after_s = time.perf_counter() - began_s
        async with asyncio.timeout(seconds + PATIENCE_S):
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await nodes.close()
    for process in (worker, *(process for process, _ in engines)):
        await asyncio.to_thread(process.stop)
    verdict = await compare(
        scene.database.dsn, scene.number_of_shards, load.acked, scene.effects, []
    )
    return Outcome(
        load,
        verdict,
        scene.alarms(),
        codes,
        stops_s,
        len(read_effects(scene.effects)),
        running_at,
        restarts_after_s,
    )


async def _all_begun(scene: Scene, activities: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(read_effects(scene.effects)) < activities:
            await wait_for(asyncio.Event(), 0.05)


def _replace(process: Process) -> tuple[int, float]:
    """SIGTERM, then another process in its place. The exit code, and how long the stop took."""
    began_s = time.perf_counter()
    process.send(signal.SIGTERM)
    code = process.wait_ended(STOP_S)
    took_s = time.perf_counter() - began_s
    process.restart()
    return code, took_s
