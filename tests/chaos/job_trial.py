"""One trial of jobs and schedules: the load, its end, and the summary of what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.attempts import Faults, attempts_of, lost_steps
from tests.chaos.callers import Nodes
from tests.chaos.effects import read_ledger
from tests.chaos.job_callers import JobCallers
from tests.chaos.job_load import JobLoad
from tests.chaos.job_rows import count_open_jobs, read_rows
from tests.chaos.job_verdict import JobJudge, JobVerdict
from tests.chaos.killing import Kill
from tests.chaos.load import wait_for
from tests.chaos.random_kills import QUIET_S
from tests.chaos.schedule_load import ScheduleLoad
from tests.chaos.schedule_verdict import SavedRun, ScheduleJudge, ScheduleVerdict
from tests.chaos.scrub import Scrubber, open_store

from perdure_engine.core.ids import uuid_text
from perdure_engine.core.status import Status
from perdure_engine.ports.store import VisibilityFilter
from perdure_engine.store.sql.store import SqlStore

QUIET_POLL_S = 0.5


class Place(NamedTuple):
    """Where it all happens."""

    dsn: str
    number_of_shards: int
    effects: Path
    task_queue: str


class Size(NamedTuple):
    """`pace`: see `JobLoad`. `copies` of each kind of schedule."""

    seed: int
    pace: float
    copies: int


@dataclass
class Outcome:
    seed: int
    seconds: float
    load: JobLoad
    schedules: ScheduleLoad
    quiet_after_s: float
    kills: Sequence[Kill] = ()
    unexpected_ends: Sequence[str] = ()
    alarms: Sequence[str] = ()
    jobs: JobVerdict = field(default_factory=JobVerdict)
    slots: ScheduleVerdict = field(default_factory=ScheduleVerdict)
    broken_runs: list[str] = field(default_factory=list)
    checked_s: float = 0.0

    @property
    def findings(self) -> list[str]:
        """Empty when all is well."""
        return [
            *(self.load.acked.wrong + self.schedules.wrong),
            *(self.jobs.problems + self.slots.problems + self.broken_runs),
        ]

    def say(self) -> None:
        killed = [kill for kill in self.kills if not (kill.stopped or kill.orderly)]
        figures: dict[str, Any] = {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "kills": Counter(name for kill in killed for name in kill.targets),
            "stopped": sum(kill.stopped for kill in self.kills),
            "ended": sum(kill.orderly for kill in self.kills),
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
        for kill in self.kills if self.findings else ():
            print("  ", kill)


class Trial:
    """`begin`, `end`, and then, with nothing running any more, `judge`."""

    def __init__(self, place: Place, nodes: Nodes, size: Size) -> None:
        callers = JobCallers(nodes)
        climbs = len(nodes.nodes) == 1
        self.load = JobLoad(callers, place.task_queue, size.seed, size.pace, climbs=climbs)
        self.schedules = ScheduleLoad(callers, place.task_queue, size.seed, size.copies)
        self._place = place
        self._seed = size.seed
        self._began_s = self._stopped_s = self._ended_s = 0.0
        self._running: asyncio.Future[Any] | None = None

    def begin(self) -> None:
        self._began_s = time.time()
        self._running = asyncio.gather(self.load.run(), self.schedules.run())

    async def end(self) -> None:
        """Returns when everything has ended, or in a while: what has not is the verdict's to name."""
        assert self._running is not None
        self.load.stop.set()
        self.schedules.stop.set()
        self._stopped_s = time.time()
        if (await asyncio.wait([self._running], timeout=QUIET_S))[0]:
            self._running.result()
        else:
            self.load.acked.wrong.append(f"calls without an answer after {QUIET_S:.0f} s")
            await self.cancel()
        await self.schedules.delete_all()
        async with open_store(self._place.dsn) as store:
            deadline_s = time.monotonic() + QUIET_S
            while time.monotonic() < deadline_s and await self._count_open(store):
                await wait_for(asyncio.Event(), QUIET_POLL_S)
        self._ended_s = time.time()

    async def cancel(self) -> None:
        """Whatever happened."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def judge(
        self,
        kills: Sequence[Kill] = (),
        unexpected_ends: Sequence[str] = (),
        alarms: Sequence[str] = (),
    ) -> Outcome:
        outcome = Outcome(
            self._seed,
            self._ended_s - self._began_s,
            self.load,
            self.schedules,
            self._ended_s - self._stopped_s,
            kills,
            unexpected_ends,
            alarms,
        )
        began_s = time.time()
        place = self._place
        rows = await read_rows(place.dsn, place.number_of_shards)
        ledger = read_ledger(place.effects)
        attempts = attempts_of(ledger)
        outcome.jobs = JobJudge(self.load.acked, rows, attempts, Faults(kills)).judge()
        outcome.jobs.broken += lost_steps(ledger)
        runs, outcome.broken_runs = await self._runs()
        outcome.slots = ScheduleJudge(self.schedules.stories, rows, runs, attempts).judge()
        outcome.checked_s = time.time() - began_s
        return outcome

    async def _runs(self) -> tuple[list[SavedRun], list[str]]:
        """What schedules have started as workflows, and which invariants of theirs do not hold."""
        runs: list[SavedRun] = []
        async with open_store(self._place.dsn) as store:
            scrubber = Scrubber(store, self._place.number_of_shards)
            async for saved in scrubber.scrub():
                first_s, last_s = saved.history[0].time_us / 1e6, saved.history[-1].time_us / 1e6
                run_id, closed_s = uuid_text(saved.state.run_id), last_s if saved.closed else 0.0
                runs.append(SavedRun(saved.workflow_id, run_id, first_s, closed_s))
        return runs, scrubber.problems

    async def _count_open(self, store: SqlStore) -> int:
        [namespace] = await store.list_namespaces()
        where = VisibilityFilter(namespace.namespace_id, statuses=(int(Status.RUNNING),))
        count = await count_open_jobs(store) + await store.count_runs(where)
        for shard_id in range(1, self._place.number_of_shards + 1):
            schedules = await store.load_schedules(shard_id, None, 1_000)
            count += sum(not row.gone for row in schedules)
        return count
