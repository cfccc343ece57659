"""Blows at random, or as planned: processes are killed and started again, or stand still for a while."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.chaos.load import wait_for
from tests.chaos.machines import Process, Scene

from perdure_engine.membership.lease import LEASE_S

DATABASE = "database"
SUPERVISE_S = 0.1
END_S = 30.0  # after SIGTERM
STOPPED_S = LEASE_S + 2.0  # others have taken what the stopped node owned
WORKER_STOPPED_S = 13.0  # what the stopped worker held has lost its lease
WORKER = "worker"
"""What the names of workers begin with."""


class Blow(NamedTuple):
    after_s: float
    killed: tuple[str, ...] = ()
    stopped: str = ""
    """SIGSTOP, for longer than its lease or leases. The others are killed meanwhile."""
    ended: str = ""
    """SIGTERM, and started again when it has ended."""


Plan = Sequence[Blow]


class Kill(NamedTuple):
    """A blow, by the wall clock. `pids`: of what was hit, by its name; of the database there is none."""

    targets: tuple[str, ...]
    at_s: float
    restarted_s: float
    in_flight: tuple[str, ...] = ()
    pids: Mapping[str, int] = {}
    stopped: bool = False
    orderly: bool = False

    def only(self, prefix: str) -> bool:
        """Whether the names of all that it hit begin so."""
        return all(name.startswith(prefix) for name in self.targets)


def random_plan(
    seed: int, seconds: float, targets: Sequence[str], stoppable: Sequence[str] = ()
) -> Plan:
    """Now and then two at once, or one again at once. `stoppable`: what may stand still, or be ended in order."""
    chance = random.Random(seed)
    plan: list[Blow] = []
    spent_s = 0.0
    while True:
        after_s = chance.choice((chance.uniform(0.2, 2.0), chance.uniform(3, 12), 12.0))
        spent_s += after_s
        if spent_s > seconds:
            # What waits for an answer of one that stands still must not be mended by the next kill.
            return [*plan, *[Blow(after_s, stopped=name) for name in stoppable[:1]]]
        count = chance.choices((1, 2, 3), (80, 15, 5))[0]
        killed = tuple(chance.sample(targets, count))
        kind = chance.random() if stoppable else 1.0
        if kind > 0.3:
            plan.append(Blow(after_s, killed))
            continue
        stopped = chance.choice(stoppable)
        if kind > 0.2 and not stopped.startswith(WORKER):
            plan.append(Blow(after_s, ended=stopped))
            continue
        others = tuple(name for name in killed if name != stopped) if chance.random() < 0.5 else ()
        plan.append(Blow(after_s, others, stopped))
        spent_s += STOPPED_S


class Killer:
    """Restarts at once what it has killed; whatever ends by itself it starts again, and notes it.

    `stop`: set, the rest of the plan follows at once.
    """

    def __init__(
        self,
        scene: Scene,
        processes: Mapping[str, Process],
        stop: asyncio.Event,
        in_flight: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.kills: list[Kill] = []
        self.unexpected_ends: list[str] = []
        self._scene = scene
        self._processes = processes
        self._stop = stop
        self._in_flight = in_flight
        self._busy = asyncio.Lock()

    async def run(self, plan: Plan) -> None:
        for blow in plan:
            await wait_for(self._stop, blow.after_s)
            if blow.stopped:
                await self._stop_for_a_while(self._processes[blow.stopped], blow.killed)
            elif blow.ended:
                await self._end(self._processes[blow.ended])
            else:
                await self._kill(blow.killed)

    async def _stop_for_a_while(self, process: Process, killed: tuple[str, ...]) -> None:
        pid = process.pid
        if pid is None:
            return
        at_s = time.time()
        process.send(signal.SIGSTOP)
        try:
            if killed:
                await self._kill(killed)
            lasts_s = WORKER_STOPPED_S if process.name.startswith(WORKER) else STOPPED_S
            await wait_for(self._stop, lasts_s)
        finally:
            process.send(signal.SIGCONT)
        pids = {process.name: pid}
        self.kills.append(Kill((process.name,), at_s, time.time(), pids=pids, stopped=True))

    async def _end(self, process: Process) -> None:
        async with self._busy:
            at_s = time.time()
            if process.pid is not None:  # it may just have found no database
                process.send(signal.SIGTERM)
                code = await asyncio.to_thread(process.wait_ended, END_S)
                if code not in (0, -signal.SIGTERM):  # the latter of one that was just beginning
                    self.unexpected_ends.append(f"{process.name}: ended in order with {code}")
            process.restart()
            self.kills.append(Kill((process.name,), at_s, time.time(), orderly=True))

    async def _kill(self, targets: tuple[str, ...]) -> None:
        async with self._busy:
            in_flight = tuple(self._in_flight())
            pids = {name: self._processes[name].pid for name in targets if name != DATABASE}
            at_s = time.time()
            await asyncio.to_thread(self._kill_and_restart, targets)
            known = {name: pid for name, pid in pids.items() if pid is not None}
            self.kills.append(Kill(targets, at_s, time.time(), in_flight, known))

    def _kill_and_restart(self, targets: tuple[str, ...]) -> None:
        for one in targets:
            self._kill_one(one)
        # The database last: it blocks until it has recovered. And in one thread, because a process
        # just forked has our files open until its exec, the lock of the data folder among them.
        for one in sorted(targets, key=lambda name: name == DATABASE):
            self._restart_one(one)

    def _kill_one(self, target: str) -> None:
        if target == DATABASE:
            self._scene.database.kill()
        else:
            self._processes[target].kill()

    def _restart_one(self, target: str) -> None:
        if target == DATABASE:
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
