"""Runs through a node whose database fails at random: conflicts, lost connections, lost answers."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos.callers import Nodes
from tests.chaos.effects import Effects
from tests.chaos.faulty_node import node_with
from tests.chaos.load import Load
from tests.chaos.program import make_worker
from tests.chaos.verdict import Verdict, compare
from tests.faults.session import Fault, Faults

TASK_QUEUE = "torture"
NUMBER_OF_SHARDS = 4
QUIET_S = 120.0
FAULTS = (
    Fault.CONFLICT,
    Fault.CONFLICT_AT_COMMIT,
    Fault.DEADLOCK,
    Fault.LOST_BEFORE,
    Fault.LOST_AFTER,
    Fault.UNKNOWN_BEFORE,
    Fault.UNKNOWN_AFTER,
    Fault.SHUTDOWN_BEFORE,
    Fault.SHUTDOWN_AFTER,
)


class Chance:
    """Fails a share of the statements, each kind of failure as often as the others."""

    def __init__(self, seed: int, share: float) -> None:
        self.statements = 0
        self.share = 0.0  # until the node has started: what is tested is a running engine
        self._then = share
        self._random = random.Random(seed)

    def begin(self) -> None:
        self.share = self._then

    def choose(self, text: str) -> Fault | None:
        self.statements += 1
        if self._random.random() >= self.share:
            return None
        return self._random.choice(FAULTS)


class Outcome:
    def __init__(self, load: Load, verdict: Verdict, chance: Chance, faults: Faults) -> None:
        self.load = load
        self.verdict = verdict
        self.met = Counter(fault.name for fault in faults.met)
        self.statements = chance.statements
        self.seconds = 0.0

    def summary(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "statements": self.statements,
            "faults": sum(self.met.values()),
            "by_kind": dict(sorted(self.met.items())),
            "acknowledged": self.load.acked.figures(),
            **self.verdict.figures(),
        }


async def faulty_runs(dsn: str, runs: int, *, seed: int, share: float, lanes: int) -> Outcome:
    """All in this process: node, worker, callers."""
    began_s = time.perf_counter()
    chance = Chance(seed, share)
    faults = Faults(chance.choose)
    with tempfile.TemporaryDirectory(prefix="perdure-torture-") as folder:
        effects = Path(folder, "effects")
        async with node_with(dsn, faults.wrap) as node:
            nodes = await Nodes.connect([node.address], lambda workflow_id: 0)
            load = Load(nodes, TASK_QUEUE, seed)
            try:
                async with make_worker(nodes.client, TASK_QUEUE, Effects(effects)):
                    chance.begin()
                    async with asyncio.timeout(QUIET_S + runs / 10):
                        await load.run(lanes, 0.0, limit=runs)
                    chance.share = 0.0
            finally:
                await nodes.close()
        verdict = await compare(dsn, NUMBER_OF_SHARDS, load.acked, effects, [])
    outcome = Outcome(load, verdict, chance, faults)
    outcome.seconds = time.perf_counter() - began_s
    return outcome
