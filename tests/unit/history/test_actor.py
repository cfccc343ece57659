"""The shard as an actor: lanes, parked loads, the cache of runs and of current rows (design §3, steps 1 and 2)."""

import asyncio
from typing import Any

from tests.unit.history.room import (
    BODY,
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

from perdure_engine.core import intents, limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history import work
from perdure_engine.history.inbox import Inbox
from perdure_engine.history.loading import restore
from perdure_engine.history.work import LANE_SHARES, Item
from perdure_engine.ports.store import StoreUnavailable

TOKEN = TaskToken(1, NAMESPACE, b"r", TaskKind.ACTIVITY, 5, 1, 1, 0, 0)


def completion() -> Item:
    return Item(
        intents.CompleteActivity(TOKEN, b"", ""), asyncio.get_running_loop().create_future()
    )


def signal(name: str = "s", size: int = 0) -> Item:
    intent = intents.SignalWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="w",
        run_id=b"",
        signal_name=name,
        request_id=b"q",
        body_hash=BODY,
        input=b"x" * size,
    )
    return Item(intent, asyncio.get_running_loop().create_future())


def start(room: Room, payload: bytes = b"") -> Item:
    intent = room.start_intent("w", input=payload)
    return Item(intent, asyncio.get_running_loop().create_future())


# ---- lanes


@in_room(seeds=(0,))
async def test_lanes_share_a_batch_by_quota_and_completions_go_first(room: Room) -> None:
    inbox = Inbox()
    for _ in range(300):
        for item in (start(room), signal(), completion()):
            assert inbox.put(item)
    taken = inbox.take(10 * sum(LANE_SHARES))
    kinds = [type(item.intent).__name__ for item in taken]
    assert kinds == (
        ["CompleteActivity"] * (10 * LANE_SHARES[0])
        + ["SignalWorkflow"] * (10 * LANE_SHARES[1])
        + ["StartWorkflow"] * (10 * LANE_SHARES[2])
    )
    assert len(Inbox().take(10)) == 0


@in_room(seeds=(0,))
async def test_a_quota_counts_only_while_the_other_lanes_have_work(room: Room) -> None:
    inbox = Inbox()
    for _ in range(300):
        inbox.put(start(room))
    assert len(inbox.take(128)) == 128


@in_room(seeds=(0,))
async def test_invariant_69_a_full_lane_refuses_the_newest_start_with_a_retry_time(
    room: Room,
) -> None:
    """Invariant 69: what was taken in stays; a completion is never refused, however full the shard is."""
    inbox = Inbox()
    first = start(room)
    inbox.put(first)
    shared = first.intent
    for _ in range(work.LANE_COUNTS_MAX[work.LANE_START] - 1):
        inbox.put(Item(shared, None))
    newest = start(room)
    assert not inbox.put(newest)
    assert newest.future is not None
    refusal = await refused(newest.future)
    assert refusal.code is Code.RESOURCE_EXHAUSTED
    assert refusal.retry_after_ms > 0
    assert first.future is not None
    nothing_said(first.future)
    for _ in range(1_000):
        assert inbox.put(completion())
    assert inbox.put(signal()), "the other lanes have room of their own"


@in_room(seeds=(0,))
async def test_invariant_69_a_lane_is_bounded_in_bytes_too(room: Room) -> None:
    """Invariant 66: 20,000 starts with 2 MiB each would be 40 GiB in one shard's memory."""
    inbox = Inbox()
    intent = start(room, bytes(limits.PAYLOAD_BYTES_MAX)).intent
    accepted = sum(inbox.put(Item(intent, None)) for _ in range(2_000))
    assert accepted < 2_000, "4 GB of intents were taken in"
    assert inbox.put(completion())


@in_room(seeds=(0,))
async def test_what_was_taken_before_goes_first_in_its_order(room: Room) -> None:
    inbox = Inbox()
    items = [signal(str(n)) for n in range(4)]
    inbox.put(completion())
    inbox.put_again(items[2:])
    inbox.put_again(items[:2])
    assert inbox.take(4) == items
    assert len(inbox) == 1
    assert len(inbox.drain()) == 1


@in_room(seeds=(0,))
async def test_one_alone_that_was_taken_before_goes_first_as_well(room: Room) -> None:
    inbox = Inbox()
    taken, later = start(room), completion()
    inbox.put_again([taken])
    inbox.put(later)
    assert (inbox.count, inbox.take(1)) == (2, [taken])
    assert (inbox.count, inbox.take(1)) == (1, [later])
    inbox.put_again([taken])
    assert inbox.take(9) == [taken]
    inbox.put(taken)
    inbox.put(later)
    assert inbox.take(9) == [later, taken], "for once, not for ever"


@in_room()
async def test_at_most_16_intents_of_one_run_in_a_batch_and_their_order_is_kept(room: Room) -> None:
    """Invariant 41: one busy run leaves room for the others, and its own intents stay in order."""
    node = await room.node(1)
    busy = await node.start("busy")
    await node.start("other")
    sizes: list[int] = []
    commit = node.store.commit

    async def count(batch: Any) -> int:
        sizes.append(sum(len(row.payload) for row in batch.history if row.run_id == busy.run_id))
        batches.append(batch)
        return await commit(batch)

    batches: list[Any] = []
    node.store.commit = count  # type: ignore[method-assign]
    signals = [node.signal("busy", f"s{n:02}") for n in range(200)]
    neighbour = node.signal("other")
    await asyncio.gather(neighbour, *signals)
    events = await room.history(busy.run_id)
    assert [getattr(e, "signal_name", "") for e in events[2:]] == [f"s{n:02}" for n in range(200)]
    per_batch = [
        len(room.codec.decode_events(row.payload))
        for batch in batches
        for row in batch.history
        if row.run_id == busy.run_id
    ]
    assert max(per_batch) == limits.RUN_INTENTS_PER_BATCH_MAX
    assert sum(per_batch) == 200


# ---- parked loads


async def reloaded(room: Room, workflow_ids: list[str]) -> Any:
    """A node that has none of its runs in memory."""
    first = await room.node(1)
    for workflow_id in workflow_ids:
        await first.start(workflow_id)
    return await room.node(1)


@in_room()
async def test_a_load_is_single_flight_and_its_intents_keep_their_order(room: Room) -> None:
    """Invariant 41."""
    node = await reloaded(room, ["order"])
    hold = node.holds.hold("load_run")
    signals = [node.signal("order", f"s{n}") for n in range(5)]
    await hold.reached()
    signals += [node.signal("order", f"s{n}") for n in range(5, 10)]
    await turns(20)
    hold.release()
    await asyncio.gather(*signals)
    assert node.holds.calls.count("load_run") == 1
    assert node.holds.calls.count("load_current_runs") == 1
    run_id = (await node.describe("order")).info.run_id
    events = await room.history(run_id)
    assert [getattr(e, "signal_name", "") for e in events[2:]] == [f"s{n}" for n in range(10)]


@in_room()
async def test_the_actor_goes_on_with_others_while_a_run_is_loaded(room: Room) -> None:
    node = await reloaded(room, ["slow"])
    hold = node.holds.hold("load_run")
    slow = node.signal("slow")
    await hold.reached()
    await node.start("quick")
    nothing_said(slow)
    hold.release()
    await slow


@in_room()
async def test_starts_of_many_new_ids_need_one_read(room: Room) -> None:
    node = await room.node(1, 2)
    hold = node.holds.hold("load_current_runs")
    first = node.start("first")
    await hold.reached()
    others = [node.start(f"o{n}", 1 + n % 2) for n in range(100)]
    await turns(10)
    hold.release()
    await asyncio.gather(first, *others)
    assert node.holds.calls.count("load_current_runs") == 2


@in_room()
async def test_ids_that_come_during_a_statement_are_read_together_when_it_is_over(
    room: Room,
) -> None:
    node = await room.node(1, 2)
    await node.start("first")
    hold = node.holds.hold("commit")
    signal = node.signal("first")
    await hold.reached()
    reads = node.holds.calls.count("load_current_runs")
    starts = []
    for n in range(5):
        starts.append(node.start(f"o{n}", shard_id=2))
        await turns(10)
    assert node.holds.calls.count("load_current_runs") == reads
    hold.release()
    await asyncio.gather(signal, *starts)
    assert node.holds.calls.count("load_current_runs") == reads + 1


@in_room()
async def test_a_start_of_a_new_id_takes_no_turn_before_its_id_is_looked_up(room: Room) -> None:
    """Invariant 11: and what comes for the same id meanwhile keeps its place behind it."""
    node = await room.node(1)
    hold = node.holds.hold("load_current_runs")
    first, signal, second = node.start("order"), node.signal("order"), node.start("order")
    assert node.shard().loading.busy
    assert len(node.shard().inbox) == 2, "who finds others waiting waits with them"
    await hold.reached()
    hold.release()
    started = await first
    await signal
    assert (await refused(second)).code is Code.ALREADY_EXISTS
    names = await room.names(started.run_id)
    assert "WorkflowExecutionSignaled" in names


@in_room()
async def test_a_load_that_fails_is_told_to_its_callers_and_tried_again_for_others(
    room: Room,
) -> None:
    node = await reloaded(room, ["order"])
    node.faults.fail_next("load_run", StoreUnavailable("away"))
    calls = [node.signal("order"), node.describe("order")]
    assert await codes(*calls) == [Code.UNAVAILABLE] * 2
    await node.signal("order")
    node.faults.fail_next("load_current_runs", StoreUnavailable("away"))
    assert await codes(node.start("new")) == [Code.UNAVAILABLE]
    await node.start("new")


@in_room()
async def test_invariant_13_a_timer_whose_run_cannot_be_loaded_waits_for_the_database(
    room: Room,
) -> None:
    """Invariants 13, 23: the shard's own intents have no caller who would repeat them."""
    first = await room.node(1)
    run_id = await first.at("order", room.worker(), [timer(5)])
    node = await room.node(1)
    for _ in range(6):
        node.faults.fail_next("load_run", StoreUnavailable("away"))
    await pass_time(20)
    assert (await room.names(run_id)).count("TimerFired") == 1


@in_room()
async def test_more_loads_than_may_be_in_flight_wait_for_a_place(room: Room) -> None:
    node = await reloaded(room, [f"o{n}" for n in range(40)])
    hold = node.holds.hold("load_run")
    calls = [node.describe(f"o{n}") for n in range(40)]
    await hold.reached()
    await turns(30)
    assert hold.waiting == room.config.loads_in_flight_max
    hold.release()
    await asyncio.gather(*calls)


@in_room()
async def test_a_run_with_corrupt_rows_is_quarantined_and_the_others_go_on(room: Room) -> None:
    """Invariants 4, 66: bytes that do not read back stop their run, not the shard."""
    node = await reloaded(room, ["bad", "good"])
    [bad] = [row for row in room.tables.current_runs.in_order(1) if row.workflow_id == "bad"]
    for row in room.tables.history.in_order((1, bad.run_id)):
        room.tables.history.put(row._replace(payload=b"\xff\x00rubbish"))
    calls = node.describe("bad"), node.signal("bad"), node.signal("good")
    assert await codes(calls[0], calls[1]) == [Code.DATA_LOSS] * 2
    await calls[2]
    assert await codes(node.signal("bad")) == [Code.DATA_LOSS]
    assert node.alarms == ["run_quarantined"]
    assert node.holds.calls.count("load_run") == 2


@in_room()
async def test_history_that_ends_too_early_is_corrupt(room: Room) -> None:
    """Invariant 1: a gap is data loss, never a shorter run."""
    node = await reloaded(room, ["order"])
    await (await room.node(1)).signal("order")
    node = await room.node(1)
    [row] = room.tables.current_runs.in_order(1)
    room.tables.history.delete(room.tables.history.in_order((1, row.run_id))[-1])
    assert await codes(node.describe("order")) == [Code.DATA_LOSS]


@in_room()
async def test_a_run_id_nobody_has_is_not_found(room: Room) -> None:
    node = await room.node(1)
    assert await codes(node.describe("x", run_id=room.ids.new_id()), node.describe("x")) == [
        Code.NOT_FOUND,
        Code.NOT_FOUND,
    ]


@in_room()
async def test_a_load_that_is_overtaken_by_the_runs_start_does_not_replace_it(room: Room) -> None:
    """Invariants 4, 28: the caller chose the run id, and asked for it before its start was saved."""
    node = await room.node(1)
    run_id = room.ids.new_id()
    hold = node.holds.hold("load_run")
    early = node.describe("order", run_id=run_id)
    await hold.reached()
    await node.start("order", run_id=run_id)
    waits = node.result("order")
    task = await node.workflow_task(room.worker())
    hold.release()
    await asyncio.gather(early, return_exceptions=True)
    await turns(20)
    await node.complete(task, [FINISH])
    assert (await within(waits, 1)).event.result == b"done"
    assert not node.alarms


# ---- the cache


@in_room(runs_cached_max=5)
async def test_the_least_used_runs_leave_memory_and_come_back_the_same(room: Room) -> None:
    """Invariant 4."""
    node = await room.node(1)
    for number in range(20):
        await node.start(f"o{number}")
    assert len(node.shard().runs) == 5
    assert [run.state.folded.started.workflow_id for run in node.shard().runs.values()] == [
        f"o{number}" for number in range(15, 20)
    ]
    for number in range(20):
        await node.signal(f"o{number}")
        assert (await node.describe(f"o{number}")).info.history_events == 3
    assert not node.alarms


@in_room(closed_runs_cached_max=3)
async def test_runs_that_closed_leave_memory_first_and_are_answered_for_from_the_store(
    room: Room,
) -> None:
    """Invariant 4. Open runs stay, and so does a closed one that somebody still asks something of."""
    node = await room.node(1)
    worker = room.worker()
    opened = await node.start("open")
    await node.workflow_task(worker)
    for number in range(10):
        await node.start(f"o{number}")
        await node.complete(await node.workflow_task(worker), [FINISH])
    closed = [run for run in node.shard().runs.values() if not run.state.open]
    assert [run.state.folded.started.workflow_id for run in closed] == ["o7", "o8", "o9"]
    assert opened.run_id in node.shard().runs
    for number in range(10):
        assert (await node.describe(f"o{number}")).info.status.name == "COMPLETED"
        assert (await node.result(f"o{number}")).status.name == "COMPLETED"
    assert not node.alarms


@in_room(runs_cached_max=2)
async def test_pinned_runs_stay(room: Room) -> None:
    """Who waits for a run, and what a worker holds of it, is in memory only."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at_activity("held", worker)
    activity = await node.activity_task(worker)
    await node.start("waited")
    waits = node.result("waited")
    for number in range(10):
        await node.start(f"o{number}")
    await node.complete_activity(activity.token)
    assert (await room.names(run_id)).count("ActivityTaskCompleted") == 1
    await node.terminate("waited")
    assert (await waits).status.name == "TERMINATED"
    for number in range(10, 20):
        await node.start(f"o{number}")
    assert len(node.shard().runs) <= 3


@in_room(runs_cached_max=2)
async def test_a_trimmed_run_keeps_its_task_on_offer(room: Room) -> None:
    """Invariant 13."""
    node = await room.node(1)
    for number in range(8):
        await node.start(f"o{number}")
    seen: set[str] = set()
    for _ in range(40):
        answer = await node.polling(room.worker(), workflow=100, timeout_s=1)
        for task in answer.workflow_tasks:
            await node.complete(task, [FINISH])
            seen.add(task.workflow_id)
    assert seen == {f"o{n}" for n in range(8)}


@in_room(seeds=(0,))
async def test_invariant_4_a_snapshot_every_64_events_and_the_reload_from_it_is_the_same_state(
    room: Room,
) -> None:
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("order", worker, [timer(900), schedule()])
    for number in range(150):
        await node.signal("order", f"s{number}")
    snapshots = room.tables.snapshots.in_order((1, run_id))
    state = node.shard().runs[run_id].state
    assert snapshots[0].event_id == state.snapshot_event_id >= 2 * limits.SNAPSHOT_EVENTS
    record = await room.store.load_run(1, run_id, room.codec.task_keys_of_head)
    assert record is not None
    assert len(record.history) < limits.SNAPSHOT_EVENTS
    again, _, _ = restore(record, room.codec)
    for table in room.tables.snapshots.in_order((1, run_id)):
        room.tables.snapshots.delete(table)
    assert again.folded == state.folded
    head = (again.version, again.history_bytes, again.inbox_seq, again.snapshot_event_id)
    assert head == (state.version, state.history_bytes, state.inbox_seq, state.snapshot_event_id)
    assert {k: r.task_id for k, r in again.tasks.items()} == {
        k: r.task_id for k, r in state.tasks.items()
    }
    assert {k: (r.wake_us, r.timer_id) for k, r in again.timer_rows.items()} == {
        k: (r.wake_us, r.timer_id) for k, r in state.timer_rows.items()
    }


@in_room(runs_cached_max=1)
async def test_invariant_9_current_rows_stay_coherent_over_trims_and_reloads(room: Room) -> None:
    """Invariants 9, 10, 11: runs of one id follow each other while memory keeps one run."""
    node = await room.node(1)
    runs = []
    for round_ in range(4):
        started = await node.start("order")
        runs.append(started.run_id)
        await node.start(f"other{round_}")
        assert (await refused(node.start("order"))).code is Code.ALREADY_EXISTS
        await node.start(f"another{round_}")
        assert (await node.describe("order", run_id=runs[0])).info.run_id == runs[0]
        await node.terminate("order")
    assert len(set(runs)) == 4
    [row] = [r for r in room.tables.current_runs.in_order(1) if r.workflow_id == "order"]
    assert row.run_id == runs[-1]
    assert not node.alarms


@in_room()
async def test_invariant_11_of_many_starts_of_one_id_one_begins(room: Room) -> None:
    """Invariants 9, 11."""
    node = await room.node(1)
    outcomes = await asyncio.gather(
        *(node.start("order") for _ in range(30)), return_exceptions=True
    )
    assert sum(not isinstance(outcome, Rejected) for outcome in outcomes) == 1
    assert len(room.tables.executions.in_order(1)) == 1


@in_room()
async def test_a_caller_that_names_a_run_of_another_workflow_finds_nothing(room: Room) -> None:
    """Invariant 67."""
    node = await room.node(1)
    started = await node.start("mine")
    assert await codes(node.describe("yours", run_id=started.run_id)) == [Code.NOT_FOUND]
