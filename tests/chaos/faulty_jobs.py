"""Jobs and schedules through a node whose database fails at random. Nothing is killed, so no attempt is repeated."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.callers import Nodes
from tests.chaos.effects import Effects
from tests.chaos.faulty_node import node_with
from tests.chaos.faulty_store import NUMBER_OF_SHARDS, TASK_QUEUE, Chance
from tests.chaos.job_trial import Outcome, Place, Size, Trial
from tests.chaos.load import wait_for
from tests.chaos.program import make_worker
from tests.faults.session import Faults


async def faulty_jobs(
    dsn: str, seconds: float, size: Size, *, share: float
) -> tuple[Outcome, Counter[str]]:
    """All in this process: node, worker, callers. With how many faults there were of each kind."""
    chance = Chance(size.seed, share)
    faults = Faults(chance.choose)
    with tempfile.TemporaryDirectory(prefix="perdure-torture-") as folder:
        effects = Path(folder, "effects")
        place = Place(dsn, NUMBER_OF_SHARDS, effects, TASK_QUEUE)
        async with node_with(dsn, faults.wrap) as node:
            nodes = await Nodes.connect([node.address], lambda workflow_id: 0)
            trial = Trial(place, nodes, size)
            try:
                async with make_worker(nodes.client, TASK_QUEUE, Effects(effects)):
                    chance.begin()
                    trial.begin()
                    await wait_for(trial.load.stop, seconds)
                    await trial.end()
                    chance.share = 0.0
            finally:
                await trial.cancel()
                await nodes.close()
        return await trial.judge(), Counter(fault.name for fault in faults.met)
