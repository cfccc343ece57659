"""Parents that are reset while their children run, under crashes, pauses and lost commits.

Whatever was undone and done again: the last run has heard of each of its children's ends, once, nobody waits for what
will not come, and no child of undone work is left behind.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, get_args

import pytest
from tests.seeds import seeds
from tests.simulation.cluster import NAMESPACE, Cluster
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.test_children import child, through_trouble

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core import outside_events as out
from perdure_engine.core.decide.reset_workflow import ENDS
from perdure_engine.core.events import Event
from perdure_engine.core.ids import reset_run_id
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.status import Status
from perdure_engine.history.loading import decode_history
from perdure_engine.store.codec import MsgpackCodec

SEEDS = 40
PARENTS = 6
STAGES = 3  # a child each, one after the other has been heard of
RESETS = 3
CLOSED = get_args(out.ChildClosedEvent)
ENDED = (out.StartChildWorkflowExecutionFailed, *CLOSED)


def starts_children_one_by_one(
    events: list[Event], started: ev.WorkflowExecutionStarted
) -> list[cmd.Command]:
    """The next child is started when the one before has begun; completes when all have ended."""
    initiated = [e for e in events if isinstance(e, out.StartChildWorkflowExecutionInitiated)]
    heard = [e for e in events if isinstance(e, out.ChildWorkflowExecutionStarted)]
    if len(initiated) < STAGES and len(heard) == len(initiated):
        name = f"{started.workflow_id}-c{len(initiated)}"
        return [cmd.StartChildWorkflow(workflow_id=name, workflow_type="Child")]
    if sum(isinstance(event, ENDED) for event in events) == STAGES:
        return [cmd.CompleteWorkflow(b"all home")]
    return []


def does_not_wait_at_first(
    events: list[Event], started: ev.WorkflowExecutionStarted
) -> list[cmd.Command]:
    """… but completes when the last has begun: they are terminated, and only a run that was reset looks for them."""
    heard = sum(isinstance(event, out.ChildWorkflowExecutionStarted) for event in events)
    if heard == STAGES and not started.lineage:
        return [cmd.CompleteWorkflow(b"gone")]
    return starts_children_one_by_one(events, started)


class Client:
    """Starts a parent, resets it now and then, and waits for the end of the last run."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.kind = ("Clan", "Hasty")[number % 2]
        self.workflow_id = f"{self.kind}-{number}"
        self.runs: list[bytes] = []

    async def live(self, resets: int) -> None:
        cluster = self.cluster
        await asyncio.sleep(cluster.ids.jitter() * 8)
        start = cluster.start_intent(self.workflow_id, workflow_type=self.kind)
        self.runs.append((await cluster.ask(self.workflow_id, start)).run_id)
        for _ in range(resets):
            await asyncio.sleep(cluster.ids.jitter() * 3)
            await (self.reset() if cluster.ids.jitter() < 0.7 else self.reset_child())
        await self.completes()
        if self.kind == "Hasty":  # nobody was there to hear of its children
            await self.reset()
            await self.completes()

    async def completes(self) -> None:
        closed = await self.cluster.result(self.workflow_id, self.runs[-1])
        assert closed.status is Status.COMPLETED

    async def reset(self) -> None:
        """To the end of any of its workflow tasks, if there is one."""
        if new_run_id := await self.reset_run(self.workflow_id, self.runs[-1]):
            self.runs.append(new_run_id)

    async def reset_child(self) -> None:
        """The current run of its first child, open or closed: its parent hears of one end all the same."""
        rows = self.cluster.store.tables.current_runs.all()
        name = f"{self.workflow_id}-c0"
        for run_id in [row.run_id for row in rows if row.workflow_id == name]:
            await self.reset_run(name, run_id)

    async def reset_run(self, workflow_id: str, run_id: bytes) -> bytes:
        ids, ends = self.cluster.ids, await self.ends(run_id)
        if not ends:
            return b""
        request_id = ids.new_id()
        new_run_id = reset_run_id(NAMESPACE, workflow_id, request_id)
        asked: Any = intents.ResetWorkflow(
            namespace_id=NAMESPACE,
            workflow_id=workflow_id,
            run_id=run_id,
            request_id=request_id,
            body_hash=b"12345678",
            new_run_id=new_run_id,
            event_id=ends[int(ids.jitter() * len(ends))],
            reason="",
            identity="operator",
        )
        await self.cluster.ask(workflow_id, asked)
        return new_run_id

    async def ends(self, run_id: bytes) -> list[int]:
        """Where the run can be reset to."""
        store = self.cluster.store
        shard_id = next(r.shard_id for r in store.tables.executions.all() if r.run_id == run_id)
        page = await store.load_history(shard_id, run_id, 1, 1_000_000)
        history = decode_history(page.rows, MsgpackCodec())
        return [event.event_id for event in history if isinstance(event, ENDS)]


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    cluster.deciders |= {
        "Clan": starts_children_one_by_one,
        "Hasty": does_not_wait_at_first,
        "Child": child,
    }
    chaos = random.Random(seed)
    clients = [Client(cluster, number) for number in range(PARENTS)]
    lives = [one.live(chaos.randint(1, RESETS)) for one in clients]
    _, histories = await through_trouble(cluster, chaos, lives)
    for one in clients:
        check_clan(one, histories)


def check_clan(client: Client, histories: dict[bytes, list[Event]]) -> None:
    events = histories[client.runs[-1]]
    started = events[0]
    assert isinstance(started, ev.WorkflowExecutionStarted)
    for event in events:
        if not isinstance(event, out.StartChildWorkflowExecutionInitiated):
            continue
        key = event.event_id
        about = [e for e in events if getattr(e, "initiated_event_id", 0) == key]
        begun = [e for e in about if isinstance(e, out.ChildWorkflowExecutionStarted)]
        ended = [e for e in about if isinstance(e, ENDED)]
        assert len(begun) == len(ended) == 1, (
            "invariants 48, 49: told of the start and the end, once"
        )
        of_child = histories[begun[0].run_id][0]
        assert isinstance(of_child, ev.WorkflowExecutionStarted)
        assert of_child.parent is not None
        assert of_child.parent.run_id == writer_of(started, key), "the child of who did the work"
        kinds = [out.ChildWorkflowExecutionCompleted]
        if client.kind == "Hasty":
            kinds.append(out.ChildWorkflowExecutionTerminated)
        assert type(ended[0]) in kinds, (
            "what is kept is not told of the reset, what is undone gives way"
        )
        assert histories[ended[0].run_id][0].workflow_id == event.workflow_id  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", seeds(20, SEEDS))
def test_reset_parents_seed(seed: int) -> None:
    """Invariants 4, 5, 6, 13, 14, 48, 49 through resets of parents."""
    simulate(lambda loop: story(loop, seed), seed)
