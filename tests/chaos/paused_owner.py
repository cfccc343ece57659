"""Two nodes on one database; the one that owns shards is stopped and goes on, again and again."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from dataclasses import dataclass
from typing import Any

from tests.chaos.callers import Node, Nodes
from tests.chaos.load import Load, wait_for
from tests.chaos.machines import Process, Scene
from tests.chaos.program import Collecting
from tests.chaos.random_kills import QUIET_S, shards_of
from tests.chaos.scrub import open_store
from tests.chaos.verdict import Verdict, compare

from perdure.errors import RPCError

WATCHED = 40  # workflows that are signalled while their owner stands still
TAKEN_OVER_S = 30.0
AFTER_WAKE_S = 60.0  # calls sent to the stopped node are answered once it has woken


@dataclass
class Outcome:
    load: Load
    verdict: Verdict
    alarms: list[str]
    pauses: int
    probes: dict[str, int]
    takeovers_s: list[float]

    def say(self) -> None:
        figures: dict[str, Any] = {
            "pauses": self.pauses,
            "acknowledged": self.load.acked.figures(),
            "probes": self.probes,
            "takeovers_s": [round(one, 2) for one in self.takeovers_s],
            "alarms": len(self.alarms),
            **self.verdict.figures(),
        }
        print("\n" + json.dumps(figures))
        for line in [*self.load.acked.wrong, *self.load.acked.stale][:10]:
            print("  ", line)
        for line in self.alarms[:10]:
            print("  ", line)
        print(self.verdict.examples())


async def paused_owner(
    scene: Scene, *, seed: int, pauses: int, pause_s: float, lanes: int, rest_s: float
) -> Outcome:
    engines = [scene.engine("first"), scene.engine("second")]
    addresses = [address for _, address in engines]
    worker = scene.worker("worker", addresses)
    for process in (*(process for process, _ in engines), worker):
        process.start()
    await both_own_shards(scene)
    nodes = await Nodes.connect(addresses, await shards_of(scene))
    load = Load(nodes, scene.task_queue, seed)
    running = asyncio.create_task(load.run(lanes, 0.05))
    prober = Prober(load)
    faults_s: list[float] = []
    takeovers_s: list[float] = []
    try:
        for number in range(pauses):
            await wait_for(load.stop, rest_s)
            index = number % 2
            faults_s.append(time.time())
            takeovers_s.append(await prober.pause(engines[index][0], index, pause_s))
            faults_s.append(time.time())
            await both_own_shards(scene)
        await wait_for(load.stop, rest_s)
        load.stop.set()
        await asyncio.wait({running}, timeout=QUIET_S)
        if running.done():
            running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})
        await nodes.close()
    for process in (worker, *(process for process, _ in engines)):
        await asyncio.to_thread(process.stop)
    verdict = await compare(
        scene.database.dsn, scene.number_of_shards, load.acked, scene.effects, faults_s
    )
    return Outcome(load, verdict, scene.alarms(), pauses, prober.counts, takeovers_s)


class Prober:
    """Signals workflows while one node stands still, and asks that node about them when it wakes."""

    def __init__(self, load: Load) -> None:
        self.counts = {"stopped_node_answered": 0, "stopped_node_refused": 0, "other_answered": 0}
        self._load = load
        self._round = 0

    async def pause(self, process: Process, index: int, pause_s: float) -> float:
        """Returns after how long the other node answered for all shards."""
        self._round += 1
        load = self._load
        names = [f"watched-{self._round}-{number}" for number in range(WATCHED)]
        numbers = {name: 1_000_000 * self._round + n for n, name in enumerate(names)}
        for name in names:
            await load.start(name, Collecting.__name__, numbers[name], [numbers[name], 3])
        stopped, other = load.nodes.nodes[index], load.nodes.nodes[1 - index]
        loop = asyncio.get_running_loop()
        process.send(signal.SIGSTOP)
        began = loop.time()
        ends = asyncio.create_task(self._wake_after(process, pause_s))
        # acknowledged by whoever owns them now: that takes as long as the take-over
        await asyncio.gather(*(load.signal(name, 1) for name in names))
        took_s = loop.time() - began
        asked = [asyncio.create_task(self._ask(stopped, name, 1, "stopped_node")) for name in names]
        asked += [asyncio.create_task(self._ask(other, name, 1, "other")) for name in names]
        await ends
        await asyncio.gather(*asked)
        await asyncio.gather(*(load.signal(name, 2) for name in names))
        # both nodes, at once after the wake, while shards may move back
        asked = [
            asyncio.create_task(self._ask(node, name, 2, "stopped_node"))
            for node in (stopped, other)
            for name in names
        ]
        await asyncio.gather(*asked)
        await asyncio.gather(*(load.signal(name, 3) for name in names))
        await asyncio.gather(*(load.result(name, [1, 2, 3]) for name in names))
        return took_s

    async def _wake_after(self, process: Process, pause_s: float) -> None:
        await wait_for(asyncio.Event(), pause_s)
        process.send(signal.SIGCONT)

    async def _ask(self, node: Node, name: str, acknowledged: int, who: str) -> None:
        try:
            seen = await node.query(self._load.query_call(name), AFTER_WAKE_S)
        except RPCError:
            self.counts["stopped_node_refused"] += who == "stopped_node"
            return
        self.counts[f"{who}_answered"] += 1
        self._load.acked.queries += 1
        self._load.judge_seen(name, acknowledged, seen)


async def both_own_shards(scene: Scene) -> None:
    """Returns when each shard has an owner and there are two of them.

    The ring gives each shard to one of them by its own lot: of 4 shards all to the same node in one run of 8, of 16 in
    one of 30,000.
    """
    async with open_store(scene.database.dsn) as store, asyncio.timeout(TAKEN_OVER_S):
        shards = list(range(1, scene.number_of_shards + 1))
        while True:
            owners = {fence.owner_id for fence in await store.read_fences(shards)}
            if len(owners) == 2 and bytes(16) not in owners:
                return
            await wait_for(asyncio.Event(), 0.1)
