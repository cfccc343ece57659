"""How long a queue's backlog is, how old, and what flows in and out: true beyond what is in memory."""

from __future__ import annotations

import pytest
from tests.unit.history.room import NAMESPACE, QUEUE, Node, Room, in_room, pass_time, turns
from tests.unit.history.test_queues import backlog, drain, undo

from perdure_engine.core.ids import queue_number
from perdure_engine.core.tasks import TaskKind, TaskState
from perdure_engine.history.flows import FLOWS_MAX, Flows
from perdure_engine.history.offering import CREDIT
from perdure_engine.ports.history import QueueFacts, QueueName


class StandingClock:
    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """At once."""


def facts(node: Node, kind: TaskKind = TaskKind.WORKFLOW, queue: str = QUEUE) -> QueueFacts:
    return node.history.queue_facts(QueueName(NAMESPACE, queue, kind))


def ready(room: Room, node: Node) -> int:
    """What the database has, without what is handed out and not saved as started yet."""
    runs = node.shard().runs.values()
    handed_out = {
        record.task_id
        for run in runs
        for record in run.state.tasks.values()
        if record.handout is not None
    }
    rows = [row for row in room.tasks() if row.state == TaskState.READY]
    return sum(row.task_id not in handed_out for row in rows)


@in_room(seeds=(0,))
async def test_a_backlog_is_counted_beyond_what_is_in_memory(room: Room) -> None:
    node = await room.node(1)
    await backlog(node, 3_000)
    assert facts(node).backlog_count == ready(room, node) == 3_000
    for number in range(12):
        await drain(node, room, 1, 300)
        await node.start(f"new{number}")
        await turns(30)
        assert facts(node).backlog_count == ready(room, node)
    await drain(node, room, 4)
    await turns(30)
    assert facts(node).backlog_count == ready(room, node) == 0
    assert facts(node).oldest_ready_us == 0


@in_room(seeds=(0,))
async def test_what_ends_before_it_was_ever_read_is_counted_no_more(room: Room) -> None:
    node = await room.node(1)
    await backlog(node, CREDIT + 500)
    for number in range(CREDIT + 100, CREDIT + 300):
        await node.terminate(f"o{number}")
    for number in range(50):
        await node.terminate(f"o{number}")
    assert facts(node).backlog_count == ready(room, node) == CREDIT + 250


@in_room(seeds=(0,))
async def test_a_new_owner_knows_the_backlog_of_before(room: Room) -> None:
    old = await room.node(1)
    await backlog(old, 2_500)
    new = await room.node(1)
    await pass_time(4)
    assert facts(new).backlog_count == ready(room, new) == 2_500
    await drain(new, room, 30)
    assert facts(new).backlog_count == ready(room, new) > 0
    await pass_time(6)
    await drain(new, room, 30)
    assert facts(new).backlog_count == ready(room, new) == 0


@in_room(seeds=(0,))
async def test_what_comes_back_is_counted_again(room: Room) -> None:
    node = await room.node(1)
    await backlog(node, 10)
    task = await node.workflow_task(room.worker())
    assert facts(node).backlog_count == 9
    undo(node.shard(), task)
    assert facts(node).backlog_count == 10


@in_room(seeds=(0,))
async def test_the_oldest_tells_how_long_a_queue_has_waited(room: Room) -> None:
    node = await room.node(1, 2)
    since_us = room.now_us
    await backlog(node, CREDIT + 10)
    await pass_time(30)
    await node.start("late", 2)
    assert since_us <= facts(node).oldest_ready_us <= since_us + 5_000_000
    assert facts(node).backlog_count == CREDIT + 11
    assert facts(node, queue="another") == QueueFacts(0, 0, 0.0, 0.0)


@in_room(seeds=(0,))
async def test_what_flows_in_and_out_is_averaged_over_a_minute(room: Room) -> None:
    node = await room.node(1)
    flows = node.rooms.flows
    for number in range(60):
        await node.start(f"o{number}")
        await node.start(f"p{number}")
        await drain(node, room, 1, 1)
        flows.sample(5.0)
    found = facts(node)
    assert found.add_rate == pytest.approx(2 / 5, rel=0.05)
    assert found.dispatch_rate == pytest.approx(1 / 5, rel=0.05)
    for _ in range(12):
        flows.sample(5.0)
    assert facts(node).add_rate == pytest.approx(found.add_rate / 2.718, rel=0.05)


def test_queues_that_nothing_flows_through_are_forgotten() -> None:
    flows = Flows(StandingClock())
    number = queue_number(NAMESPACE, TaskKind.JOB, QUEUE)
    flows.flow(number, NAMESPACE, QUEUE, TaskKind.JOB).added += 1
    flows.sample(5.0)
    assert number in flows.by_number
    for _ in range(100):
        flows.sample(5.0)
    assert not flows.by_number


def test_names_of_queues_are_bounded() -> None:
    flows = Flows(StandingClock())
    for number in range(FLOWS_MAX + 10):
        flows.flow(number, NAMESPACE, str(number), TaskKind.JOB).added += 1
    assert len(flows.by_number) == FLOWS_MAX
