"""Statements that certainly did not land: again, in halves, or told to their callers (design §3)."""

import asyncio
import itertools
from unittest.mock import patch

import pytest
from tests.unit.history.room import (
    FINISH,
    Room,
    codes,
    in_room,
    nothing_said,
    pass_time,
    refused,
    schedule,
    timer,
    turns,
)

from perdure_engine.core import intents
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.history import shard as shard_module
from perdure_engine.history import writer as writer_module
from perdure_engine.history.deciding import Deciding
from perdure_engine.history.shard import Shard
from perdure_engine.history.work import ShardStep
from perdure_engine.ports.store import (
    Batch,
    BatchRefused,
    Conflict,
    GuardFailed,
    OutcomeUnknown,
    StoreUnavailable,
)
from perdure_engine.store.memory import Moment

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
    calls = [node.signal("old"), node.describe("old")]
    assert await codes(*calls) == [Code.UNAVAILABLE] * 2
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
    real = Deciding._reply

    def reply(deciding, step, item, run, env):  # type: ignore[no-untyped-def]
        if getattr(item.intent, "signal_name", "") == "bug":
            raise ZeroDivisionError
        return real(deciding, step, item, run, env)

    with patch.object(Deciding, "_reply", reply):
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
    real = Deciding._reply
    raised = 0

    def reply(deciding, step, item, run, env):  # type: ignore[no-untyped-def]
        nonlocal raised
        if isinstance(item.intent, intents.FireTimer) and not raised:
            raised += 1
            raise ZeroDivisionError
        return real(deciding, step, item, run, env)

    with patch.object(Deciding, "_reply", reply):
        await pass_time(200)
    assert raised == 1
    assert (await room.names(run_id)).count("TimerFired") == 1


@in_room()
async def test_what_raises_beside_the_decisions_costs_its_own_caller_only(room: Room) -> None:
    """Invariant 66: nothing says whose it is, so it is looked for in halves. The writer does not hear of it."""
    node = await room.node(1)
    await asyncio.gather(*[node.start(f"order-{number}") for number in range(5)])
    mark = Shard._mark_busy

    def mark_busy(shard: Shard, step: ShardStep) -> None:
        mark(shard, step)
        if any(getattr(item.intent, "signal_name", "") == "bug" for item in step.items):
            raise ZeroDivisionError

    with patch.object(Shard, "_mark_busy", mark_busy):
        calls = [node.signal(f"order-{n}", "bug" if n == 3 else "s") for n in range(5)]
        assert await codes(calls.pop(3)) == [Code.INTERNAL]
        await asyncio.gather(*calls)
    events = [(await node.describe(f"order-{n}")).info.history_events for n in range(5)]
    assert events == [3, 3, 3, 2, 3]
    assert node.alarms == ["intent_failed"]


@pytest.mark.parametrize("in_recovery", [False, True])
def test_invariant_13_what_raises_beside_the_decisions_loses_no_timer_and_no_caller(
    in_recovery: bool,
) -> None:
    """Nor when what mends it raises as well: then the writer sees to what was taken."""

    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        run_id = await node.at("order", room.worker(), [timer(1)])
        mark, mend = Shard._mark_busy, Shard._in_halves
        raised = mended = 0

        def mark_busy(shard: Shard, step: ShardStep) -> None:
            nonlocal raised
            if raised < 2:
                raised += 1
                raise ZeroDivisionError
            mark(shard, step)

        def in_halves(shard: Shard, step: ShardStep, error: Exception) -> ShardStep:
            nonlocal mended
            mended += 1
            if in_recovery and mended == 1:
                raise error
            return mend(shard, step, error)

        with (
            patch.object(Shard, "_mark_busy", mark_busy),
            patch.object(Shard, "_in_halves", in_halves),
        ):
            said = Code.UNAVAILABLE if in_recovery else Code.INTERNAL
            assert await codes(node.signal("order")) == [said]
            await pass_time(200)
        assert raised == 2
        assert (await room.names(run_id)).count("TimerFired") == 1
        assert ("writer_failed" in node.alarms) == in_recovery

    story()


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
