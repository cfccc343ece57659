"""Updates in the owner's memory and rows: saved first, handed out, one outcome for all who wait (invariants 43, 44)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.simulation.world import pass_time, turns
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    Node,
    Room,
    in_room,
    nothing_said,
    refused,
    timer,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.errors import Code
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import IdConflictPolicy, StartUpdate, UpdateStage
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.history import run as run_module
from perdure_engine.history.handout import undo
from perdure_engine.store.memory import Moment

ADMITTED, ACCEPTED, COMPLETED = UpdateStage.ADMITTED, UpdateStage.ACCEPTED, UpdateStage.COMPLETED
FAILURE = Failure(FailureKind.APPLICATION, "no", type="Refused")


def update(
    node: Node, update_id: str = "u-1", stage: UpdateStage = COMPLETED, **changes: Any
) -> asyncio.Future[Any]:
    fields: dict[str, Any] = {"run_id": b"", "body_hash": b"12345678", "input": b"args"}
    return node.history.submit(
        1,
        intents.UpdateWorkflow(
            namespace_id=NAMESPACE,
            workflow_id="w",
            update_id=update_id,
            update_name="set",
            wait_stage=stage,
            **(fields | changes),
        ),
    )


def poll(node: Node, update_id: str = "u-1", stage: UpdateStage = COMPLETED) -> asyncio.Future[Any]:
    return node.history.submit(
        1,
        intents.PollUpdate(
            namespace_id=NAMESPACE,
            workflow_id="w",
            run_id=b"",
            update_id=update_id,
            wait_stage=stage,
        ),
    )


def accept(update_id: str = "u-1") -> cmd.AcceptUpdate:
    return cmd.AcceptUpdate(update_id)


def complete(update_id: str = "u-1", result: bytes = b"done") -> cmd.CompleteUpdate:
    return cmd.CompleteUpdate(update_id, result, None)


def given(task: Any) -> list[str]:
    return [one.update_id for one in task.updates]


# ---- saved first


@in_room()
async def test_invariant_43_an_update_is_acknowledged_and_handed_out_only_when_it_is_saved(
    room: Room,
) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("w", worker, [])
    hold = node.holds.hold("commit")
    admitted = update(node, stage=ADMITTED)
    polled = node.polling(worker, workflow=1, activity=0, timeout_s=5)
    await hold.reached()
    await turns()

    nothing_said(admitted, polled)
    hold.release()

    reply: UpdateStatus = await admitted
    assert reply.stage is ADMITTED
    (task,) = (await polled).workflow_tasks
    assert given(task) == ["u-1"]
    assert task.updates[0].input == b"args"
    (row,) = room.tables.inbox.all()
    assert isinstance(room.codec.decode_buffered(row.payload), ev.WorkflowExecutionUpdateAdmitted)


@in_room()
async def test_each_waits_for_its_stage_and_all_hear_the_same_outcome(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("w", worker, [], cached=True)
    first, accepted = update(node), update(node, stage=ACCEPTED)
    task = await node.workflow_task(worker)
    assert task.previous_started_event_id, "the sticky worker gets new events only"
    await node.complete(task, [accept(), timer(5)], worker)
    assert (await accepted).stage is ACCEPTED
    polled = poll(node)
    nothing_said(first, polled)
    task = await node.workflow_task(worker, timeout_s=10)
    await node.complete(task, [complete()], worker)

    outcomes = [await first, await polled, await poll(node), await update(node)]

    assert outcomes == [UpdateStatus(run_id, "u-1", COMPLETED, b"done")] * 4


@in_room()
async def test_invariant_43_a_rejected_update_is_told_to_all_and_leaves_nothing(
    room: Room,
) -> None:
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("w", worker, [])
    callers = [update(node), update(node, stage=ACCEPTED)]
    await turns()
    task = await node.workflow_task(worker)
    done = node.complete(task, [cmd.RejectUpdate("u-1", FAILURE)])
    callers.append(poll(node))  # decided in the same batch, after the verdict
    await done

    assert [await one for one in callers] == [
        UpdateStatus(run_id, "u-1", COMPLETED, failure=FAILURE)
    ] * 3
    assert not [name for name in await room.names(run_id) if "Update" in name]
    unknown = await refused(poll(node))
    assert (unknown.code, unknown.reason) == (Code.NOT_FOUND, "UPDATE_NOT_FOUND")


# ---- the worker, and what becomes of its task


@in_room()
async def test_an_update_that_comes_during_a_task_goes_out_with_the_next(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.start("w")
    task = await node.workflow_task(worker)
    late = update(node, stage=ACCEPTED)
    await turns()
    await node.complete(task, [FINISH])  # refused: the workflow has not seen it

    task = await node.workflow_task(worker)
    assert given(task) == ["u-1"]
    await node.complete(task, [accept(), complete(), FINISH])
    assert (await late).result == b"done"


@in_room()
async def test_an_update_goes_out_again_when_its_worker_is_gone(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("w", worker, [], cached=True)
    caller = update(node)
    undo(node.shard(), await node.workflow_task(worker))
    assert given(await node.workflow_task(worker)) == ["u-1"]
    node.history.goodbye(worker, [])

    task = await node.workflow_task(room.worker("w2"), timeout_s=60)

    assert given(task) == ["u-1"]
    assert task.events[0].event_id == 1
    await node.complete(task, [accept(), complete()])
    assert (await caller).result == b"done"


@in_room()
async def test_many_large_updates_travel_in_several_tasks(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("w", worker, [])
    large = b"x" * 700_000
    callers = [update(node, f"u-{n}", ACCEPTED, input=large) for n in range(3)]
    await turns()

    seen = []
    for _ in range(3):
        task = await node.workflow_task(worker)
        seen.append(given(task))
        await node.complete(task, [accept(id) for id in given(task)])

    assert seen == [["u-0"], ["u-1"], ["u-2"]]
    assert [(await one).stage for one in callers] == [ACCEPTED] * 3


# ---- the end of the run


@in_room()
async def test_invariant_44_who_waits_hears_of_the_end_of_the_run(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("w", worker, [])
    accepted = update(node, "u-1")
    await node.complete(await node.workflow_task(worker), [accept("u-1")])
    waiting = update(node, "u-2")
    await turns()
    await node.terminate("w")

    outcome: UpdateStatus = await accepted
    refusal = await refused(waiting)

    assert outcome.stage is COMPLETED
    assert outcome.failure is not None
    assert outcome.failure.type == "AcceptedUpdateCompletedWorkflow"
    assert (refusal.code, refusal.reason) == (Code.NOT_FOUND, "WORKFLOW_CLOSED")
    assert (await poll(node, "u-1")) == outcome
    assert (await refused(update(node, "u-3"))).reason == "WORKFLOW_NOT_FOUND"


@in_room()
async def test_an_update_and_the_end_of_its_run_in_one_batch(room: Room) -> None:
    node = await room.node(1)
    await node.at("w", room.worker(), [])

    caller, ended = update(node), node.terminate("w")
    await ended

    assert (await refused(caller)).reason == "WORKFLOW_CLOSED"


# ---- once, whatever dies


@in_room()
async def test_invariant_43_an_admitted_update_outlives_its_owner(room: Room) -> None:
    first = await room.node(1)
    worker = room.worker()
    await first.at("w", worker, [])
    await update(first, stage=ADMITTED)
    caller = update(first)
    await turns()
    second = await room.node(1)  # takes the shard: the first one's memory counts no more
    first.history._shards[1].close()
    assert (await refused(caller)).reason == "SHARD_MOVED"

    again = update(second)
    task = await second.workflow_task(worker, timeout_s=60)
    assert given(task) == ["u-1"]
    await second.complete(task, [accept(), complete()])

    assert (await again).result == b"done"
    assert (await refused(update(second, body_hash=b"otherwise"))).reason == "UPDATE_ID_REUSED"


@in_room()
async def test_who_waits_goes_on_waiting_when_a_batch_comes_to_nothing(room: Room) -> None:
    """The run leaves memory and is read back; its callers are asked for again (design §3)."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("w", worker, [])
    caller = update(node)
    await turns(50)
    node.shard().evict(node.shard().runs[run_id])

    task = await node.workflow_task(worker, timeout_s=60)
    await node.complete(task, [accept(), complete()])

    assert (await caller).result == b"done"


@in_room()
async def test_an_outcome_that_is_not_in_memory_is_read_from_history(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("w", worker, [])
    admitted = update(node, stage=ADMITTED)
    await admitted
    await node.complete(await node.workflow_task(worker), [accept(), complete()])
    run = node.shard().runs[run_id]
    run.events_from = run.state.folded.next_event_id
    run.events.clear()

    assert (await poll(node)) == UpdateStatus(run_id, "u-1", COMPLETED, b"done")

    node.holds.hold("load_history", Moment.BEFORE)
    caller = poll(node)
    await turns(50)
    node.shard().close()
    assert (await refused(caller)).reason == "SHARD_MOVED"


@in_room()
async def test_a_caller_that_has_gone_holds_nothing(room: Room) -> None:
    node = await room.node(1)
    run_id = await node.at("w", room.worker(), [])
    await update(node, stage=ADMITTED)
    caller = update(node)
    await turns(50)
    run = node.shard().runs[run_id]
    assert run.pinned

    caller.cancel()
    await turns()

    assert not run.pinned


# ---- with a start


@in_room()
async def test_update_with_start_waits_in_the_run_that_it_began(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()

    def with_start(update_id: str, **options: Any) -> asyncio.Future[Any]:
        asked = StartUpdate(update_id, "set", b"args", b"", b"12345678", COMPLETED)
        return node.start(
            "w", update=asked, id_conflict_policy=IdConflictPolicy.USE_EXISTING, **options
        )

    request = room.ids.new_id()
    began, repeated = (
        with_start("u-1", run_id=request, request_id=request),
        with_start("u-1", run_id=request, request_id=request),
    )
    joins = with_start("u-2")
    await turns(50)
    task = await node.workflow_task(worker)
    assert given(task) == ["u-1", "u-2"]
    await node.complete(
        task, [accept("u-1"), accept("u-2"), complete("u-1"), complete("u-2"), FINISH]
    )

    answers = [await began, await repeated, await joins]
    assert [(one.run_id, one.update_id, one.started) for one in answers] == [
        (request, "u-1", True),
        (request, "u-1", True),
        (request, "u-2", False),
    ]
    assert (await with_start("u-2")).result == b"done", "of the closed run, and none begins"


@in_room()
async def test_outcomes_stay_within_reach_though_few_events_are_kept(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("w", worker, [])
    assert run_module.EVENTS_KEPT_MAX == 256
    for number in range(60):
        await update(node, f"u-{number}", ADMITTED)
        task = await node.workflow_task(worker)
        await node.complete(task, [accept(f"u-{number}"), complete(f"u-{number}", b"%d" % number)])
    await pass_time(1)

    assert (await poll(node, "u-0")).result == b"0"
    assert (await poll(node, "u-59")).result == b"59"


# ---- a run continues as new while a caller repeats its call


AGAIN = cmd.ContinueAsNew("", "", b"next", b"", b"", 0, 0, None)


async def done_and_continued(
    node: Node, room: Room, how: Sequence[cmd.Command] = (accept(), complete())
) -> bytes:
    """The task that settles update u-1 continues its run as new. That run's id."""
    worker = room.worker()
    first = await node.at("w", worker, [])
    answer = update(node)
    task = await node.workflow_task(worker)
    await node.complete(task, [*how, AGAIN], worker)
    assert (await answer).run_id == first
    return first


@in_room()
async def test_invariant_43_a_repeat_after_the_run_has_continued_has_the_outcome_of_before(
    room: Room,
) -> None:
    """Bug case 13, and the caller whose answer was lost: done once, readable afterwards, also on another node."""
    node = await room.node(1)
    first = await done_and_continued(node, room)
    outcome = UpdateStatus(first, "u-1", COMPLETED, b"done")
    assert [await update(node), await poll(node)] == [outcome, outcome]
    other = await room.node(1)
    assert [await update(other), await poll(other)] == [outcome, outcome]
    assert (await refused(update(other, body_hash=b"another!"))).reason == "UPDATE_ID_REUSED"
    task = await other.workflow_task(room.worker(), timeout_s=30)
    assert given(task) == []
    await other.complete(task, [AGAIN])
    assert await update(other) == outcome, "two runs on"
    assert given(await other.workflow_task(room.worker())) == []


@in_room()
async def test_what_failed_in_the_run_before_may_be_tried_anew(room: Room) -> None:
    """An entity's run says so of a call that it could not come to: ask the next one, with the same id."""
    for how in ([accept()], [accept(), cmd.CompleteUpdate("u-1", b"", FAILURE)]):
        node = await room.node(1)
        first = await done_and_continued(node, room, how)
        assert (await poll(node)).failure is not None
        other = await room.node(1)
        told = await poll(other)
        assert (told.run_id, told.failure is not None) == (first, True)

        again = update(other)
        task = await other.workflow_task(room.worker(), timeout_s=30)
        assert given(task) == ["u-1"]
        await other.complete(task, [accept(), complete(), FINISH])
        assert (await again).result == b"done"
        assert (await update(other)).result == b"done"


@in_room()
async def test_a_run_before_that_is_gone_or_long_past_is_not_looked_for(room: Room) -> None:
    node = await room.node(1)
    first = await done_and_continued(node, room)
    await node.history.submit(1, deletion("w", first))
    other = await room.node(1)
    assert (await update(other, stage=ADMITTED)).stage is ADMITTED
    assert (await refused(poll(other, "u-2"))).code is Code.NOT_FOUND

    await pass_time(3_600)
    late = await room.node(1)
    reads = late.holds.calls.count("load_run")
    assert (await update(late, "u-3", ADMITTED)).stage is ADMITTED
    assert late.holds.calls.count("load_run") == reads + 1, "the current run's"


def deletion(workflow_id: str, run_id: bytes) -> intents.DeleteWorkflow:
    return intents.DeleteWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=workflow_id,
        run_id=run_id,
        request_id=b"delete".ljust(16, b"."),
        body_hash=b"12345678",
    )
