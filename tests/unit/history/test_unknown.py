"""A statement whose outcome nobody knows: the conditional bump finds out (design §3)."""

import asyncio

import pytest
from tests.unit.history.room import (
    FINISH,
    Room,
    codes,
    in_room,
    within,
)

from perdure_engine.core.errors import Code
from perdure_engine.ports.store import (
    Batch,
    OutcomeUnknown,
)
from perdure_engine.store.memory import Moment

# ---- outcome unknown: the conditional bump


@in_room()
async def test_invariant_10_an_unknown_commit_that_landed_is_answered_as_saved(room: Room) -> None:
    """Invariants 5, 10, 25, 27."""
    node = await room.node(1, 2)
    before = room.fence_of(1).range_id
    node.faults.fail_next("commit", OutcomeUnknown("reply lost"), Moment.AFTER)
    one, two = await asyncio.gather(node.start("a", 1), node.start("b", 2))
    assert await room.names(one.run_id) == ["WorkflowExecutionStarted", "WorkflowTaskScheduled"]
    assert await room.names(two.run_id, 2) == await room.names(one.run_id)
    assert room.fence_of(1).range_id == before + 1
    task = await node.workflow_task(room.worker())
    node.faults.fail_next("commit", OutcomeUnknown("reply lost"), Moment.AFTER)
    await node.complete(task, [FINISH])  # decided a second time it would be NOT_FOUND


@in_room()
async def test_invariant_10_an_unknown_commit_that_did_not_land_is_decided_again(
    room: Room,
) -> None:
    """Invariants 1, 5, 10: on reloaded state, and the caller learns nothing of it."""
    node = await room.node(1)
    started = await node.start("order")
    node.faults.fail_next("commit", OutcomeUnknown("connection lost"), Moment.BEFORE)
    await node.signal("order")
    assert (await room.names(started.run_id)).count("WorkflowExecutionSignaled") == 1
    assert (await node.describe("order")).info.history_events == 3


@in_room()
async def test_an_unknown_commit_whose_shard_was_taken_is_not_ours_to_know(room: Room) -> None:
    """Invariants 25, 29: UNAVAILABLE whether it landed or not; the same request id finds out."""
    for moment in (Moment.BEFORE, Moment.AFTER):
        old, new = await room.node(1), await room.node()
        workflow_id, request = f"order-{moment.name}", room.ids.new_id()
        old.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        hold = old.holds.hold("bump_fences")
        start = old.start(workflow_id, request_id=request)
        await hold.reached()
        await new.take(1)
        hold.release()
        assert await codes(start) == [Code.UNAVAILABLE]
        again = await new.start(workflow_id, request_id=request)
        assert (await room.names(again.run_id)).count("WorkflowExecutionStarted") == 1


@in_room()
async def test_a_bump_that_is_unknown_itself_is_repeated_until_the_row_tells(room: Room) -> None:
    """Invariants 5, 10, 27: landed or not, reads failing in between, again and again."""
    node = await room.node(1)
    plans = [
        [("bump_fences", Moment.BEFORE)] * 3,
        [("bump_fences", Moment.AFTER)],
        [("bump_fences", Moment.AFTER), ("read_fences", Moment.BEFORE)],
        [("bump_fences", Moment.BEFORE), ("bump_fences", Moment.AFTER)]
        + [("read_fences", Moment.BEFORE)] * 3,
    ]
    for number, plan in enumerate(plans):
        for landed in (Moment.BEFORE, Moment.AFTER):
            node.faults.fail_next("commit", OutcomeUnknown("lost"), landed)
            for operation, moment in plan:
                node.faults.fail_next(operation, OutcomeUnknown("lost"), moment)
            before = room.fence_of().range_id
            started = await within(node.start(f"order-{number}-{landed.name}"), 30)
            assert room.fence_of().range_id == before + 1, "bumped once, however often it was sent"
            names = await room.names(started.run_id)
            assert names == ["WorkflowExecutionStarted", "WorkflowTaskScheduled"]
    assert not node.alarms


@in_room()
async def test_a_statement_that_is_still_running_cannot_land_after_the_bump(room: Room) -> None:
    """Invariant 25: the bump moves the range on, so the late statement meets another fence."""
    node = await room.node(1)
    sent: list[Batch] = []
    commit = node.store.commit

    async def lose_once(batch: Batch) -> int:
        if not sent:
            sent.append(batch)
            batch.fences = [
                type(f)(f.shard_id, f.range_id, f.commit_seq, f.owner_id) for f in batch.fences
            ]
            raise OutcomeUnknown("timed out; it is still on its way")
        return await commit(batch)

    node.store.commit = lose_once  # type: ignore[method-assign]  # the wire between the two
    started = await node.start("order")
    with pytest.raises(Exception, match="fence lost"):
        await room.store.commit(sent[0])
    assert await room.names(started.run_id) == ["WorkflowExecutionStarted", "WorkflowTaskScheduled"]
