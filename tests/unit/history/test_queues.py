"""Offers: credit per queue, paging from saved rows, stale offers, offers again (design §4 and §6)."""

import asyncio

from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    QUEUE,
    Node,
    Room,
    in_room,
    pass_time,
    turns,
)

from perdure_engine.core.intents import SaveStart
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history.handout import undo
from perdure_engine.history.offering import CREDIT
from perdure_engine.ports.store import StoreUnavailable


async def backlog(node: Node, count: int, prefix: str = "o") -> None:
    await asyncio.gather(*(node.start(f"{prefix}{n}") for n in range(count)))


async def drain(node: Node, room: Room, rounds: int, each: int = 500) -> list[str]:
    """Take everything there is and finish it. Returns the workflow ids in the order they came."""
    seen = []
    for _ in range(rounds):
        answer = await node.polling(room.worker(), workflow=each, timeout_s=0.2)
        done = [node.complete(task, [FINISH]) for task in answer.workflow_tasks]
        seen += [task.workflow_id for task in answer.workflow_tasks]
        await asyncio.gather(*done)
    return seen


@in_room(seeds=(0,))
async def test_credit_is_1000_per_queue_and_3000_tasks_are_all_paged_through(room: Room) -> None:
    """Invariants 13, 15: none lost while new ones come in."""
    node = await room.node(1)
    await backlog(node, 3_000)
    [book] = node.shard().queues._books.values()
    assert len(book.offered) == CREDIT
    assert node.matcher.describe(NAMESPACE, QUEUE, TaskKind.WORKFLOW).backlog_count == CREDIT
    seen = []
    for number in range(16):
        seen += await drain(node, room, 1, 300)
        await node.start(f"new{number}")
        assert len(book.offered) <= CREDIT
    seen += await drain(node, room, 10)
    assert len(seen) == len(set(seen)) == 3_016
    assert not room.tasks()


@in_room(seeds=(0,))
async def test_a_backlog_of_3000_survives_a_take_over_while_new_ones_come_in(room: Room) -> None:
    """Invariants 13, 15: a new task, with a number of the new range, is published before the scan has seen the old."""
    old = await room.node(1)
    await backlog(old, 3_000)
    new = await room.node()
    hold = new.holds.hold("load_tasks")
    await new.take(1)
    await hold.reached()
    await new.start("early")
    hold.release()
    await pass_time(4)
    seen = await drain(new, room, 60)
    await pass_time(6)
    seen += await drain(new, room, 60)
    assert len(seen) == len(set(seen)) == 3_001


@in_room(seeds=(0,), start_save_after_s=1_000.0, lease_s=1_000.0)
async def test_a_started_task_whose_row_was_read_leaves_with_its_end(room: Room) -> None:
    """Its start is not saved: the row that a page reads says that it is ready."""
    old = await room.node(1)
    await backlog(old, CREDIT + 300)
    new = await room.node()
    hold = new.holds.hold("load_tasks")
    await new.take(1)
    await hold.reached()
    early = await new.start("early")
    task = await new.workflow_task(room.worker())
    [row] = [row for row in room.tasks() if row.run_id == early.run_id]
    hold.release()
    await pass_time(4)
    seen: list[str] = []
    while len(seen) < CREDIT:
        seen += await drain(new, room, 1, 50)
    [book] = new.shard().queues._books.values()
    assert row.task_id in book.offered
    await new.complete(task, [FINISH])
    assert row.task_id not in book.offered


@in_room(seeds=(0,))
async def test_a_task_that_comes_back_carries_the_cursor_over_nobody(room: Room) -> None:
    """Invariant 15: a poll that breaks returns a new task while the rest of the old ones is still to be read."""
    old = await room.node(1)
    await backlog(old, CREDIT + 300)
    new = await room.node()
    hold = new.holds.hold("load_tasks")
    await new.take(1)
    await hold.reached()
    await new.start("early")
    early = await new.workflow_task(room.worker())
    hold.release()
    await turns(20)
    undo(new.shard(), early)
    await pass_time(3)
    seen = await drain(new, room, 20)
    await pass_time(6)
    seen += await drain(new, room, 20)
    assert len(seen) == len(set(seen)) == CREDIT + 301


@in_room(seeds=(0,))
async def test_credit_that_ends_in_the_middle_of_a_batch_leaves_nobody_behind(room: Room) -> None:
    """Invariant 15: tasks are published run by run, and their numbers are not in that order."""
    node = await room.node(1)
    worker = room.worker()
    for number in range(2):
        await node.at_activity(f"r{number}", worker)
    acts = (await node.polling(worker, workflow=0, activity=2)).activity_tasks
    acts.sort(key=lambda task: task.workflow_id)
    await backlog(node, CREDIT - 1)
    [book] = [b for b in node.shard().queues._books.values() if len(b.offered) == CREDIT - 1]
    hold = node.holds.hold("commit")
    busy = node.signal("o0")
    await hold.reached()
    # one batch: r0 first seen, then r1 gets its task, then r0 gets a later one
    token = acts[0].token
    node.shard().tell(SaveStart(token.run_id, token.scheduled_event_id, token.start_no))
    batch = [node.complete_activity(acts[1].token), node.complete_activity(token)]
    hold.release()
    await asyncio.gather(busy, *batch)
    assert len(book.offered) <= CREDIT
    await pass_time(6)
    seen = await drain(node, room, 12)
    assert {"r0", "r1"} <= set(seen)


@in_room(seeds=(0,))
async def test_one_queue_with_a_long_backlog_costs_another_nothing(room: Room) -> None:
    """Invariants 19, 40."""
    node = await room.node(1)
    await backlog(node, 1_500)
    await node.start("other", task_queue="quiet")
    answer = await node.polling(room.worker(), queue="quiet")
    assert [task.workflow_id for task in answer.workflow_tasks] == ["other"]


@in_room(seeds=(0,))
async def test_a_page_whose_read_fails_is_read_again(room: Room) -> None:
    """Invariant 13."""
    node = await room.node(1)
    await backlog(node, 1_200)
    for _ in range(3):
        node.faults.fail_next("load_queue_tasks", StoreUnavailable("away"))
    seen = await drain(node, room, 10)
    await pass_time(20)
    seen += await drain(node, room, 5)
    assert len(set(seen)) == 1_200


@in_room()
async def test_invariant_17_an_offer_that_was_lost_comes_again_after_5_s(room: Room) -> None:
    """Invariants 13, 17: matching is a cache, and may be lost at any time."""
    node = await room.node(1)
    await node.start("order")
    await turns()
    node.matcher.withdraw(1)  # as if it had restarted
    await node.nothing(room.worker(), timeout_s=4)
    await node.workflow_task(room.worker(), timeout_s=2)


@in_room()
async def test_an_offer_of_a_task_that_is_over_starts_nothing(room: Room) -> None:
    """Invariants 16, 30: doubled offers, an offer of a closed run, an offer of a task that is out."""
    node = await room.node(1)
    await node.start("order")
    await node.start("gone")
    shard = node.shard()
    [book] = shard.queues._books.values()
    offers = list(book.offered.values())
    await node.terminate("gone")
    worker = room.worker()
    task = await node.workflow_task(worker)
    assert [node.history.start_task(offer, worker) for offer in offers] == [None, None]
    node.matcher.offer(offers)
    await node.nothing(room.worker("w2"))
    await node.complete(task, [FINISH])
    node.matcher.offer(offers)
    await node.nothing(room.worker("w2"), timeout_s=12)


@in_room()
async def test_an_offer_of_a_shard_that_was_given_up_starts_nothing(room: Room) -> None:
    """Invariants 16, 25."""
    node = await room.node(1)
    await node.start("order")
    [book] = node.shard().queues._books.values()
    offers = list(book.offered.values())
    await node.history.release_many([1])
    assert [node.history.start_task(offer, room.worker()) for offer in offers] == [None]
