"""Batch operations: every run once, from where it was saved, as fast as it may and no faster."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from unittest.mock import patch

import pytest
from tests.simulation.audit_chains import all_of, log_of
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    SHARDS,
    Node,
    Room,
    in_room,
    pass_time,
    timer,
    turns,
)
from tests.unit.history.test_outbox import apart, parent, shard_id, signal
from tests.unit.history.test_removing import left_of

from perdure_engine.core.audit import INSTALLATION, Action, Entry, Head, append
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import Reapply, ResetType
from perdure_engine.core.status import Status
from perdure_engine.frontend.filters import read_condition
from perdure_engine.history.batches import Batches
from perdure_engine.history.shard import Shard
from perdure_engine.ports.batches import (
    BatchJob,
    BatchOperation,
    BatchRow,
    PartRow,
    PartState,
)
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

JOB = "job-1"


def batches(node: Node, shards: int = SHARDS) -> Batches:
    """`shards`: how many there are, for the node's share of the rate."""
    return Batches(node.rooms, node.store, node.history.shards, shards, read_condition)


async def begin(
    room: Room,
    operation: BatchOperation = BatchOperation.TERMINATE,
    query: str = "WorkflowType = 'Order'",
    *,
    job_id: str = JOB,
    **options: Any,
) -> None:
    fields: dict[str, Any] = {"reason": "cleaning", "identity": "op", "rps": 1_000, "total": 0}
    job = BatchJob(operation=operation, query=query, body_hash=b"8" * 8, **(fields | options))
    row = BatchRow(NAMESPACE, job_id, room.now_us, None, job)
    heads = await room.store.load_audit_heads([INSTALLATION])
    entry = Entry(time_us=room.now_us, action=Action.START_BATCH)
    audited, _ = append(heads[0] if heads else Head(INSTALLATION), entry)
    assert await room.store.start_batch(row, audited)


async def parts(room: Room, job_id: str = JOB) -> list[PartRow]:
    return await room.store.load_batch_parts(NAMESPACE, job_id)


async def done(room: Room, job_id: str = JOB) -> tuple[int, int]:
    rows = await parts(room, job_id)
    return sum(row.done for row in rows), sum(row.failed for row in rows)


async def closed(room: Room) -> bool:
    return all(row.state == PartState.CLOSED for row in await parts(room))


def statuses(room: Room) -> dict[str, Status]:
    return {row.workflow_id: Status(row.status) for row in room.tables.visibility.all()}


@in_room()
async def test_every_open_run_that_the_query_finds_and_no_other(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    for number in range(30):
        await node.start(f"o{number}", shard_id=number % 4 + 1)
    await node.start("other", workflow_type="Invoice")
    await begin(room)
    job = batches(node, shards=4)
    await job.run_once()
    await pass_time(60)
    assert await closed(room)
    assert await done(room) == (30, 0)
    found = statuses(room)
    assert found.pop("other") is Status.RUNNING
    assert set(found.values()) == {Status.TERMINATED}
    log = all_of(room.tables)
    assert sorted(log) == sorted(
        [("batch.start", ""), *(("workflow.terminate", f"o{number}") for number in range(30))]
    )
    assert not node.alarms
    await job.stop()


@in_room()
async def test_what_starts_after_the_job_is_left_alone(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    await node.start("before")
    await begin(room)
    await pass_time(5)
    await node.start("after")
    job = batches(node)
    await job.run_once()
    await pass_time(10)
    assert statuses(room) == {"before": Status.TERMINATED, "after": Status.RUNNING}
    await job.stop()


@pytest.mark.parametrize(
    ("operation", "action"),
    [(BatchOperation.CANCEL, "workflow.cancel"), (BatchOperation.SIGNAL, "")],
)
def test_cancel_and_signal(operation: BatchOperation, action: str) -> None:
    @in_room()
    async def scene(room: Room) -> None:
        node = await room.node(1, 2, 3, 4)
        run_ids = [(await node.start(f"o{number}")).run_id for number in range(3)]
        named = {"signal_name": "wake"} if operation is BatchOperation.SIGNAL else {}
        await begin(room, operation, **named)
        job = batches(node)
        await job.run_once()
        await pass_time(10)
        assert await done(room) == (3, 0)
        for run_id in run_ids:
            kinds = [type(event).__name__ for event in await room.history(run_id)]
            wanted = "Signaled" if named else "CancelRequested"
            assert kinds.count(f"WorkflowExecution{wanted}") == 1
        assert [name for name, _ in log_of(room.tables)] == ([action] * 3 if action else [])
        await job.stop()

    scene()


@in_room()
async def test_delete_takes_closed_runs_too(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    ended = await node.at("ended", room.worker(), [FINISH])
    running = (await node.start("running")).run_id
    await begin(room, BatchOperation.DELETE)
    job = batches(node)
    await job.run_once()
    await pass_time(10)
    assert (left_of(room, ended), left_of(room, running)) == (0, 0)
    assert await done(room) == (2, 0)
    assert sorted(log_of(room.tables)) == [
        ("workflow.delete", "ended"),
        ("workflow.delete", "running"),
        ("workflow.terminate", "running"),
    ]
    await job.stop()


@in_room()
async def test_it_is_as_fast_as_was_asked_and_no_faster(room: Room) -> None:
    """Ten a second, of which half are this node's: it has half of the shards."""
    node = await room.node(1, 2)
    for number in range(20):
        await node.start(f"o{number}")
    await begin(room, rps=10)
    job = batches(node, shards=4)
    await job.run_once()
    seen = []
    for _ in range(5):
        await pass_time(1)
        seen.append(len(log_of(room.tables)))
    assert 2 <= seen[0] <= 10
    assert seen[1] < 20
    assert all(later - earlier <= 10 for earlier, later in itertools.pairwise(seen))
    assert seen[-1] == 20
    await job.stop()


@in_room()
async def test_stopped_it_goes_no_further(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    for number in range(20):
        await node.start(f"o{number}")
    await begin(room, rps=2)
    job = batches(node)
    await job.run_once()
    await pass_time(3)
    row = await room.store.load_batch(NAMESPACE, JOB)
    assert row is not None
    heads = await room.store.load_audit_heads([INSTALLATION])
    audited, _ = append(heads[0], Entry(time_us=room.now_us, action=Action.STOP_BATCH))
    assert await room.store.stop_batch(row._replace(stopped_us=room.now_us), audited)
    await pass_time(5)
    await job.run_once()
    await pass_time(5)
    ended = len(log_of(room.tables))
    assert 0 < ended < 20
    assert await closed(room)
    assert await done(room) == (ended, 0)
    await pass_time(60)
    assert len(log_of(room.tables)) == ended
    await job.stop()


@in_room()
async def test_a_node_that_dies_between_two_chunks_or_in_one_is_followed(room: Room) -> None:
    """Invariants 9, 28: what was acted on and not counted is acted on again, as the same request, and counted once."""
    first = await room.node(1, 2, 3, 4)
    for number in range(40):
        await first.start(f"o{number}", shard_id=number % 4 + 1)
    await begin(room, rps=8)
    job = batches(first, shards=4)
    await job.run_once()
    await pass_time(2.2)
    await job.stop()  # as a kill: what it holds in memory is gone
    before = sum(one[0] == "workflow.terminate" for one in all_of(room.tables))
    counted = (await done(room))[0]
    assert 0 < before < 40
    assert counted < before, "the chunk under way is not counted yet"

    second = await room.node(1, 2, 3, 4)
    follower = batches(second, shards=4)
    await follower.run_once()
    await pass_time(60)
    assert await closed(room)
    assert await done(room) == (40, 0)
    acted = [name for action, name in all_of(room.tables) if action == "workflow.terminate"]
    assert sorted(acted) == sorted(f"o{number}" for number in range(40))
    await follower.stop()


@in_room()
async def test_a_chunk_that_is_acted_on_twice_signals_each_run_once(room: Room) -> None:
    """Invariant 41: the request id is made of the job and the run."""
    first = await room.node(1, 2, 3, 4)
    run_ids = [(await first.start(f"o{number}")).run_id for number in range(12)]
    await begin(room, BatchOperation.SIGNAL, signal_name="wake", rps=4)
    job = batches(first)
    await job.run_once()
    await pass_time(1.5)
    await job.stop()
    second = await room.node(1, 2, 3, 4)
    follower = batches(second)
    await follower.run_once()
    await pass_time(30)
    assert await done(room) == (12, 0)
    for run_id in run_ids:
        kinds = [type(event).__name__ for event in await room.history(run_id)]
        assert kinds.count("WorkflowExecutionSignaled") == 1
    await follower.stop()


@in_room()
async def test_an_old_owner_that_wakes_does_not_turn_the_part_back(room: Room) -> None:
    """Invariant 7: its save meets another version, and it stops."""
    old = await room.node(1, 2, 3, 4)
    for number in range(12):
        await old.start(f"o{number}")
    await begin(room, rps=4)
    hold = old.holds.hold("save_batch_part")
    late = batches(old)
    await late.run_once()
    await hold.reached()
    new = await room.node(1, 2, 3, 4)
    job = batches(new)
    await job.run_once()
    await pass_time(15)
    hold.release()
    await pass_time(30)
    assert await closed(room)
    assert await done(room) == (12, 0)
    assert len(log_of(room.tables)) == 12
    await job.stop()
    await late.stop()


@in_room()
async def test_a_database_that_fails_now_and_then_holds_nothing_up(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    for number in range(6):
        await node.start(f"o{number}")
    await begin(room)
    job = batches(node)
    await job.start()
    for operation in ("load_open_batch_parts", "load_batch", "load_batch_targets"):
        node.faults.fail_next(operation, StoreUnavailable("?"))
        await pass_time(3)
    node.faults.fail_next("save_batch_part", OutcomeUnknown("?"), Moment.AFTER)
    node.faults.fail_next("commit", OutcomeUnknown("?"), Moment.AFTER)
    await pass_time(20)
    assert await closed(room)
    assert await done(room) == (6, 0)
    assert len(log_of(room.tables)) == 6
    await job.stop()
    await job.stop()


@in_room()
async def test_a_run_that_refuses_is_counted_and_named(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    await node.start("good")
    bad = (await node.start("bad")).run_id
    await begin(room)
    submit = Shard.submit

    def refuses(shard: Shard, intent: Any) -> asyncio.Future[Any]:
        if intent.run_id != bad:
            return submit(shard, intent)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(Rejected(Code.DATA_LOSS, "CORRUPT", "its history cannot be read"))
        return future

    job = batches(node)
    with patch.object(Shard, "submit", refuses):  # the run's history is damaged
        await job.run_once()
        await pass_time(10)
    assert await done(room) == (1, 1)
    assert [row.last_failure for row in await parts(room) if row.failed] == [
        "CORRUPT: its history cannot be read"
    ]
    await job.stop()


@in_room()
async def test_a_run_that_cannot_go_now_does_not_hold_the_job_up(room: Room) -> None:
    """It has a message for a run whose shard nobody serves, and goes when that is delivered."""
    served = shard_id("parent")
    node = await room.node(served)
    speaks = await parent(node, room, [signal(apart("parent"))])
    await node.terminate("parent", served)
    ended = await node.at("ended", room.worker(), [FINISH], served)
    await begin(room, BatchOperation.DELETE)
    job = batches(node)
    await job.run_once()
    await pass_time(60)

    [part] = [part for part in await parts(room) if part.shard_id == served]
    assert (part.state, part.done, part.failed) == (PartState.CLOSED, 1, 1)
    assert part.last_failure.startswith("RUN_HAS_MESSAGES")
    assert (left_of(room, ended), left_of(room, speaks) > 0) == (0, True)
    await node.take(*(shard for shard in (1, 2, 3, 4) if shard != served))
    await pass_time(60)
    assert left_of(room, speaks) == 0
    assert not node.alarms
    await job.stop()


@in_room()
async def test_what_is_changed_each_time_is_counted_as_failed(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    await node.start("order")
    await begin(room, BatchOperation.DELETE)
    refused = Rejected(Code.ABORTED, "RUN_CHANGED", "the run has changed; try again")

    def refuses(*_: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(refused)
        return future

    job = batches(node)
    with patch.object(Shard, "submit", refuses):  # its rows are not as memory has them
        await job.run_once()
        await pass_time(30)
    assert await done(room) == (0, 1)
    assert await closed(room)
    await job.stop()


@in_room()
async def test_a_job_that_was_removed_ends_its_work(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    for number in range(10):
        await node.start(f"o{number}")
    await begin(room, rps=1)
    job = batches(node)
    await job.run_once()
    await pass_time(2)
    await room.store.remove_batch(NAMESPACE, JOB)
    await pass_time(5)
    ended = len(log_of(room.tables))
    await pass_time(20)
    assert len(log_of(room.tables)) == ended < 10
    assert not node.alarms
    await job.stop()


@in_room()
async def test_a_node_without_shards_looks_for_nothing(room: Room) -> None:
    node = await room.node()
    await batches(node).run_once()
    await turns(3)
    assert "load_open_batch_parts" not in node.holds.calls


# ---- resets

RESET = {"reset_type": ResetType.LAST_WORKFLOW_TASK}


def begun_by_a_reset(room: Room) -> list[str]:
    """Workflow ids of the runs that resets have begun."""
    return sorted(name for action, name in log_of(room.tables) if action == "workflow.reset")


async def at_timers(node: Node, count: int) -> list[bytes]:
    """Runs of which each has completed a workflow task and waits for a timer."""
    worker = node.room.worker()
    return [await node.at(f"o{number}", worker, [timer(500)]) for number in range(count)]


@in_room()
async def test_each_workflow_is_reset_once_though_the_query_finds_what_the_job_itself_began(
    room: Room,
) -> None:
    """Invariant 28: the new run has the start of its base, so it is found like any other, and left alone."""
    node = await room.node(1, 2, 3, 4)
    bases = await at_timers(node, 12)
    await begin(room, BatchOperation.RESET, **RESET)
    job = batches(node)
    await job.run_once()
    await pass_time(60)
    assert await closed(room)
    assert await done(room) == (12, 0)
    assert begun_by_a_reset(room) == sorted(f"o{number}" for number in range(12))
    rows = {row.run_id: row for row in room.tables.visibility.all()}
    assert len(rows) == 24
    assert {Status(rows[run_id].status) for run_id in bases} == {Status.TERMINATED}
    later = [run_id for run_id in rows if run_id not in bases]
    assert any(run_id > base for run_id in later for base in bases), (
        "the walk comes by some of them"
    )
    assert {rows[run_id].start_us for run_id in later} <= {rows[one].start_us for one in bases}
    assert not node.alarms
    await job.stop()


@in_room()
async def test_a_reset_job_whose_node_dies_in_a_chunk_resets_nothing_twice(room: Room) -> None:
    """Invariants 9, 28: the request is made of the job and the run, so the repeat finds the new run."""
    first = await room.node(1, 2, 3, 4)
    await at_timers(first, 12)
    await begin(room, BatchOperation.RESET, rps=4, **RESET)
    job = batches(first, shards=4)
    await job.run_once()
    await pass_time(1.2)
    await job.stop()  # as a kill
    before = begun_by_a_reset(room)
    assert 0 < len(before) < 12
    assert (await done(room))[0] < len(before), "the chunk under way is not counted yet"
    second = await room.node(1, 2, 3, 4)
    follower = batches(second, shards=4)
    await follower.run_once()
    await pass_time(120)
    assert await closed(room)
    assert await done(room) == (12, 0)
    assert begun_by_a_reset(room) == sorted(f"o{number}" for number in range(12))
    assert len(room.tables.executions.all()) == 24
    await follower.stop()


@in_room()
async def test_a_run_that_has_closed_is_reset_and_one_that_has_a_newer_run_is_not(
    room: Room,
) -> None:
    """Invariant 5: the newer run goes on, whether the query finds it or not."""
    node = await room.node(1, 2, 3, 4)
    worker = room.worker()
    await node.at("closed", worker, [FINISH])
    older = await node.at("again", worker, [FINISH])
    newer = await node.at("again", worker, [timer(500)])
    await node.start("fresh")  # has no workflow task that could be gone back to
    await begin(
        room, BatchOperation.RESET, "ExecutionStatus = 'Completed' OR WorkflowId = 'fresh'", **RESET
    )
    job = batches(node)
    await job.run_once()
    await pass_time(30)
    assert await closed(room)
    assert await done(room) == (1, 2)
    assert begun_by_a_reset(room) == ["closed"]
    rows = {row.run_id: Status(row.status) for row in room.tables.visibility.all()}
    assert (rows[older], rows[newer]) == (Status.COMPLETED, Status.RUNNING)
    why = [row.last_failure.partition(":")[0] for row in await parts(room) if row.failed]
    assert set(why) <= {"NOT_THE_NEWEST_RUN", "NO_RESET_POINT"}
    await job.stop()


@in_room()
async def test_a_batch_reset_goes_where_it_was_asked_to_with_what_it_was_asked_to_apply(
    room: Room,
) -> None:
    node = await room.node(1, 2, 3, 4)
    worker = room.worker()
    job = batches(node)
    for exclude, signals in (((), 1), ((Reapply.SIGNAL,), 0)):
        name = f"order-{signals}"
        base = await node.at(name, worker, [timer(500)])
        await node.signal(name, "one")
        await node.complete(await node.workflow_task(worker), [])
        await begin(
            room,
            BatchOperation.RESET,
            f"WorkflowId = '{name}'",
            job_id=name,
            reset_type=ResetType.FIRST_WORKFLOW_TASK,
            reapply_exclude=exclude,
        )
        await job.run_once()
        await pass_time(10)
        assert await done(room, name) == (1, 0)
        task = await node.workflow_task(worker)
        names = await room.names(task.run_id)
        assert task.run_id != base
        assert names[:4] == [*(await room.names(base))[:3], "WorkflowTaskFailed"]
        assert names.count("WorkflowExecutionSignaled") == signals
        await node.complete(task, [])
    await job.stop()


@in_room()
async def test_pause_and_unpause_are_for_those_that_are_not_yet(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    for number in range(3):
        await node.start(f"o{number}")
    await node.pause("o1")
    await begin(room, BatchOperation.PAUSE)
    job = batches(node)
    await job.run_once()
    await pass_time(10)
    assert await done(room) == (2, 0)
    assert set(statuses(room).values()) == {Status.PAUSED}
    await node.unpause("o1")
    await begin(room, BatchOperation.UNPAUSE, job_id="job-2")
    await job.run_once()
    await pass_time(10)
    assert await done(room, "job-2") == (2, 0)
    assert set(statuses(room).values()) == {Status.RUNNING}
    assert sorted(log_of(room.tables)) == sorted(
        (f"workflow.{action}", f"o{number}")
        for action in ("pause", "unpause")
        for number in range(3)
    )
    await job.stop()
