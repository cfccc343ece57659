"""Random kills of engine, worker and database under load, and the summary of what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.callers import Nodes
from tests.chaos.killing import DATABASE, Kill, Killer, Plan
from tests.chaos.load import Load, wait_for
from tests.chaos.machines import Scene
from tests.chaos.scrub import open_store
from tests.chaos.verdict import Verdict, compare

from perdure_engine.core.ids import shard_of

TARGETS = ("engine", "worker", DATABASE)
QUIET_S = 120.0  # in which the last workflows must end


@dataclass
class Outcome:
    seed: int
    kills: list[Kill]
    verdict: Verdict
    load: Load
    recoveries_s: dict[str, float]
    unexpected_ends: list[str]
    alarms: list[str]
    seconds: float
    checked_s: float = 0.0

    def summary(self) -> dict[str, Any]:
        killed = [target for kill in self.kills for target in kill.targets]
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "kills": {target: killed.count(target) for target in TARGETS},
            "acknowledged": self.load.acked.figures(),
            **self.verdict.figures(),
            "slowest_recovery_s": self.recoveries_s,
            "unexpected_ends": len(self.unexpected_ends),
            "alarms": len(self.alarms),
            "check_s": round(self.checked_s, 1),
        }

    def say(self) -> None:
        print("\n" + json.dumps(self.summary()))
        for line in [*self.load.acked.wrong, *self.load.acked.stale][:10]:
            print("  ", line)
        for line in [*self.alarms[:10], *self.unexpected_ends[:5]]:
            print("  ", line)
        if not self.verdict.clean:
            print(self.verdict.examples())


async def random_kills(
    scene: Scene, plan: Plan, *, seed: int, lanes: int, pause_s: float, tail_s: float = 3.0
) -> Outcome:
    began_s = time.time()
    engine, address = scene.engine("engine")
    worker = scene.worker("worker", [address])
    engine.start()
    worker.start()
    nodes = await Nodes.connect([address], await shards_of(scene))
    load = Load(nodes, scene.task_queue, seed)
    killer = Killer(
        scene,
        {"engine": engine, "worker": worker},
        load.stop,
        lambda: tuple(load.acked.in_flight),
    )
    supervisor = asyncio.create_task(killer.supervise())
    running = asyncio.create_task(load.run(lanes, pause_s))
    try:
        await killer.run(plan)
        await wait_for(load.stop, tail_s)
        load.stop.set()
        await asyncio.wait({running}, timeout=QUIET_S)
        if running.done():
            running.result()
    finally:
        for task in (supervisor, running):
            task.cancel()
        await asyncio.wait({supervisor, running})
        await nodes.close()
    seconds = time.time() - began_s
    await asyncio.to_thread(worker.stop)
    await asyncio.to_thread(engine.stop)
    verdict = await compare(
        scene.database.dsn,
        scene.number_of_shards,
        load.acked,
        scene.effects,
        [kill.at_s for kill in killer.kills],
    )
    return Outcome(
        seed,
        killer.kills,
        verdict,
        load,
        _recoveries(killer.kills, load),
        killer.unexpected_ends,
        scene.alarms(),
        seconds,
        checked_s=time.time() - began_s - seconds,
    )


async def shards_of(scene: Scene) -> Callable[[str], int]:
    """Which shard a workflow id belongs to."""
    async with open_store(scene.database.dsn) as store:
        (namespace,) = await store.list_namespaces()
    return lambda workflow_id: shard_of(namespace.namespace_id, workflow_id, scene.number_of_shards)


def _recoveries(kills: list[Kill], load: Load) -> dict[str, float]:
    """By target: the longest from a restart to the first result after it."""
    slowest: dict[str, float] = {}
    times_s = load.acked.result_times_s
    for kill in kills:
        first_s = next((t for t in times_s if t > kill.restarted_s), None)
        if first_s is None:
            continue
        for target in kill.targets:
            took_s = first_s - kill.restarted_s
            slowest[target] = round(max(slowest.get(target, 0.0), took_s), 2)
    return slowest
