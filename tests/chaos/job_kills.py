"""Jobs and schedules under random kills of two engine nodes, two workers and the database, and under owners and workers
that stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.chaos.callers import Nodes
from tests.chaos.job_trial import Outcome, Place, Size, Trial
from tests.chaos.killing import Killer, Plan
from tests.chaos.load import wait_for
from tests.chaos.machines import Scene
from tests.chaos.paused_owner import both_own_shards
from tests.chaos.random_kills import shards_of

ENGINES = ("first", "second")
WORKERS = ("worker-a", "worker-b")


async def job_kills(
    scene: Scene,
    plan: Plan,
    size: Size,
    *,
    engines: Sequence[str] = ENGINES,
    tail_s: float = 2.0,
) -> Outcome:
    """One engine node will do."""
    nodes_of = {name: scene.engine(name) for name in engines}
    addresses = [address for _, address in nodes_of.values()]
    processes = {name: process for name, (process, _) in nodes_of.items()}
    processes |= {name: scene.worker(name, addresses) for name in WORKERS}
    for process in processes.values():
        process.start()
    if len(engines) > 1:
        await both_own_shards(scene)
    nodes = await Nodes.connect(addresses, await shards_of(scene))
    place = Place(scene.database.dsn, scene.number_of_shards, scene.effects, scene.task_queue)
    trial = Trial(place, nodes, size)
    killer = Killer(scene, processes, trial.load.stop)
    supervisor = asyncio.create_task(killer.supervise())
    trial.begin()
    try:
        await killer.run(plan)
        await wait_for(trial.load.stop, tail_s)
        await trial.end()
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)
        await trial.cancel()
        await nodes.close()
    for name in (*WORKERS, *engines):
        await asyncio.to_thread(processes[name].stop)
    return await trial.judge(killer.kills, killer.unexpected_ends, scene.alarms())
