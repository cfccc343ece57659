"""What does not wait for a shard's turn at the database, and what must."""

import asyncio
from unittest.mock import patch

from tests.unit.history.room import (
    FINISH,
    Room,
    codes,
    held_activity,
    in_room,
    nothing_said,
    pass_time,
    turns,
)

from perdure_engine.core.errors import Code
from perdure_engine.history.shard import Shard
from perdure_engine.history.work import ShardStep
from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.ports.store import GuardFailed
from perdure_engine.store.memory import Moment


@in_room()
async def test_what_has_nothing_to_write_does_not_wait_for_the_statement_of_others(
    room: Room,
) -> None:
    """Invariants 5, 28: gathered together, but memory is the truth for it while the lease is valid."""
    node = await room.node(1, 2)
    await node.start("order", shard_id=1)
    await node.start("other", shard_id=2)
    hold = node.holds.hold("commit")
    signal = node.signal("order", shard_id=1)
    described = node.describe("other", shard_id=2)
    await hold.reached()
    await turns(20)
    assert (await described).info.history_events == 2
    nothing_said(signal)
    hold.release()
    assert await signal is None


@in_room()
async def test_invariant_28_without_a_lease_it_waits_for_a_fence_step(room: Room) -> None:
    """Invariant 28: a paused owner must not answer from old memory."""
    node = await room.node(1, 2)
    await node.start("order", shard_id=1)
    await node.start("other", shard_id=2)
    node.lease = False
    hold = node.holds.hold("commit")
    signal = node.signal("order", shard_id=1)
    described = node.describe("other", shard_id=2)
    await hold.reached()
    await turns(20)
    nothing_said(signal, described)
    sequence = room.fence_of(2).commit_seq
    hold.release()
    assert (await described).info.history_events == 2
    assert room.fence_of(2).commit_seq == sequence + 1


@in_room()
async def test_a_wait_for_an_open_run_takes_no_turn(room: Room) -> None:
    node = await room.node(1)
    order = await node.start("order")
    hold = node.holds.hold("commit")
    node.start("other")
    await hold.reached()
    waiting = node.result("order", run_id=order.run_id)
    assert len(node.shard().inbox) == 0
    nothing_said(waiting)
    hold.release()
    task = await node.workflow_task(room.worker())
    await node.complete(task, [FINISH])
    assert (await waiting).status.name == "COMPLETED"
    assert (await node.result("order", run_id=order.run_id)).status.name == "COMPLETED"


@in_room()
async def test_a_wait_outlasts_a_statement_that_comes_to_nothing(room: Room) -> None:
    """Invariant 5: the run was to close, and did not."""
    node = await room.node(1)
    order = await node.start("order")
    waiting = node.result("order", run_id=order.run_id)
    node.faults.fail_next("commit", GuardFailed("?"), Moment.BEFORE)
    hold = node.holds.hold("commit")
    signal = node.signal("order")
    await hold.reached()
    meanwhile = node.result("order", run_id=order.run_id)
    hold.release()
    assert await signal is None
    nothing_said(waiting, meanwhile)
    await node.terminate("order")
    assert (await waiting).status.name == "TERMINATED"
    assert (await meanwhile).status.name == "TERMINATED"


@in_room()
async def test_invariant_5_a_wait_for_a_run_that_is_being_saved_takes_its_turn(room: Room) -> None:
    """Invariants 5, 28: nobody hears of a close that is not saved."""
    node = await room.node(1)
    order = await node.start("order")
    hold = node.holds.hold("commit")
    node.terminate("order")
    await hold.reached()
    waiting = node.result("order", run_id=order.run_id)
    assert len(node.shard().inbox) == 1
    await turns(20)
    nothing_said(waiting)
    hold.release()
    assert (await waiting).status.name == "TERMINATED"


@in_room()
async def test_a_wait_for_another_workflows_run_is_refused_in_its_turn(room: Room) -> None:
    node = await room.node(1)
    order = await node.start("order")
    assert await codes(node.result("else", run_id=order.run_id)) == [Code.NOT_FOUND]


@in_room()
async def test_whoever_waits_without_a_turn_hears_of_a_move(room: Room) -> None:
    """Invariant 70."""
    node = await room.node(1)
    order = await node.start("order")
    waiting = node.result("order", run_id=order.run_id)
    await node.history.release_many([1])
    assert await codes(waiting) == [Code.UNAVAILABLE]


@in_room()
async def test_a_publication_that_fails_costs_its_own_shard_only(room: Room) -> None:
    """Invariants 5, 15: what was saved and answered is not lost; its shard is taken anew and offers it."""
    node = await room.node(1, 2)

    publish = Shard.publish

    def broken(shard: Shard, step: ShardStep) -> None:
        if shard.shard_id == 1:
            raise RuntimeError("a bug")
        publish(shard, step)

    with patch.object(Shard, "publish", broken):
        starts = [node.start("order", shard_id=1), node.start("other", shard_id=2)]
        await asyncio.gather(*starts)
    assert (await node.workflow_task(room.worker())).workflow_id == "other"
    assert "publication_failed" in node.alarms
    assert node.history.owned() == {2}
    await node.take(1)
    assert (await node.workflow_task(room.worker(), timeout_s=8)).workflow_id == "order"


@in_room()
async def test_a_shard_that_is_not_proven_judges_no_heartbeat(room: Room) -> None:
    """Invariant 28: an owner that wakes up knows nothing for certain. Once this broke the whole heartbeat."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    node.history.lapsed()
    assert node.beat(worker, task.token) == [None]
    await node.complete_activity(task.token)


@in_room()
async def test_sweeps_take_turns_with_commits(room: Room) -> None:
    """All shards whose sweep is due in a row would keep every commit of the node waiting."""
    node = await room.node(1, 2, 3)
    for shard_id in (1, 2, 3):
        await node.start(f"order-{shard_id}", shard_id=shard_id)
        await node.terminate(f"order-{shard_id}", shard_id=shard_id)
    await node.start("live", shard_id=3)
    hold = node.holds.hold("sweep")
    for shard_id in (1, 2, 3):
        node.shard(shard_id).sweeping._tick()
    await hold.reached()
    del node.holds.calls[:]
    signal = node.signal("live", shard_id=3)
    hold.release()
    await signal
    assert node.holds.calls[0] == "commit"
    await pass_time(1)
    assert not [row for row in room.tables.tasks.all() if row.state == ROW_GONE]
