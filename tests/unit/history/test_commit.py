"""Group commit: fence, guard, answers after the commit, and everything that may become of a statement (design §3)."""

import asyncio

from tests.unit.history.room import (
    NAMESPACE,
    Room,
    codes,
    in_room,
    nothing_said,
    pass_time,
    refused,
    timer,
    turns,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.tasks import TaskKind
from perdure_engine.store.memory import Moment

# ---- answers leave after the commit


@in_room()
async def test_invariant_5_no_answer_of_any_kind_leaves_before_the_commit(room: Room) -> None:
    """Invariants 5, 28, 42: a start, its duplicate, a rejection, a signal, a describe, a result, an event wait."""
    node = await room.node(1)
    request = room.ids.new_id()
    hold = node.holds.hold("commit")
    start = node.start("order", request_id=request)
    await hold.reached()
    calls = [
        node.signal("order"),
        node.describe("order"),
        node.start("order", request_id=request),  # a duplicate hit
        node.start("order"),  # a rejection: it runs already
        node.result("order"),
        node.query("order"),  # nobody polls
    ]
    await turns(20)
    nothing_said(start, *calls)
    again = node.holds.hold("commit")
    hold.release()
    started = await start
    await again.reached()
    await turns(20)
    nothing_said(*calls)
    end = node.terminate("order")
    again.release()
    assert await calls[0] is None
    assert (await calls[1]).info.history_events == 3
    assert (await calls[2]).run_id == started.run_id
    assert await codes(calls[3], calls[5]) == [Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION]
    await end
    assert (await calls[4]).status.name == "TERMINATED"


@in_room()
async def test_no_task_is_offered_or_handed_out_before_its_commit(room: Room) -> None:
    """Invariants 5, 16: a poll that waits gets the task when the statement has landed and not before."""
    node = await room.node(1)
    poll = node.polling(room.worker(), timeout_s=5)
    hold = node.holds.hold("commit")
    node.start("order")
    await hold.reached()
    await turns(20)
    assert node.matcher.describe(NAMESPACE, "orders", TaskKind.WORKFLOW).backlog_count == 0
    nothing_said(poll)
    hold.release()
    assert len((await poll).workflow_tasks) == 1


@in_room()
async def test_a_busy_run_hands_out_nothing(room: Room) -> None:
    """Invariants 5, 16, 25: what is decided and not saved is not shown to a worker either."""
    node = await room.node(1)
    await node.start("order")
    hold = node.holds.hold("commit")
    signal = node.signal("order")
    await hold.reached()
    poll = node.polling(room.worker(), timeout_s=5)
    await turns(20)
    nothing_said(signal, poll)
    hold.release()
    [task] = (await poll).workflow_tasks
    assert [type(event).__name__ for event in task.events][-2:] == [
        "WorkflowExecutionSignaled",
        "WorkflowTaskStarted",
    ], "the worker sees the signal that was being saved"


@in_room()
async def test_invariant_28_a_query_is_routed_after_the_commit_of_what_came_before(
    room: Room,
) -> None:
    """Invariants 28, 45."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(60)], cached=True)
    hold = node.holds.hold("commit")
    signal = node.signal("order")
    query = node.query("order")
    poll = node.polling(worker, timeout_s=5)
    await hold.reached()
    await turns(20)
    nothing_said(signal, query, poll)
    hold.release()
    [task] = (await poll).workflow_tasks
    assert "WorkflowExecutionSignaled" in [type(event).__name__ for event in task.events]
    assert len(task.queries) == 1


@in_room()
async def test_a_callers_cancellation_never_reaches_the_writer(room: Room) -> None:
    """The writer is a task of its own (design §3): the statement lands, and its neighbour is answered."""
    node = await room.node(1)
    hold = node.holds.hold("commit")
    start, neighbour = node.start("order"), node.start("other")
    await hold.reached()
    start.cancel()
    await turns()
    hold.release()
    await neighbour
    assert (await node.describe("order")).info.status.name == "RUNNING"


@in_room()
async def test_a_caller_that_left_while_its_intent_was_parked_harms_nobody(room: Room) -> None:
    node = await room.node(1)
    hold = node.holds.hold("load_current_runs")
    start = node.start("order")
    await hold.reached()
    start.cancel()
    hold.release()
    await pass_time(1)
    assert (await node.describe("order")).info.status.name == "RUNNING"
    assert not node.alarms


@in_room(group_intents_max=64)
async def test_groups_grow_by_themselves_while_a_statement_is_in_flight(room: Room) -> None:
    node = await room.node(1)
    hold = node.holds.hold("commit")
    first = node.start("first")
    await hold.reached()
    others = [node.start(f"o{n}") for n in range(50)]
    await turns(20)
    before = node.writer.statements
    hold.release()
    await asyncio.gather(first, *others)
    assert node.writer.statements - before == 1


# ---- the fence


@in_room()
async def test_invariant_25_a_node_whose_fence_was_taken_writes_nothing(room: Room) -> None:
    """Invariants 25, 27, 29: every answer is UNAVAILABLE, its memory goes, another shard's part goes on."""
    old = await room.node(1, 2)
    await asyncio.gather(old.start("order", 1), old.start("order", 2))
    waiting = old.result("order", 1)
    new = await room.node()
    hold = old.holds.hold("commit")
    lost = [old.signal("order", "x", 1), old.describe("order", 1), old.start("a", 1)]
    kept = [old.signal("order", "x", 2), old.start("b", 2)]
    await hold.reached()
    assert hold.waiting == 1, "one statement for both shards"
    before = room.fence_of(1).range_id
    assert await new.take(1) == {1}
    assert room.fence_of(1).range_id == before + 1
    rows = len(room.tables.executions.in_order(1))
    hold.release()
    assert set(await codes(*lost, waiting)) == {Code.UNAVAILABLE}
    await asyncio.gather(*kept)
    assert len(room.tables.executions.in_order(1)) == rows
    assert old.history.owned() == {2}
    assert not old.shard(1).runs
    assert not old.shard(1).currents
    assert await codes(old.describe("order", 1)) == [Code.UNAVAILABLE]
    assert (await new.describe("order", 1)).info.history_events == 2
    assert not old.alarms


@in_room()
async def test_invariant_25_a_fence_that_only_moved_on_is_lost_too(room: Room) -> None:
    """Same owner and range, another sequence: somebody with our name has written (a copy of the process)."""
    node = await room.node(1)
    await node.start("order")
    state = room.tables.fences[1]
    room.tables.fences[1] = type(state)(1, state.range_id, state.commit_seq + 1, node.node_id, b"?")
    assert await codes(node.signal("order")) == [Code.UNAVAILABLE]
    assert node.history.owned() == frozenset()
    assert not node.alarms


@in_room()
async def test_a_lost_shard_answers_what_waits_parked_and_what_waits_for_a_result(
    room: Room,
) -> None:
    """Invariant 25: nobody is left waiting at a node that no longer has the shard."""
    node = await room.node(1)
    await node.start("order")
    waits = [node.result("order"), node.query("order")]
    poll = node.polling(room.worker(), timeout_s=0.1)
    await turns(20)
    hold = node.holds.hold("load_run")
    parked = node.describe("order", run_id=room.ids.new_id())
    await hold.reached()
    await (await room.node()).take(1)
    lost = node.signal("order")
    assert await codes(lost, parked, waits[0]) == [Code.UNAVAILABLE] * 3
    assert (await refused(waits[1])).code in (Code.UNAVAILABLE, Code.FAILED_PRECONDITION)
    hold.release()
    await poll


# ---- the guard


@in_room()
async def test_the_guard_when_memory_and_database_differ(room: Room) -> None:
    """Invariants 4, 5: an alarm, the runs are reloaded, and the callers get the right answer all the same."""
    node = await room.node(1)
    await asyncio.gather(node.start("a"), node.start("b"))
    for run in node.shard().runs.values():
        run.state.version += 7
    answers = await asyncio.gather(node.signal("a"), node.signal("b"), return_exceptions=True)
    assert list(answers) == [None, None]
    assert "memory_and_database_differ" in node.alarms
    assert (await node.describe("a")).info.history_events == 3


@in_room()
async def test_the_guard_with_an_intent_alone_in_its_batch(room: Room) -> None:
    """The same: it is memory that was wrong, not the intent."""
    node = await room.node(1)
    started = await node.start("a")
    node.shard().runs[started.run_id].state.version += 7
    await node.signal("a")
    assert "memory_and_database_differ" in node.alarms
    assert not node.shard().quarantined
    assert (await node.describe("a")).info.history_events == 3


# ---- the node's lease


@in_room()
async def test_invariant_28_without_a_valid_lease_reads_are_answered_behind_a_fence_step(
    room: Room,
) -> None:
    """Invariants 26, 28: memory alone answers nobody; the step that proves it writes nothing else."""
    node = await room.node(1)
    await node.start("order")
    before, rows = room.fence_of().commit_seq, room.rows()
    await node.describe("order")
    assert room.fence_of().commit_seq == before, "with a valid lease a read costs no statement"
    node.lease = False
    hold = node.holds.hold("commit")
    reads = [node.describe("order"), node.describe("none")]
    await hold.reached()
    await turns(20)
    nothing_said(reads[0])
    hold.release()
    await reads[0]
    await refused(reads[1])
    assert room.fence_of().commit_seq > before
    assert room.rows() == rows


@in_room()
async def test_invariant_28_a_paused_owner_that_wakes_answers_nothing_from_old_memory(
    room: Room,
) -> None:
    """Invariants 25, 28, 29."""
    old = await room.node(1)
    await old.start("order")
    await refused(old.describe("none"))  # it is known that there is no such run
    new = await room.node(1)
    await asyncio.gather(new.signal("order"), new.start("none"))
    old.lease = False
    assert await codes(old.describe("order"), old.describe("none")) == [Code.UNAVAILABLE] * 2


@in_room()
async def test_without_a_valid_lease_nothing_is_handed_out_before_the_fence_is_proved(
    room: Room,
) -> None:
    """Invariants 16, 25."""
    old = await room.node(1)
    await old.start("order")
    await room.node(1)
    old.lease = False
    await old.nothing(room.worker(), timeout_s=2)


@in_room()
async def test_lapsed_bumps_the_fence_before_anything_is_answered(room: Room) -> None:
    """Invariants 25, 27, 28: the lease is valid again, yet others may have been here."""
    node = await room.node(1, 2)
    await node.start("order", 1)
    before = [room.fence_of(1).range_id, room.fence_of(2).range_id]
    hold = node.holds.hold("bump_fences")
    node.history.lapsed()
    reads = [node.describe("order", 1), node.describe("none", 2)]
    poll = node.polling(room.worker(), timeout_s=5)
    await hold.reached()
    await turns(20)
    nothing_said(*reads, poll)
    hold.release()
    await reads[0]
    assert (await refused(reads[1])).code is Code.NOT_FOUND
    assert len((await poll).workflow_tasks) == 1
    assert [room.fence_of(1).range_id, room.fence_of(2).range_id] == [n + 1 for n in before]


@in_room()
async def test_lapsed_and_robbed_meanwhile(room: Room) -> None:
    """Invariants 25, 28, 29: the taken shard answers UNAVAILABLE, the other goes on."""
    old = await room.node(1, 2)
    await asyncio.gather(old.start("order", 1), old.start("order", 2))
    await room.node(1)
    old.history.lapsed()
    lost, kept = old.describe("order", 1), old.describe("order", 2)
    assert await codes(lost) == [Code.UNAVAILABLE]
    await kept
    assert old.history.owned() == {2}


@in_room()
async def test_a_bump_from_before_the_lapse_proves_nothing(room: Room) -> None:
    """Invariants 25, 28: the bump had landed, the node stopped, another took the shard, and only then the answer
    is read."""
    old = await room.node(1)
    await old.start("order")
    hold = old.holds.hold("bump_fences", Moment.AFTER)
    old.history.lapsed()
    await hold.reached()
    new = await room.node(1)
    await new.signal("order")
    old.history.lapsed()  # the renewal that found out is answered first
    read = old.describe("order")
    await turns(20)
    hold.release()
    assert await codes(read) == [Code.UNAVAILABLE]


@in_room()
async def test_a_lapse_while_a_neighbours_fence_is_bumped_concerns_the_whole_step(
    room: Room,
) -> None:
    """Invariants 25, 28: the step was gathered before the lapse and is answered after it."""
    old = await room.node(1, 2)
    await asyncio.gather(old.start("order", 1), old.start("order", 2))
    old.shard(2).unproven = True
    hold = old.holds.hold("bump_fences")
    reads = [old.describe("order", 2), old.describe("order", 1)]
    await hold.reached()
    new = await room.node(1)
    await new.signal("order", shard_id=1)
    old.history.lapsed()
    hold.release()
    assert await codes(reads[1]) == [Code.UNAVAILABLE]
    await reads[0]
