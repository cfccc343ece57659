"""Who may go ahead, and that what was done ahead is one commit with the result.

Invariants 5, 25, 30, 69; semantics §8.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tests.unit.history.room import (
    FINISH,
    Node,
    Room,
    in_room,
    nothing_said,
    refused,
    schedule,
    turns,
)
from tests.unit.history.test_versions import AUTO, ONE, PINNED, complete, fleet, make_current

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.errors import Code
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.replies import WentAhead
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken, token_of_task_ahead
from perdure_engine.core.versions import Behavior
from perdure_engine.history.work import size_of
from perdure_engine.ports.history import HandedActivityTask, WorkerRef
from perdure_engine.ports.store import Conflict, OutcomeUnknown
from perdure_engine.store.memory.faults import Moment

# Of the first workflow task, and of the one that its activity leads to.
FIRST_STARTED, STARTED = 3, 9


def ahead(
    task: HandedActivityTask, worker: WorkerRef, behavior: Behavior, *commands: cmd.Command
) -> intents.CompleteActivity:
    """The result of a run's first activity, with what follows."""
    token = task.token
    of_task = token_of_task_ahead(token, STARTED, token.started_us)
    done = intents.CompleteWorkflowTask(
        of_task,
        list(commands),
        True,
        worker.worker_id,
        worker.identity,
        worker.build_id,
        deployment_name=worker.deployment_name,
        behavior=behavior,
    )
    return intents.CompleteActivity(
        token, b"ok", worker.identity, intents.WorkAhead(done, FIRST_STARTED, False)
    )


async def attempt(
    node: Node,
    worker: WorkerRef,
    *commands: cmd.Command,
    cached: bool = True,
    behavior: Behavior = Behavior.UNSPECIFIED,
    taker: WorkerRef | None = None,
    workflow_id: str = "o",
) -> HandedActivityTask:
    """`taker`'s, of an activity that the worker's workflow task has asked for."""
    await node.start(workflow_id)
    task = await node.workflow_task(worker)
    await complete(node, task, worker, behavior, *(commands or (schedule(),)), cached=cached)
    return await node.activity_task(taker or worker)


@in_room()
async def test_the_worker_that_has_the_run_in_memory_may(room: Room) -> None:
    node = await room.node(1)
    worker, other = room.worker("w1"), room.worker("w2")

    assert (await attempt(node, worker, workflow_id="a")).may_go_ahead
    assert not (await attempt(node, worker, workflow_id="b", cached=False)).may_go_ahead
    assert not (await attempt(node, worker, workflow_id="c", taker=other)).may_go_ahead
    two = (schedule("a"), schedule("b"))
    assert not (await attempt(node, worker, *two, workflow_id="d")).may_go_ahead


@in_room()
async def test_nobody_may_where_the_workflow_s_code_could_cost_the_outcome(room: Room) -> None:
    """It may crash the process, or block it until a timeout: of a last attempt that would be the end."""
    node = await room.node(1)
    worker = room.worker("w1")
    once = schedule(retry_policy=RetryPolicy(maximum_attempts=1))
    twice = schedule(retry_policy=RetryPolicy(1, maximum_attempts=2))

    assert not (await attempt(node, worker, once, workflow_id="a")).may_go_ahead
    first = await attempt(node, worker, twice, workflow_id="b")
    assert first.may_go_ahead
    failure = Failure(FailureKind.APPLICATION, "once", type="E")
    await node.history.complete(intents.FailActivity(first.token, failure, b"", "w"))
    second = await node.activity_task(worker)
    assert second.attempt == 2
    assert not second.may_go_ahead


@in_room()
async def test_nobody_may_with_an_activity_that_has_crashed(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker("w1")
    task = await attempt(node, worker)
    report = Failure(FailureKind.WORKER_LOST, "killed by signal 11")
    await node.history.complete(intents.CrashTask(task.token, report, "w"))

    again = await node.activity_task(worker)
    assert again.crashes == 1
    assert not again.may_go_ahead


@in_room()
async def test_both_are_one_commit(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    task = await attempt(node, worker)
    before = node.holds.calls.count("commit")
    reply = await node.history.complete(ahead(task, worker, Behavior.UNSPECIFIED, FINISH))

    assert isinstance(reply, WentAhead)
    assert node.holds.calls.count("commit") == before + 1
    assert (await room.names(task.run_id))[-6:] == [
        "ActivityTaskStarted",
        "ActivityTaskCompleted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "WorkflowExecutionCompleted",
    ]
    assert room.tasks() == [], "the workflow task was never written"


@in_room()
async def test_invariant_5_it_is_told_after_the_commit(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    task = await attempt(node, worker)
    hold = node.holds.hold("commit")
    told = node.history.complete(ahead(task, worker, Behavior.UNSPECIFIED, FINISH))
    await hold.reached()
    await turns(20)
    nothing_said(told)

    hold.release()
    assert isinstance(await told, WentAhead)


@in_room()
async def test_invariant_25_an_owner_no_more_takes_neither(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    task = await attempt(node, worker)
    await (await room.node()).take(1)
    told = node.history.complete(ahead(task, worker, Behavior.UNSPECIFIED, FINISH))

    assert (await refused(told)).code is Code.UNAVAILABLE
    assert (await room.names(task.run_id))[-1] == "ActivityTaskScheduled"


@in_room()
async def test_a_commit_of_unknown_fate_counts_once(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    task = await attempt(node, worker)
    said = ahead(task, worker, Behavior.UNSPECIFIED, FINISH)
    node.store.faults.fail_next("commit", OutcomeUnknown("lost"), Moment.AFTER)
    told: asyncio.Future[Any] = node.history.complete(said)
    assert isinstance(await told, WentAhead), "the engine finds out that it was there"

    again = await refused(node.history.complete(said))
    assert again.code is Code.NOT_FOUND
    assert (await room.names(task.run_id)).count("WorkflowTaskCompleted") == 2


@in_room()
async def test_how_often_it_counts_is_counted(room: Room) -> None:
    """Of what is saved."""
    node = await room.node(1)
    worker = room.worker()
    metric = node.rooms.metrics.workflow_tasks_ahead
    task = await attempt(node, worker, workflow_id="a")
    node.store.faults.fail_next("commit", Conflict("again"), Moment.BEFORE)
    await node.history.complete(ahead(task, worker, Behavior.UNSPECIFIED, FINISH))
    assert (metric.value("counted"), metric.value("left")) == (1, 0)

    task = await attempt(node, worker, workflow_id="b")
    said = ahead(task, worker, Behavior.UNSPECIFIED, FINISH, cmd.StartTimer("t", 1))
    assert await node.history.complete(said) is None
    assert (metric.value("counted"), metric.value("left")) == (1, 1)


def test_what_was_done_ahead_takes_room_in_the_inbox() -> None:
    """Invariant 69: a shard bounds what waits for it by its size."""
    token = TaskToken(1, b"n" * 16, b"r" * 16, TaskKind.ACTIVITY, 5, 1, 1, 0, 0)
    completion = intents.CompleteWorkflowTask(
        token_of_task_ahead(token, 9, 0), [schedule(input=b"x" * 1_000)], True, b"w", "w", ""
    )
    work = intents.WorkAhead(completion, 3, False)

    alone = size_of(intents.CompleteActivity(token, b"ok", "w"))
    assert size_of(intents.CompleteActivity(token, b"ok", "w", work)) >= alone + 1_000


# ---- versions (semantics §8)


@in_room()
async def test_a_run_that_upgrades_does_so_with_its_next_task(room: Room) -> None:
    """However long its activity ran on the version before."""
    node, registry = await fleet(room)
    task = await attempt(node, ONE, behavior=AUTO)
    assert task.may_go_ahead
    await make_current(registry, "2")

    assert await node.history.complete(ahead(task, ONE, AUTO, FINISH)) is None
    history = await room.history(task.run_id)
    assert isinstance(history[-1], ev.WorkflowTaskScheduled)


@in_room()
async def test_a_pinned_run_goes_on_where_it_is(room: Room) -> None:
    node, registry = await fleet(room)
    task = await attempt(node, ONE, behavior=PINNED)
    await make_current(registry, "2")

    reply = await node.history.complete(ahead(task, ONE, PINNED, FINISH))
    assert isinstance(reply, WentAhead)


@in_room()
async def test_it_is_the_version_that_says_so_that_counts(room: Room) -> None:
    node, _ = await fleet(room)
    task = await attempt(node, ONE, behavior=AUTO)
    of_none = msgspec.structs.replace(ONE, deployment_name="", version="")

    assert await node.history.complete(ahead(task, of_none, AUTO, FINISH)) is None
