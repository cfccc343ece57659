"""The pump of messages between runs: each arrives, once in effect and in order, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    SHARDS,
    Hold,
    Node,
    Room,
    cmd,
    ev,
    in_room,
    nothing_said,
    pass_time,
    refused,
    turns,
    within,
)
from tests.unit.history.test_removing import keep_for, left_of, retention

from perdure_engine.core import intents
from perdure_engine.core import outside_events as out
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import child_run_id, message_request_id, shard_of
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history import outbox
from perdure_engine.history.refusals import is_final
from perdure_engine.history.stillness import Stillness, stillness
from perdure_engine.ports.history import HandedWorkflowTask
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.store import OutcomeUnknown
from perdure_engine.store.memory import Moment

EVERY = tuple(range(1, SHARDS + 1))
INITIATED = 5  # of the first message of a run's first workflow task


def shard_id(workflow_id: str) -> int:
    return shard_of(NAMESPACE, workflow_id, SHARDS)


def apart(workflow_id: str, name: str = "child") -> str:
    """A workflow id of another shard."""
    return next(
        f"{name}-{n}" for n in range(100) if shard_id(f"{name}-{n}") != shard_id(workflow_id)
    )


CHILD = apart("parent")


def child(workflow_id: str = CHILD, **options: Any) -> cmd.StartChildWorkflow:
    return cmd.StartChildWorkflow(workflow_id=workflow_id, workflow_type="Ship", **options)


def signal(workflow_id: str, name: str = "s") -> cmd.SignalExternalWorkflow:
    return cmd.SignalExternalWorkflow(workflow_id=workflow_id, signal_name=name)


async def parent(node: Node, room: Room, commands: Sequence[cmd.Command]) -> bytes:
    return await node.at("parent", room.worker(), commands, shard_id("parent"))


async def current(node: Node, workflow_id: str) -> Any:
    return await node.describe(workflow_id, shard_id(workflow_id))


def messages(room: Room) -> int:
    return sum(len(room.tasks(TaskKind.MESSAGE, shard)) for shard in EVERY)


async def quiet(room: Room) -> None:
    """Until every message has its answer."""
    async with asyncio.timeout(120):
        while messages(room):
            await pass_time(0.05)


async def heard(room: Room, run_id: bytes) -> list[str]:
    """What the parent's history says of others."""
    events = await room.history(run_id, shard_id("parent"))
    return [type(event).__name__ for event in events if type(event) in HEARD]


HEARD = frozenset(
    (
        out.StartChildWorkflowExecutionFailed,
        out.ChildWorkflowExecutionStarted,
        out.ChildWorkflowExecutionCompleted,
        out.ChildWorkflowExecutionTerminated,
        out.ExternalWorkflowExecutionSignaled,
        out.SignalExternalWorkflowExecutionFailed,
    )
)


@in_room()
async def test_a_child_of_another_shard_starts_runs_and_tells_its_end(room: Room) -> None:
    """Invariants 5, 6, 48."""
    node = await room.node(*EVERY)
    run_id = await parent(node, room, [child()])
    await quiet(room)
    started = await current(node, CHILD)
    assert started.info.run_id == child_run_id(run_id, INITIATED)
    assert started.parent.run_id == run_id
    for _ in range(2):  # the parent's, with Started, and the child's own
        task = await node.workflow_task(room.worker())
        await node.complete(task, [FINISH] if task.workflow_type == "Ship" else [])
    await quiet(room)
    events = await room.history(run_id, shard_id("parent"))
    (completed,) = [e for e in events if isinstance(e, out.ChildWorkflowExecutionCompleted)]
    assert (completed.result, completed.run_id) == (b"done", started.info.run_id)
    assert not node.alarms


@in_room()
async def test_a_message_waits_for_its_shard_to_be_served(room: Room) -> None:
    """Invariant 14: it goes when it has its answer, not before."""
    node = await room.node(shard_id("parent"))
    run_id = await parent(node, room, [child()])
    await pass_time(30)
    assert messages(room) == 1
    assert not node.alarms, "a shard that is elsewhere is no alarm"
    await node.take(shard_id(CHILD))
    await quiet(room)
    assert await heard(room, run_id) == ["ChildWorkflowExecutionStarted"]


@in_room()
async def test_a_shard_that_was_lost_to_another_node_is_reached_there(room: Room) -> None:
    """It is in this node's memory still, closed."""
    node = await room.node(*EVERY)
    other = await room.node(shard_id(CHILD))
    node.history.peers, other.history.peers = Wire(other), Wire(node)
    await refused(node.start("lost", shard_id(CHILD)))  # its fence is another's
    run_id = await parent(node, room, [child()])
    await quiet(room)
    assert await heard(room, run_id) == ["ChildWorkflowExecutionStarted"]


@in_room()
async def test_the_next_owner_finds_what_was_not_delivered(room: Room) -> None:
    """Invariants 5, 48: the owner dies between Initiated and Started."""
    old = await room.node(shard_id("parent"))
    run_id = await parent(old, room, [child()])
    new = await room.node(*EVERY)
    await quiet(room)
    assert await heard(room, run_id) == ["ChildWorkflowExecutionStarted"]
    assert (await current(new, CHILD)).info.run_id == child_run_id(run_id, INITIATED)


@in_room()
async def test_inv48_an_answer_that_was_not_saved_is_asked_for_again(room: Room) -> None:
    """The child has begun, its answer is lost with the owner: the next one starts it again and finds it."""
    other = await room.node(shard_id(CHILD))
    old = await room.node(shard_id("parent"))
    held: list[Hold] = []
    # what the old owner sends to the database from then on does not come there
    old.history.peers = Wire(other, then=lambda: held.append(old.holds.hold("commit")))
    run_id = await parent(old, room, [child()])
    await pass_time(1)
    (hold,) = held
    await hold.reached()
    assert (await current(other, CHILD)).info.run_id == child_run_id(run_id, INITIATED)
    new = await room.node(shard_id("parent"))
    new.history.peers = Wire(other)
    hold.release()
    await quiet(room)
    assert await heard(room, run_id) == ["ChildWorkflowExecutionStarted"]
    names = await room.names(child_run_id(run_id, INITIATED), shard_id(CHILD))
    assert names == ["WorkflowExecutionStarted", "WorkflowTaskScheduled"]


class Wire:
    """Implements ports.delivery.Peers: another node of the test. `loses` answers of what has arrived; `then` is called
    before one comes back."""

    def __init__(
        self, node: Node, *, loses: int = 0, then: Callable[[], object] = lambda: None
    ) -> None:
        self.node = node
        self.loses = loses
        self.then = then
        self.delivered: list[intents.DeliveredIntent] = []

    async def deliver(self, shard: int, intent: intents.DeliveredIntent) -> Any:
        self.delivered.append(intent)
        answer = await self.node.history.receive(shard, intent)
        self.then()
        if self.loses:
            self.loses -= 1
            raise Rejected(Code.UNAVAILABLE, "LOST", "the answer was lost")
        return answer


@in_room()
async def test_what_is_delivered_twice_has_one_effect(room: Room) -> None:
    """Invariants 41, 48, 49: a start, signals, the close policy, each with a lost answer."""
    other = await room.node(shard_id(CHILD))
    node = await room.node(shard_id("parent"))
    node.history.peers = wire = Wire(other, loses=2)
    other.history.peers = Wire(node)
    run_id = await parent(node, room, [child(), signal(CHILD, "one"), signal(CHILD, "two")])
    await quiet(room)
    assert len(wire.delivered) == 5
    wire.loses = 1
    await node.terminate("parent", shard_id("parent"))
    await quiet(room)
    assert len(wire.delivered) == 7
    events = await room.history(child_run_id(run_id, INITIATED), shard_id(CHILD))
    assert [type(event).__name__ for event in events] == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowExecutionSignaled",
        "WorkflowExecutionSignaled",
        "WorkflowExecutionTerminated",
    ]
    signals = [e.signal_name for e in events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert signals == ["one", "two"], "in the sender's order"
    assert events[-1].request_id == message_request_id(run_id, -INITIATED)


FOR_GOOD = (
    Rejected(Code.INVALID_ARGUMENT, "NO", "no"),
    Rejected(Code.NOT_FOUND, "NO", "no"),
    Rejected(Code.FAILED_PRECONDITION, "NO", "no"),
    Rejected(Code.PERMISSION_DENIED, "NO", "no"),
    Rejected(Code.RESOURCE_EXHAUSTED, "TOO_MANY_SIGNALS", "no"),
)
FOR_NOW = (
    Rejected(Code.UNAVAILABLE, "NO", "no"),
    Rejected(Code.RESOURCE_EXHAUSTED, "INBOX_FULL", "no"),
    Rejected(Code.INTERNAL, "NO", "no"),
    Rejected(Code.UNIMPLEMENTED, "NO", "an older version"),
    Rejected(Code.UNAUTHENTICATED, "NO", "another secret"),
)


class RefusingOnce(Wire):
    def __init__(self, node: Node, refusal: Rejected) -> None:
        super().__init__(node)
        self._refusals = [refusal]

    async def deliver(self, shard: int, intent: intents.DeliveredIntent) -> Any:
        if self._refusals:
            raise self._refusals.pop()
        return await super().deliver(shard, intent)


@pytest.mark.parametrize("refusal", [*FOR_GOOD, *FOR_NOW], ids=lambda one: one.code.name)
def test_what_is_refused_for_good_is_an_answer_and_all_else_is_said_again(
    refusal: Rejected,
) -> None:
    """Bug report 7: nobody says for ever what is always refused the same way. Schedules' errands go by the same."""

    @in_room(seeds=(0,))
    async def story(room: Room) -> None:
        other = await room.node(shard_id(CHILD))
        node = await room.node(shard_id("parent"))
        await other.start(CHILD, shard_id(CHILD))
        other.history.peers = Wire(node)
        node.history.peers = RefusingOnce(other, refusal)
        run_id = await parent(node, room, [signal(CHILD)])
        await quiet(room)
        failed = "SignalExternalWorkflowExecutionFailed"
        signaled = "ExternalWorkflowExecutionSignaled"
        assert await heard(room, run_id) == [failed if refusal in FOR_GOOD else signaled]
        alarming = refusal.code in (Code.INTERNAL, Code.UNIMPLEMENTED, Code.UNAUTHENTICATED)
        assert node.alarms == (["message_refused"] if alarming else [])

    assert is_final(refusal) is (refusal in FOR_GOOD)
    story()


@in_room()
async def test_messages_of_one_run_to_one_id_arrive_in_their_order(room: Room) -> None:
    node = await room.node(*EVERY)
    names = [f"{n}" for n in range(20)]
    await parent(node, room, [child(), *(signal(CHILD, name) for name in names)])
    await quiet(room)
    described = await current(node, CHILD)
    events = await room.history(described.info.run_id, shard_id(CHILD))
    arrived = [e.signal_name for e in events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert arrived == names


@in_room()
async def test_the_order_holds_over_a_take_over(room: Room) -> None:
    """What the next owner makes waits until what the last one left behind has been found."""
    other = await room.node(shard_id(CHILD))
    receiver = await other.start(CHILD, shard_id(CHILD), task_queue="elsewhere")
    old = await room.node(shard_id("parent"))
    await parent(old, room, [signal(CHILD, "one")])
    await old.signal("parent", shard_id=shard_id("parent"))
    new = await room.node()
    scan = new.holds.hold("load_tasks")
    await new.take(shard_id("parent"))
    new.history.peers = Wire(other)
    await scan.reached()
    await new.signal("parent", shard_id=shard_id("parent"))  # loads the run
    task = new.history.start_task(offer_of(room), room.worker("w2"))
    assert isinstance(task, HandedWorkflowTask)
    await new.complete(task, [signal(CHILD, "two")])
    await pass_time(1)
    scan.release()
    await quiet(room)
    events = await room.history(receiver.run_id, shard_id(CHILD))
    arrived = [e.signal_name for e in events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert arrived == ["one", "two"]


def offer_of(room: Room) -> TaskOffer:
    """The parent's workflow task, as its next owner will offer it."""
    (row,) = room.tasks(TaskKind.WORKFLOW, shard_id("parent"))
    record = room.codec.decode_task(row)
    return TaskOffer(
        row.shard_id,
        NAMESPACE,
        TaskKind.WORKFLOW,
        record.queue,
        row.queue_no,
        row.task_id,
        row.run_id,
        record.scheduled_event_id,
        row.priority,
        b"",
        record.ready_us,
    )


@in_room()
async def test_a_message_to_nobody_and_to_oneself(room: Room) -> None:
    node = await room.node(*EVERY)
    run_id = await parent(node, room, [signal("nobody"), signal("parent")])
    await quiet(room)
    assert sorted(await heard(room, run_id)) == [
        "ExternalWorkflowExecutionSignaled",
        "SignalExternalWorkflowExecutionFailed",
    ]
    names = await room.names(run_id, shard_id("parent"))
    assert names.count("WorkflowExecutionSignaled") == 1


@in_room()
async def test_a_child_whose_id_is_taken_fails_to_start(room: Room) -> None:
    node = await room.node(*EVERY)
    taken = await node.start(CHILD, shard_id(CHILD), task_queue="elsewhere")
    run_id = await parent(node, room, [child()])
    await quiet(room)
    assert await heard(room, run_id) == ["StartChildWorkflowExecutionFailed"]
    await node.terminate("parent", shard_id("parent"))
    await quiet(room)
    described = await current(node, CHILD)
    assert (described.info.run_id, described.info.status) == (taken.run_id, Status.RUNNING)


@in_room()
async def test_inv49_every_child_is_told_by_its_own_policy(room: Room) -> None:
    node = await room.node(*EVERY)
    policies = {f"of-{policy.name}": policy for policy in ParentClosePolicy}
    await parent(node, room, [child(name, parent_close_policy=p) for name, p in policies.items()])
    await quiet(room)
    await node.terminate("parent", shard_id("parent"))
    await quiet(room)
    told = {name: await current(node, name) for name in policies}
    assert {name: one.info.status for name, one in told.items()} == {
        "of-TERMINATE": Status.TERMINATED,
        "of-ABANDON": Status.RUNNING,
        "of-REQUEST_CANCEL": Status.RUNNING,
    }
    assert [name for name, one in told.items() if one.cancel_requested] == ["of-REQUEST_CANCEL"]


@in_room()
async def test_the_rest_of_many_messages_is_read_from_its_rows(room: Room) -> None:
    """Invariant 13: none is forgotten that memory had no room for, of this owner or of the one before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "CREDIT", 3)
        patch.setattr(outbox, "PAGE", 2)
        node = await room.node(shard_id("parent"))
        children = [f"many-{n}" for n in range(11)]
        commands = [child(name) for name in children] + [signal(name) for name in children]
        run_id = await parent(node, room, commands)
        await pass_time(1)
        for shard in EVERY:
            if shard != shard_id("parent"):
                await node.take(shard)
        await quiet(room)
        assert (await heard(room, run_id)).count("ChildWorkflowExecutionStarted") == 11
        assert (await heard(room, run_id)).count("ExternalWorkflowExecutionSignaled") == 11
        await pass_time(1)
        assert not node.shard(shard_id("parent")).outbox.busy


@in_room()
async def test_the_next_owner_reads_many_messages_in_pages(room: Room) -> None:
    """Invariant 13."""
    old = await room.node(shard_id("parent"))
    children = [f"many-{n}" for n in range(11)]
    await parent(old, room, [child(name) for name in children])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "CREDIT", 3)
        patch.setattr(outbox, "PAGE", 2)
        node = await room.node(*EVERY)
        await quiet(room)
        await pass_time(1)
        for name in children:
            assert (await current(node, name)).info.status is Status.RUNNING
        assert not node.shard(shard_id("parent")).outbox.busy


@in_room()
async def test_a_run_is_deleted_when_it_has_said_what_it_had_to(room: Room) -> None:
    """Invariant 49: a parent that is deleted does not leave its child behind."""
    node = await room.node(shard_id("parent"))
    run_id = await parent(node, room, [child()])
    deleted = node.history.submit(
        shard_id("parent"),
        intents.DeleteWorkflow(
            namespace_id=NAMESPACE,
            workflow_id="parent",
            run_id=b"",
            request_id=room.ids.new_id(),
            body_hash=b"12345678",
        ),
    )
    await pass_time(10)
    nothing_said(deleted)
    assert left_of(room, run_id)
    await node.take(shard_id(CHILD))
    await within(deleted, 120)
    assert not left_of(room, run_id)
    assert (await current(node, CHILD)).info.status is Status.TERMINATED
    assert messages(room) == 0


@in_room()
async def test_retention_leaves_a_run_that_has_something_to_say(room: Room) -> None:
    """Invariant 14."""
    node = await room.node(shard_id("parent"))
    run_id = await parent(node, room, [child(), FINISH])
    keep_for(room, 10)
    await pass_time(60)
    assert await retention(node).run_once() == 1
    await pass_time(1)
    assert not left_of(room, run_id), "its child was never saved: nothing is to be said"
    run_id = await parent(node, room, [signal(CHILD), FINISH])
    await pass_time(60)
    await retention(node).run_once()
    await pass_time(1)
    assert left_of(room, run_id)
    await node.take(shard_id(CHILD))
    await quiet(room)
    await retention(node).run_once()
    await pass_time(1)
    assert not left_of(room, run_id)


@in_room()
async def test_inv25_a_paused_owner_that_wakes_says_nothing(room: Room) -> None:
    """Its lease has ended, and another has its shard: what is in its memory may be old."""
    other = await room.node(shard_id(CHILD))
    old = await room.node(shard_id("parent"))
    run_id = await parent(old, room, [child()])
    old.lease = False
    new = await room.node(shard_id("parent"))
    old.history.peers = wire = Wire(other)
    await pass_time(30)
    assert wire.delivered == []
    assert old.shard(shard_id("parent")).closed
    new.history.peers = Wire(other)
    await quiet(room)
    assert await heard(room, run_id) == ["ChildWorkflowExecutionStarted"]


@in_room()
async def test_a_caller_that_waits_for_a_deletion_hears_that_the_shard_has_moved(
    room: Room,
) -> None:
    node = await room.node(shard_id("parent"))
    await parent(node, room, [child()])
    deleted = node.history.submit(
        shard_id("parent"),
        intents.DeleteWorkflow(
            namespace_id=NAMESPACE,
            workflow_id="parent",
            run_id=b"",
            request_id=room.ids.new_id(),
            body_hash=b"12345678",
        ),
    )
    await pass_time(1)
    await node.history.release_many([shard_id("parent")])
    assert (await refused(deleted)).reason == "SHARD_MOVED"


@in_room()
async def test_an_outcome_that_is_unknown_loses_and_doubles_nothing(room: Room) -> None:
    """Invariants 5, 48: the statement with Initiated, with the child, with the answer."""
    node = await room.node(*EVERY)
    started = await node.start("parent", shard_id("parent"))
    task = await node.workflow_task(room.worker())
    for moment in (Moment.AFTER, Moment.BEFORE, Moment.AFTER, Moment.AFTER, Moment.BEFORE):
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
    await node.complete(task, [child(), signal(CHILD)])
    await quiet(room)
    assert await heard(room, started.run_id) == [
        "ChildWorkflowExecutionStarted",
        "ExternalWorkflowExecutionSignaled",
    ]
    names = await room.names(child_run_id(started.run_id, INITIATED), shard_id(CHILD))
    assert names.count("WorkflowExecutionSignaled") == 1


@in_room()
async def test_time_does_not_jump_while_something_is_to_be_said(room: Room) -> None:
    node = await room.node(shard_id("parent"))
    await parent(node, room, [child()])
    await turns(50)

    assert stillness(node.history.shards()) is Stillness.MOVING
