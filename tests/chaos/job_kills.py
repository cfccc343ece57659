"""Jobs and schedules under random kills of two engine nodes, two workers and the database, and owners that stand still;
and the summary of what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.attempts import Faults, attempts_of, lost_steps
from tests.chaos.callers import Nodes
from tests.chaos.effects import read_ledger
from tests.chaos.job_callers import JobCallers
from tests.chaos.job_load import JobLoad
from tests.chaos.job_rows import count_open_jobs, read_rows
from tests.chaos.job_verdict import JobJudge, JobVerdict
from tests.chaos.killing import Kill, Killer, Plan
from tests.chaos.load import wait_for
from tests.chaos.machines import Scene
from tests.chaos.paused_owner import both_own_shards
from tests.chaos.random_kills import QUIET_S, shards_of
from tests.chaos.schedule_load import ScheduleLoad
from tests.chaos.schedule_verdict import SavedRun, ScheduleJudge, ScheduleVerdict
from tests.chaos.scrub import Scrubber, open_store

from perdure_engine.core.ids import uuid_text
from perdure_engine.core.status import Status
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.sql.store import SqlStore

ENGINES = ("first", "second")
WORKERS = ("worker-a", "worker-b")
QUIET_POLL_S = 0.5


@dataclass
class Outcome:
    seed: int
    seconds: float
    kills: list[Kill]
    load: JobLoad
    schedules: ScheduleLoad
    jobs: JobVerdict
    slots: ScheduleVerdict
    broken_runs: list[str]
    unexpected_ends: list[str]
    alarms: list[str]
    quiet_after_s: float
    checked_s: float = 0.0

    @property
    def findings(self) -> list[str]:
        """Empty when all is well."""
        return [
            *(self.load.acked.wrong + self.schedules.wrong),
            *(self.jobs.problems + self.slots.problems + self.broken_runs),
        ]

    def say(self) -> None:
        stopped = [kill for kill in self.kills if kill.stopped]
        ended = [kill for kill in self.kills if kill.orderly]
        killed = [kill for kill in self.kills if not (kill.stopped or kill.orderly)]
        figures: dict[str, Any] = {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "kills": Counter(name for kill in killed for name in kill.targets),
            "stopped": len(stopped),
            "ended": len(ended),
            "acknowledged": self.load.acked.figures(),
            **self.jobs.figures(),
            "schedules": len(self.schedules.stories),
            **self.slots.figures(),
            "broken_runs": len(self.broken_runs),
            "quiet_after_s": round(self.quiet_after_s, 1),
            "unexpected_ends": len(self.unexpected_ends),
            "alarms": len(self.alarms),
            "check_s": round(self.checked_s, 1),
        }
        print("\n" + json.dumps(figures))
        for line in [*self.findings[:20], *self.alarms[:10], *self.unexpected_ends[:5]]:
            print("  ", line)


async def job_kills(
    scene: Scene,
    plan: Plan,
    *,
    seed: int,
    pace: float,
    copies: int,
    engines: Sequence[str] = ENGINES,
    tail_s: float = 2.0,
) -> Outcome:
    """`pace`: see `JobLoad`. `copies` of each kind of schedule. One engine node will do."""
    nodes_of = {name: scene.engine(name) for name in engines}
    addresses = [address for _, address in nodes_of.values()]
    processes = {name: process for name, (process, _) in nodes_of.items()}
    processes |= {name: scene.worker(name, addresses) for name in WORKERS}
    for process in processes.values():
        process.start()
    if len(engines) > 1:
        await both_own_shards(scene)
    nodes = await Nodes.connect(addresses, await shards_of(scene))
    callers = JobCallers(nodes)
    load = JobLoad(callers, scene.task_queue, seed, pace, climbs=len(engines) == 1)
    schedules = ScheduleLoad(callers, scene.task_queue, seed, copies)
    killer = Killer(scene, processes, load.stop)
    supervisor = asyncio.create_task(killer.supervise())
    running = asyncio.gather(load.run(), schedules.run())
    began_s = time.time()
    try:
        await killer.run(plan)
        await wait_for(load.stop, tail_s)
        load.stop.set()
        schedules.stop.set()
        stopped_s = time.time()
        async with asyncio.timeout(QUIET_S):
            await running
        await schedules.delete_all()
        await _quiet(scene, QUIET_S)
    finally:
        for task in (supervisor, running):
            task.cancel()
        await asyncio.gather(supervisor, running, return_exceptions=True)
        await nodes.close()
    ended_s = time.time()
    for name in (*WORKERS, *engines):
        await asyncio.to_thread(processes[name].stop)
    return await _judge(
        scene,
        Outcome(
            seed,
            ended_s - began_s,
            killer.kills,
            load,
            schedules,
            JobVerdict(),
            ScheduleVerdict(),
            [],
            killer.unexpected_ends,
            scene.alarms(),
            ended_s - stopped_s,
        ),
    )


async def _judge(scene: Scene, outcome: Outcome) -> Outcome:
    began_s = time.time()
    rows = await read_rows(scene.database.dsn, scene.number_of_shards)
    ledger = read_ledger(scene.effects)
    attempts = attempts_of(ledger)
    faults = Faults(outcome.kills)
    outcome.jobs = JobJudge(outcome.load.acked, rows, attempts, faults).judge()
    outcome.jobs.broken += lost_steps(ledger)
    runs, outcome.broken_runs = await _runs(scene)
    outcome.slots = ScheduleJudge(outcome.schedules.stories, rows, runs, attempts).judge()
    outcome.checked_s = time.time() - began_s
    return outcome


async def _runs(scene: Scene) -> tuple[list[SavedRun], list[str]]:
    """What schedules have started as workflows, and which invariants of theirs do not hold."""
    runs: list[SavedRun] = []
    async with open_store(scene.database.dsn) as store:
        scrubber = Scrubber(store, scene.number_of_shards)
        async for saved in scrubber.scrub():
            first, last = saved.history[0].time_us / 1e6, saved.history[-1].time_us / 1e6
            run_id = uuid_text(saved.state.run_id)
            runs.append(SavedRun(saved.workflow_id, run_id, first, last if saved.closed else 0.0))
    return runs, scrubber.problems


async def _quiet(scene: Scene, limit_s: float) -> None:
    """Returns when everything has ended; after that time whatever has not, which the verdict names."""
    async with open_store(scene.database.dsn) as store:
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            if not await _count_open(scene, store):
                return
            await wait_for(asyncio.Event(), QUIET_POLL_S)


async def _count_open(scene: Scene, store: SqlStore) -> int:
    [namespace] = await store.list_namespaces()
    where = VisibilityFilter(namespace.namespace_id, statuses=(int(Status.RUNNING),))
    count = await count_open_jobs(store) + await store.count_runs(where)
    for shard_id in range(1, scene.number_of_shards + 1):
        schedules = await store.load_schedules(shard_id, None, 1_000)
        count += sum(not row.gone for row in schedules)
    return count
