"""Parents and children under crashes, pauses and lost commits: nothing that one run says to another is lost or doubled.

Both live on any shard of any node. Children continue as new; parents leave children behind, with each close policy.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, get_args

import pytest
from tests.simulation.cluster import SHARDS, Cluster, Worker
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.scrubber import scrub
from tests.simulation.test_cluster import QUIET_ALARMS, trouble
from tests.simulation.world import pass_time

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.events import Event
from perdure_engine.core.ids import child_run_id, message_request_id
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskState
from perdure_engine.store.memory.faults import Faults

T = TypeVar("T")

SEEDS = 25
KINDS = ("Family", "Leaver")
PARENTS = 4  # of each kind
CHILDREN = 3  # of each parent
CLOSED = get_args(out.ChildClosedEvent)
# a child may be over before the signal comes through all the trouble
SIGNAL_ENDED = (
    out.ExternalWorkflowExecutionSignaled,
    out.SignalExternalWorkflowExecutionFailed,
)
SLEEP_S = 120  # longer than any trouble keeps a message


def _count(events: list[Event], *kinds: type) -> int:
    return sum(isinstance(event, kinds) for event in events)


# ---- the workflows


def waits_for_its_children(
    events: list[Event], started: ev.WorkflowExecutionStarted
) -> list[cmd.Command]:
    """Starts its children, signals the first, and completes when all have ended."""
    names = [f"{started.workflow_id}-c{n}" for n in range(CHILDREN)]
    if not _count(events, out.StartChildWorkflowExecutionInitiated):
        starts = [cmd.StartChildWorkflow(workflow_id=name, workflow_type="Child") for name in names]
        return [
            *starts,
            cmd.SignalExternalWorkflow(
                workflow_id=names[0], signal_name="hello", child_workflow_only=True
            ),
        ]
    if _count(events, *CLOSED) < CHILDREN or not _count(events, *SIGNAL_ENDED):
        return []
    return [cmd.CompleteWorkflow(b"all home")]


def child(events: list[Event], started: ev.WorkflowExecutionStarted) -> list[cmd.Command]:
    """Continues as new once, half a second a run."""
    if not _count(events, ev.TimerStarted):
        return [cmd.StartTimer("t", 500)]
    if not _count(events, ev.TimerFired):
        return []
    if started.initiator is ev.Initiator.NONE:
        return [cmd.ContinueAsNew("", "", b"second", b"", b"", 0, 0, None)]
    return [cmd.CompleteWorkflow(started.workflow_id.encode())]


def leaves_its_children(
    events: list[Event], started: ev.WorkflowExecutionStarted
) -> list[cmd.Command]:
    """Starts a child of each policy and completes when it has heard of the first."""
    if not _count(events, out.StartChildWorkflowExecutionInitiated):
        return [
            cmd.StartChildWorkflow(
                workflow_id=f"{started.workflow_id}-{policy.name}",
                workflow_type="Sleeper",
                parent_close_policy=policy,
            )
            for policy in ParentClosePolicy
        ]
    if not _count(events, out.ChildWorkflowExecutionStarted):
        return []
    return [cmd.CompleteWorkflow(b"gone")]


def sleeper(events: list[Event], started: ev.WorkflowExecutionStarted) -> list[cmd.Command]:
    if _count(events, ev.WorkflowExecutionCancelRequested):
        return [cmd.CancelWorkflow(b"")]
    if not _count(events, ev.TimerStarted):
        return [cmd.StartTimer("t", SLEEP_S * 1000)]
    return [cmd.CompleteWorkflow(b"slept")] if _count(events, ev.TimerFired) else []


# ---- the story


async def one_parent(cluster: Cluster, workflow_id: str, workflow_type: str) -> bytes:
    await asyncio.sleep(cluster.ids.jitter() * 8)
    start = cluster.start_intent(workflow_id, workflow_type=workflow_type)
    started = await cluster.ask(workflow_id, start)
    closed = await cluster.result(workflow_id, started.run_id)
    assert closed.status is Status.COMPLETED
    run_id: bytes = started.run_id
    return run_id


async def all_is_said(cluster: Cluster) -> None:
    """Until every run has closed, and every message has its answer."""
    tables = cluster.store.tables
    while any(row.state == TaskState.TO_SEND for row in tables.tasks.all()) or any(
        row.status == Status.RUNNING for row in tables.executions.all()
    ):
        await pass_time(1)


async def through_trouble(
    cluster: Cluster, chaos: random.Random, lives: Sequence[Coroutine[Any, Any, T]]
) -> tuple[list[T], dict[bytes, list[Event]]]:
    """Two nodes and a worker, until all lives are over and all is said. What they came to, and all histories."""
    await cluster.start_node()
    await cluster.start_node()
    Worker(cluster, "w0").start()
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    async with asyncio.timeout(900):
        results = await asyncio.gather(*lives)
        await havoc
        await all_is_said(cluster)
    cluster.store.faults = Faults()  # what was planned and not met
    histories = await scrub(cluster.store, SHARDS)
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms
    return results, histories


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    cluster.deciders |= {
        "Family": waits_for_its_children,
        "Child": child,
        "Leaver": leaves_its_children,
        "Sleeper": sleeper,
    }
    run_ids, histories = await through_trouble(
        cluster,
        random.Random(seed),
        [one_parent(cluster, f"{kind}-{n}", kind) for kind in KINDS for n in range(PARENTS)],
    )
    runs = Counter(row.workflow_id for row in cluster.store.tables.executions.all())
    assert len(histories) == PARENTS * (1 + 2 * CHILDREN) + PARENTS * (1 + len(ParentClosePolicy))
    for number, run_id in enumerate(run_ids[:PARENTS]):
        check_family(f"Family-{number}", run_id, histories, runs)
    for run_id in run_ids[PARENTS:]:
        check_leaver(run_id, histories)


def check_family(
    workflow_id: str, run_id: bytes, histories: dict[bytes, list[Event]], runs: Counter[str]
) -> None:
    events = histories[run_id]
    for number in range(CHILDREN):
        name = f"{workflow_id}-c{number}"
        assert runs[name] == 2, "invariant 48: one child, and the run that it continues as"
        of_child = [event for event in events if getattr(event, "workflow_id", "") == name]
        started = [e for e in of_child if isinstance(e, out.ChildWorkflowExecutionStarted)]
        completed = [e for e in of_child if isinstance(e, out.ChildWorkflowExecutionCompleted)]
        assert len(started) == len(completed) == 1, "invariant 48: told once"
        assert completed[0].result == name.encode()
        first, last = histories[started[0].run_id], histories[completed[0].run_id]
        assert isinstance(last[0], ev.WorkflowExecutionStarted)
        assert last[0].continued_from_run_id == started[0].run_id
        signals = _count([*first, *last], ev.WorkflowExecutionSignaled)
        arrived = _count(events, out.ExternalWorkflowExecutionSignaled)
        assert signals == (arrived if number == 0 else 0), "invariant 41: once in the whole chain"


def check_leaver(run_id: bytes, histories: dict[bytes, list[Event]]) -> None:
    """Invariant 49."""
    ends = {
        ParentClosePolicy.TERMINATE: ev.WorkflowExecutionTerminated,
        ParentClosePolicy.REQUEST_CANCEL: ev.WorkflowExecutionCanceled,
        ParentClosePolicy.ABANDON: ev.WorkflowExecutionCompleted,
    }
    for event in histories[run_id]:
        if not isinstance(event, out.StartChildWorkflowExecutionInitiated):
            continue
        of_child = histories[child_run_id(run_id, event.event_id)]
        policy = event.parent_close_policy
        assert isinstance(of_child[-1], ends[policy]), (policy, of_child[-1])
        told = [
            e
            for e in of_child
            if getattr(e, "request_id", b"") == message_request_id(run_id, -event.event_id)
        ]
        assert len(told) == (0 if policy is ParentClosePolicy.ABANDON else 1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_children_seed(seed: int) -> None:
    """Invariants 5, 6, 13, 14, 41, 48, 49 between runs: lost 0, twice 0."""
    simulate(lambda loop: story(loop, seed), seed)
