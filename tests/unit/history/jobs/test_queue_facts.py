"""How many jobs of a queue wait: those that matching knows, those of its reserve, and those that are only rows."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.history.jobs.work import QUEUE, cancel, complete, create_named, poll
from tests.unit.history.room import NAMESPACE, Node, Room, in_room, pass_time, turns

from perdure_engine.core.tasks import TaskKind
from perdure_engine.history.jobs.queues import CREDIT
from perdure_engine.ports.history import QueueFacts, QueueName
from perdure_engine.ports.store import StoreUnavailable

SMALL = {"jobs_cached_max": 1_000}  # half of it may be in reserve


def facts(node: Node) -> QueueFacts:
    return node.history.queue_facts(QueueName(NAMESPACE, QUEUE, TaskKind.JOB))


def ready(room: Room, *nodes: Node) -> int:
    """What the database has, without what is handed out and not saved as started yet."""
    handed_out = {
        run.task_id
        for node in nodes
        for shard in node.history.shards()
        for run in shard.jobs.memory.jobs.values()
        if run.handout is not None
    }
    rows = [row for row in room.tables.job_runs.all() if row.task_id > 0]
    return sum(row.task_id not in handed_out for row in rows)


async def backlog(node: Node, count: int, shard_id: int = 1) -> None:
    for first in range(0, count, 500):
        names = [f"j{n}" for n in range(first, min(first + 500, count))]
        await create_named(node, *names, shard_id=shard_id)


@in_room(seeds=(0,), **SMALL)
async def test_a_backlog_of_jobs_is_counted_beyond_what_is_in_memory(room: Room) -> None:
    node = await room.node(1)
    await backlog(node, 3_000)
    assert facts(node).backlog_count == ready(room, node) == 3_000
    oldest_us = facts(node).oldest_ready_us
    assert oldest_us == min(row.created_us for row in room.tables.job_runs.all())
    for number in range(30):
        tasks = await poll(node, room.worker(), 100)
        assert facts(node).backlog_count == ready(room, node)
        await complete(node, *tasks)
        await create_named(node, f"new{number}")
        await turns(30)
        assert facts(node).backlog_count == ready(room, node)
    while tasks := await poll(node, room.worker(), 500):
        await complete(node, *tasks)
    assert facts(node).backlog_count == ready(room, node) == 0
    assert facts(node).oldest_ready_us == 0


@in_room(seeds=(0,), **SMALL)
async def test_jobs_that_end_before_they_were_read_are_counted_no_more(room: Room) -> None:
    node = await room.node(1)
    await backlog(node, 2_000)
    for number in (*range(50), *range(1_900, 1_950)):
        await cancel(node, f"j{number}")
    assert facts(node).backlog_count == ready(room, node) == 1_900


@in_room(seeds=(0,), **SMALL)
async def test_a_new_owner_counts_the_jobs_of_before(room: Room) -> None:
    """It reads those that it offers first, and of the others only how many they are."""
    old = await room.node(1)
    await backlog(old, 3_000)
    new = await room.node(1)
    await pass_time(4)
    assert new.holds.calls.count("count_ready_jobs") == 1
    assert facts(new).backlog_count == ready(room, new) == 3_000
    while tasks := await poll(new, room.worker(), 500):
        await complete(new, *tasks)
        await turns(30)
        assert facts(new).backlog_count == ready(room, new)
    assert ready(room, new) == 0


@in_room(seeds=(0,), **SMALL)
async def test_a_count_that_fails_is_a_backlog_told_too_short(room: Room) -> None:
    """It holds up nothing, and is right again when the queue has been read."""
    old = await room.node(1)
    await backlog(old, 3_000)
    new = await room.node()
    new.faults.fail_next("count_ready_jobs", StoreUnavailable("?"))
    await new.take(1)
    await pass_time(4)
    assert CREDIT <= facts(new).backlog_count < ready(room, new) == 3_000
    while tasks := await poll(new, room.worker(), 500):
        await complete(new, *tasks)
    assert facts(new).backlog_count == ready(room, new) == 0
    await backlog(new, 10)
    assert facts(new).backlog_count == 0, "the same jobs"
    await create_named(new, "another")
    assert facts(new).backlog_count == 1


@in_room(seeds=(0,))
async def test_what_comes_in_and_goes_out_is_averaged(room: Room) -> None:
    node = await room.node(1)
    for number in range(60):
        await create_named(node, *[f"{number}-{n}" for n in range(5)])
        await complete(node, *await poll(node, room.worker(), 2))
        node.rooms.flows.sample(5.0)
    found = facts(node)
    assert found.add_rate == pytest.approx(1.0, rel=0.05)
    assert found.dispatch_rate == pytest.approx(0.4, rel=0.05)


@in_room(seeds=(0,))
async def test_jobs_and_activities_of_one_queue_are_told_apart(room: Room) -> None:
    node = await room.node(1, 2)
    await create_named(node, "a", "b")
    await create_named(node, "c", shard_id=2)
    await asyncio.gather(*[node.start(f"w{n}", task_queue=QUEUE) for n in range(2)])
    counts = {
        name.kind: found.backlog_count
        for name, found in node.history.all_queue_facts().items()
        if name.queue == QUEUE
    }
    assert counts == {TaskKind.JOB: 3, TaskKind.WORKFLOW: 2}
