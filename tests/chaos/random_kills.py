"""Random kills of engine, worker and database under load, and the summary of what came of it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.chaos.callers import Nodes
from tests.chaos.load import Load, wait_for
from tests.chaos.machines import Process, Scene
from tests.chaos.scrub import open_store
from tests.chaos.verdict import Verdict, compare

from perdure_engine.core.ids import shard_of

TARGETS = ("engine", "worker", "database")
QUIET_S = 120.0  # in which the last workflows must end
SUPERVISE_S = 0.1
Plan = Sequence[tuple[float, tuple[str, ...]]]
"""Pauses in seconds, and what is killed after each."""


class Kill(NamedTuple):
    targets: tuple[str, ...]
    at_s: float
    restarted_s: float
    in_flight: tuple[str, ...]


def random_plan(seed: int, seconds: float) -> Plan:
    """Now and then two at once, or one again at once."""
    chance = random.Random(seed)
    plan: list[tuple[float, tuple[str, ...]]] = []
    spent_s = 0.0
    while True:
        pause_s = chance.choice((chance.uniform(0.2, 2.0), chance.uniform(3, 12), 12.0))
        spent_s += pause_s
        if spent_s > seconds:
            return plan
        count = chance.choices((1, 2, 3), (80, 15, 5))[0]
        plan.append((pause_s, tuple(chance.sample(TARGETS, count))))


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


class Killer:
    """Kills as planned and restarts at once; whatever ends by itself it starts again, and notes it."""

    def __init__(self, scene: Scene, engine: Process, worker: Process, load: Load) -> None:
        self.kills: list[Kill] = []
        self.unexpected_ends: list[str] = []
        self._scene = scene
        self._processes = {"engine": engine, "worker": worker}
        self._load = load
        self._busy = asyncio.Lock()

    async def run(self, plan: Plan) -> None:
        for pause_s, targets in plan:
            await wait_for(self._load.stop, pause_s)
            async with self._busy:
                await self._kill(targets)

    async def _kill(self, targets: tuple[str, ...]) -> None:
        in_flight = tuple(self._load.acked.in_flight)
        at_s = time.time()
        await asyncio.to_thread(self._kill_and_restart, targets)
        self.kills.append(Kill(targets, at_s, time.time(), in_flight))

    def _kill_and_restart(self, targets: tuple[str, ...]) -> None:
        for one in targets:
            self._kill_one(one)
        # The database last: it blocks until it has recovered. And in one thread, because a process
        # just forked has our files open until its exec, the lock of the data folder among them.
        for one in sorted(targets, key=("engine", "worker", "database").index):
            self._restart_one(one)

    def _kill_one(self, target: str) -> None:
        if target == "database":
            self._scene.database.kill()
        else:
            self._processes[target].kill()

    def _restart_one(self, target: str) -> None:
        if target == "database":
            self._scene.database.restart()
        else:
            self._processes[target].restart()

    async def supervise(self) -> None:
        """As a service manager would; until it is cancelled."""
        never = asyncio.Event()
        while not await wait_for(never, SUPERVISE_S):
            async with self._busy:
                for process in self._processes.values():
                    if process.pid is None:
                        self.unexpected_ends.append(f"{process.name}: {process.tail()[-500:]}")
                        process.restart()


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
    killer = Killer(scene, engine, worker, load)
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
