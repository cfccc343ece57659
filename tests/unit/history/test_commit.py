"""Group commit: fence, guard, answers after the commit, and everything that may become of a statement (design §3)."""

import asyncio
import itertools

import pytest
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    Room,
    codes,
    in_room,
    nothing_said,
    pass_time,
    refused,
    schedule,
    timer,
    turns,
    within,
)

from perdure_engine.core import intents
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history import shard as shard_module
from perdure_engine.history import writer as writer_module
from perdure_engine.ports.store import (
    Batch,
    BatchRefused,
    Conflict,
    GuardFailed,
    OutcomeUnknown,
    StoreUnavailable,
)
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


# ---- definite errors


@in_room()
async def test_a_commit_that_fails_tells_its_callers_nothing_but_unavailable(room: Room) -> None:
    """Issue 2. The database is away for longer than 5 s; the second try with the same request id works."""
    node = await room.node(1)
    await node.start("old")
    request = room.ids.new_id()
    for _ in range(200):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    began = room.loop.time()
    calls = [node.signal("old"), node.describe("old"), node.start("old")]
    assert await codes(*calls) == [Code.UNAVAILABLE] * 3
    assert 5 <= room.loop.time() - began < 10
    assert await codes(node.start("order", request_id=request)) == [Code.UNAVAILABLE]
    node.faults._planned.clear()
    await node.start("order", request_id=request)
    assert (await node.describe("old")).info.history_events == 2, "the signal was not saved"


@in_room()
async def test_invariant_13_a_database_away_keeps_the_shards_own_intents(room: Room) -> None:
    """Invariants 13, 22: a timer that was due meanwhile fires, once."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(1)])
    hold = node.holds.hold("commit")
    await hold.reached()  # the firing is on its way
    for _ in range(20):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    hold.release()
    await pass_time(60)
    names = await room.names(run_id)
    assert names.count("TimerFired") == 1
    assert names[-1] == "WorkflowTaskScheduled"


@in_room()
async def test_a_short_absence_of_the_database_is_waited_for(room: Room) -> None:
    node = await room.node(1)
    for _ in range(4):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    await node.start("order")


@in_room()
async def test_a_conflict_is_tried_again_ten_times_with_jitter_then_in_halves(room: Room) -> None:
    """Invariants 5, 10: the callers learn nothing of it."""
    node = await room.node(1)
    await node.start("warm")
    sizes: list[int] = []
    at: list[float] = []
    commit = node.store.commit

    async def conflict(batch: Batch) -> int:
        sizes.append(len(batch.executions))
        at.append(room.loop.time())
        if len(batch.executions) > 4:
            raise Conflict("40001")
        return await commit(batch)

    node.store.commit = conflict  # type: ignore[method-assign]  # a database that likes small statements
    hold = node.holds.hold("load_current_runs")
    starts = [node.start(f"o{n}") for n in range(16)]
    await hold.reached()
    hold.release()
    await asyncio.gather(*starts)
    assert sizes[:20] == [16] * 10 + [8] * 10
    assert sizes[20] == 4
    pauses = [after - before for before, after in itertools.pairwise(at[:10])]
    assert len(set(pauses)) == len(pauses), "jitter"
    assert not node.shard().quarantined
    assert not node.alarms


@in_room()
async def test_conflicts_without_end_are_not_the_fault_of_the_intent(room: Room) -> None:
    """40001 says nothing about what was written: UNAVAILABLE or a later try, never INTERNAL, never quarantine."""
    node = await room.node(1)
    started = await node.start("order")
    for _ in range(4):
        for _ in range(writer_module.CONFLICT_TRIES_MAX):
            node.faults.fail_next("commit", Conflict("40001"))
        answer = await asyncio.gather(node.signal("order"), return_exceptions=True)
        assert [a.code for a in answer if isinstance(a, Rejected)] in ([], [Code.UNAVAILABLE])
    node.faults._planned.clear()
    assert started.run_id not in node.shard().quarantined
    await node.signal("order")


class Poison:
    """A database that refuses each statement with a marked row in it."""

    def __init__(self, node_store: object, marked: set[str]) -> None:
        self.marked = marked
        self.refusals = 0
        self._commit = node_store.commit  # type: ignore[attr-defined]
        node_store.commit = self.commit  # type: ignore[attr-defined]

    async def commit(self, batch: Batch) -> int:
        if any(row.workflow_id in self.marked for row in batch.executions):
            self.refusals += 1
            raise BatchRefused("22021", "invalid byte sequence")
        result: int = await self._commit(batch)
        return result


@in_room()
async def test_one_marked_intent_and_its_63_neighbours(room: Room) -> None:
    """Issue 2: the neighbours commit within 1 s; the culprit alone gets INTERNAL; no run is stopped by it."""
    node = await room.node(1, 2)
    hold = node.holds.hold("commit")
    first = node.start("first", 1), node.start("first", 2)
    await hold.reached()
    calls = {f"o{n}": node.start(f"o{n}", 1 + n % 2) for n in range(64)}
    await turns(20)
    Poison(node.store, {"o40"})
    began = room.loop.time()
    hold.release()
    culprit = calls.pop("o40")
    await asyncio.gather(*first, *calls.values())
    assert room.loop.time() - began < 1.0
    refusal = await refused(culprit)
    assert refusal.code is Code.INTERNAL
    assert "intent_failed" in node.alarms
    assert len(room.tables.executions.all()) == 65
    for _ in range(8):
        await asyncio.gather(node.signal("first", "s", 1), node.signal("first", "s", 2))
    whole = room.config.group_intents_max
    assert [node.shard(n).group_max for n in (1, 2)] == [whole, whole], "the groups grow back"


@in_room()
async def test_a_run_whose_writes_are_refused_three_times_is_quarantined_and_the_others_go_on(
    room: Room,
) -> None:
    node = await room.node(1)
    await asyncio.gather(node.start("bad"), node.start("good"))
    poison = Poison(node.store, {"bad"})
    for _ in range(shard_module.TRIES_MAX):
        calls = [node.signal("good"), node.signal("bad"), node.signal("good")]
        assert await codes(calls[1]) == [Code.INTERNAL]
        await asyncio.gather(calls[0], calls[2])
    assert node.alarms.count("run_quarantined") == 1
    refusals = poison.refusals
    assert await codes(node.signal("bad"), node.describe("bad")) == [Code.DATA_LOSS] * 2
    await node.signal("good")
    assert poison.refusals == refusals, "a quarantined run is not written again"


@in_room()
async def test_the_shards_own_intent_is_tried_three_times_before_its_run_is_quarantined(
    room: Room,
) -> None:
    """A refused timer is not forgotten after one try: nobody would repeat it."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(1)])
    refuse = 2
    commit = node.store.commit

    async def refuse_twice(batch: Batch) -> int:
        nonlocal refuse
        if batch.timers and refuse:
            refuse -= 1
            raise BatchRefused("54000", "too big today")
        return await commit(batch)

    node.store.commit = refuse_twice  # type: ignore[method-assign]
    await pass_time(10)
    assert (await room.names(run_id)).count("TimerFired") == 1
    assert not node.shard().quarantined


@in_room()
async def test_definite_errors_never_acknowledge(room: Room) -> None:
    """Invariants 5, 42: after each of them what was acknowledged is there, and nothing else."""
    for number, error in enumerate(
        [Conflict("40001"), GuardFailed("22012"), BatchRefused("22021", "?"), StoreUnavailable("?")]
    ):
        node = await room.node(1)
        started = await node.start(f"order-{number}")
        node.faults.fail_next("commit", error)
        signal = node.signal(f"order-{number}")
        try:
            await signal
            acknowledged = 1
        except Rejected:
            acknowledged = 0
        names = await room.names(started.run_id)
        assert names.count("WorkflowExecutionSignaled") == acknowledged, error


@in_room()
async def test_a_decision_that_raises_costs_its_own_caller_only(
    room: Room,
) -> None:
    """Invariant 66: a bug in a decision; the batch's others are decided again on reloaded state."""
    node = await room.node(1)
    await asyncio.gather(node.start("bad"), node.start("good"))
    shard, real = node.shard(), node.shard()._reply

    def reply(step, item, run, env):  # type: ignore[no-untyped-def]
        if getattr(item.intent, "signal_name", "") == "bug":
            raise ZeroDivisionError
        return real(step, item, run, env)

    shard._reply = reply  # type: ignore[method-assign]
    calls = [node.signal("good", "1"), node.signal("bad", "bug"), node.signal("good", "2")]
    assert await codes(calls[1]) == [Code.INTERNAL]
    await asyncio.gather(calls[0], calls[2])
    assert (await node.describe("good")).info.history_events == 4
    assert (await node.describe("bad")).info.history_events == 2


@in_room()
async def test_invariant_13_a_decision_that_raised_once_does_not_lose_a_timer(room: Room) -> None:
    """The shard's own intent has no caller who would repeat it."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(1)])
    shard, real = node.shard(), node.shard()._reply
    raised = 0

    def reply(step, item, run, env):  # type: ignore[no-untyped-def]
        nonlocal raised
        if isinstance(item.intent, intents.FireTimer) and not raised:
            raised += 1
            raise ZeroDivisionError
        return real(step, item, run, env)

    shard._reply = reply  # type: ignore[method-assign]
    await pass_time(200)
    assert raised == 1
    assert (await room.names(run_id)).count("TimerFired") == 1


@in_room()
async def test_invariant_66_a_run_id_that_exists_is_refused_as_the_callers_fault(
    room: Room,
) -> None:
    """Invariants 9, 66: a start that names another workflow's run id."""
    node = await room.node(1)
    first = await node.start("one")
    await node.signal("one")
    refusal = await refused(node.start("two", run_id=first.run_id))
    assert refusal.code in (Code.ALREADY_EXISTS, Code.INVALID_ARGUMENT), refusal
    assert (await node.describe("one")).info.history_events == 3
    assert not node.alarms


@in_room()
async def test_invariant_41_what_is_acknowledged_stays_in_order_over_lost_commits(
    room: Room,
) -> None:
    """Invariants 1, 41, 42: ten signals of one sender, a fault of each kind between them."""
    node = await room.node(1)
    started = await node.start("order")
    faults = [
        (OutcomeUnknown("?"), Moment.BEFORE),
        (Conflict("?"), Moment.BEFORE),
        (OutcomeUnknown("?"), Moment.AFTER),
        (StoreUnavailable("?"), Moment.BEFORE),
    ]
    signals = []
    for number in range(20):
        if number % 5 == 0:
            node.faults.fail_next("commit", *faults[number // 5])
        signals.append(node.signal("order", f"s{number:02}"))
        await turns(2)
    await asyncio.gather(*signals)
    history = await room.history(started.run_id)
    seen = [event.signal_name for event in history if hasattr(event, "signal_name")]
    assert seen == [f"s{number:02}" for number in range(20)]


@in_room()
async def test_a_run_that_ends_in_the_batch_that_made_it_is_written_once(room: Room) -> None:
    """Invariants 3, 13: what is made and ended within one batch is not written at all."""
    node = await room.node(1)
    hold = node.holds.hold("load_current_runs")
    start = node.start("order", run_timeout_ms=60_000)
    await hold.reached()
    end, result = node.terminate("order"), node.result("order")
    before = node.writer.statements
    commit = node.holds.hold("commit")
    hold.release()
    await commit.reached()
    await turns(20)
    nothing_said(start, end, result)
    commit.release()
    await asyncio.gather(start, end, result)
    assert node.writer.statements - before == 1
    assert (await room.names((await start).run_id))[-1] == "WorkflowExecutionTerminated"
    assert not room.tables.tasks.in_order(1)
    assert not room.tables.timers.in_order(1)


@in_room()
async def test_a_completed_run_tells_who_waits_after_the_commit(room: Room) -> None:
    """Invariants 3, 5."""
    node = await room.node(1)
    worker = room.worker()
    await node.start("order")
    result = node.result("order")
    task = await node.workflow_task(worker)
    hold = node.holds.hold("commit")
    completion = node.complete(task, [schedule(), FINISH])
    await hold.reached()
    await turns(20)
    nothing_said(result, completion)
    hold.release()
    assert (await result).event.result == b"done"
    await completion
    assert not room.tasks()
