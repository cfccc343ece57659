"""Taking and giving up shards: nothing lost, nothing run twice, ownership never stranded."""

import asyncio

from tests.unit.history.room import (
    Room,
    codes,
    ev,
    in_room,
    nothing_said,
    outcomes,
    pass_time,
    schedule,
    turns,
    within,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.tasks import TaskKind, TaskState
from perdure_engine.ports.store import (
    NO_NODE,
    Conflict,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from perdure_engine.store.memory import Moment

# ---- release


@in_room()
async def test_invariant_70_a_release_saves_starts_and_the_next_owner_goes_on_at_once(
    room: Room,
) -> None:
    """Invariants 31, 35, 70: no wait of 3 s, nothing handed out twice."""
    old = await room.node(1)
    worker = room.worker()
    run_id = await old.at_activity("order", worker)
    task = await old.activity_task(worker)
    await old.start("waiting")
    await old.history.release_many([1])
    assert room.fence_of().owner_id == NO_NODE
    assert room.tables.shards[1].node_id == NO_NODE
    [row] = room.tasks(TaskKind.ACTIVITY)
    assert (row.state, row.start_no) == (TaskState.STARTED, task.token.start_no)
    new = await room.node(1)
    waiting = await new.workflow_task(room.worker("w2"), timeout_s=0.2)
    assert waiting.workflow_id == "waiting"
    assert new.beat(worker, task.token) == [None]
    for _ in range(8):
        await pass_time(2)
        new.beat(worker, task.token)
    await new.complete_activity(task.token)
    assert outcomes(await room.history(run_id), ev.ActivityTaskStarted) == 1


@in_room()
async def test_invariant_70_what_was_taken_in_is_decided_before_the_release(room: Room) -> None:
    """Invariants 42, 70: afterwards every call is told that the shard has moved."""
    node = await room.node(1)
    await node.start("order")
    hold = node.holds.hold("commit")
    signals = [node.signal("order", f"s{n}") for n in range(30)]
    await hold.reached()
    release = asyncio.ensure_future(node.history.release_many([1]))
    await turns(20)
    nothing_said(*signals, release)
    hold.release()
    await asyncio.gather(release, *signals)
    assert await codes(node.signal("order")) == [Code.UNAVAILABLE]
    assert node.history.owned() == frozenset()
    new = await room.node(1)
    assert (await new.describe("order")).info.history_events == 32


@in_room()
async def test_nothing_is_handed_out_behind_the_back_of_a_release(room: Room) -> None:
    """Invariants 31, 35, 70: while the starts are being saved another poll comes; the next owner waits for nobody."""
    old = await room.node(1)
    worker, late = room.worker(), room.worker("w2")
    await old.at("order", worker, [schedule("first")])
    await old.activity_task(worker)
    await old.at("other", worker, [schedule("second")])
    hold = old.holds.hold("commit")
    release = asyncio.ensure_future(old.history.release_many([1]))
    await hold.reached()
    poll = old.polling(late, workflow=0, timeout_s=0.1)
    await pass_time(0.2)
    hold.release()
    await release
    taken = (await poll).activity_tasks
    new = await room.node(1)
    again = (await new.polling(room.worker("w3"), workflow=0, timeout_s=1)).activity_tasks
    assert len(taken) + len(again) == 1, (
        "one attempt, at the old owner's worker or at the new one's"
    )


@in_room()
async def test_a_hand_out_that_waited_for_a_commit_is_not_made_during_a_release(
    room: Room,
) -> None:
    """Invariants 31, 35, 70: the poll came first, then the release, then the commit landed."""
    old = await room.node(1)
    await old.at_activity("order", room.worker())
    hold = old.holds.hold("commit")
    signal = old.signal("order")
    await hold.reached()
    poll = old.polling(room.worker("w2"), workflow=0, timeout_s=0.5)
    await turns(20)
    release = asyncio.ensure_future(old.history.release_many([1]))
    await turns(20)
    hold.release()
    await asyncio.gather(signal, release)
    taken = (await poll).activity_tasks
    new = await room.node(1)
    again = (await new.polling(room.worker("w3"), workflow=0, timeout_s=1)).activity_tasks
    assert len(taken) + len(again) == 1


@in_room()
async def test_who_waits_is_told_at_a_release(room: Room) -> None:
    """Invariant 70."""
    node = await room.node(1)
    await node.start("order")
    waits = node.result("order")
    await turns(20)
    await node.history.release_many([1])
    assert await codes(waits) == [Code.UNAVAILABLE]


@in_room()
async def test_a_release_whose_answers_are_lost_ends_all_the_same(room: Room) -> None:
    """Invariants 27, 29: bump landed or not, reads failing."""
    for moment in (Moment.BEFORE, Moment.AFTER):
        node = await room.node(1)
        node.faults.fail_next("bump_fences", OutcomeUnknown("lost"), moment)
        node.faults.fail_next("read_fences", StoreUnavailable("away"))
        node.faults.fail_next("put_shard", StoreUnavailable("away"))
        await within(node.history.release_many([1]), 10)
        assert room.fence_of().owner_id == NO_NODE
        assert await codes(node.describe("x")) == [Code.UNAVAILABLE]


@in_room()
async def test_a_release_of_a_shard_that_was_taken_meanwhile_leaves_it_to_its_owner(
    room: Room,
) -> None:
    """Invariants 25, 29."""
    old = await room.node(1)
    await old.start("order")
    new = await room.node(1)
    await within(old.history.release_many([1]), 10)
    assert room.fence_of().owner_id == new.node_id
    await new.signal("order")


# ---- acquisition


@in_room()
async def test_ownership_is_never_stranded_by_a_bump_whose_answer_is_lost(room: Room) -> None:
    """Invariants 27, 29: a fence that is ours and not served would be nobody's."""
    for plan in (
        [("bump_fences", Moment.AFTER)],
        [("bump_fences", Moment.AFTER), ("read_fences", Moment.BEFORE)],
        [("bump_fences", Moment.BEFORE), ("bump_fences", Moment.AFTER)]
        + [("read_fences", Moment.BEFORE)] * 4,
    ):
        node = await room.node()
        found = await node.store.read_fences([1, 2])
        for operation, moment in plan:
            node.faults.fail_next(operation, OutcomeUnknown("lost"), moment)
        won = await within(node.history.acquire_many(found), 30)
        assert won == {1, 2} == node.history.owned()
        assert room.fence_of(1).owner_id == node.node_id
        started = await node.start(f"order-{node.name}")
        assert (await node.describe(f"order-{node.name}")).info.run_id == started.run_id


@in_room()
async def test_a_first_step_that_fails_is_made_up_for_by_the_writer(room: Room) -> None:
    """Invariants 25, 28: nothing is answered before the fence was proved."""
    for error in (OutcomeUnknown("?"), StoreUnavailable("?"), Conflict("?")):
        for moment in (Moment.BEFORE, Moment.AFTER):
            node = await room.node()
            node.faults.fail_next("commit", error, moment)
            await node.take(1)
            before = room.fence_of().range_id
            workflow_id = f"order-{node.name}"
            started = await within(node.start(workflow_id), 10)
            assert room.fence_of().range_id == before + 1
            assert await room.names(started.run_id) == [
                "WorkflowExecutionStarted",
                "WorkflowTaskScheduled",
            ]


@in_room()
async def test_a_take_over_that_could_not_read_the_marks_is_repeated(room: Room) -> None:
    """Invariant 29: the fences were ours already; the controller's next step finds them so."""
    node = await room.node()
    node.faults.fail_next("list_shards", StoreUnavailable("away"))
    try:
        await node.take(1)
    except StoreError:
        await node.take(1)
    assert node.history.owned() == {1}
    await node.start("order")


@in_room()
async def test_invariant_27_of_two_takers_one_wins(room: Room) -> None:
    """Invariants 27, 29: both read the same fence."""
    one, two = await room.node(), await room.node()
    found = await room.store.read_fences([1])
    hold = one.holds.hold("bump_fences")
    first = asyncio.ensure_future(one.history.acquire_many(found))
    await hold.reached()
    assert await two.history.acquire_many(found) == {1}
    hold.release()
    assert await first == frozenset()
    assert one.history.owned() == frozenset()
    await two.start("order")


@in_room()
async def test_a_scan_that_fails_is_tried_again(room: Room) -> None:
    """Invariant 13."""
    old = await room.node(1)
    await old.start("order")
    new = await room.node()
    for _ in range(3):
        new.faults.fail_next("load_tasks", StoreUnavailable("away"))
    await new.take(1)
    await new.workflow_task(room.worker(), timeout_s=8)
