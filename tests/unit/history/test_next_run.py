"""A run and the one that follows it, saved and shown together or not at all (semantics §7; reliability 5, 13)."""

from __future__ import annotations

from typing import Any

from tests.unit.history.room import (
    BODY,
    FINISH,
    NAMESPACE,
    Node,
    Room,
    cmd,
    in_room,
    nothing_said,
    pass_time,
    refused,
    turns,
)

from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import IdConflictPolicy, SignalWorkflow
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

AGAIN = cmd.ContinueAsNew("", "", b"next", b"", b"", 0, 0, None)
FAIL = cmd.FailWorkflow(Failure(FailureKind.APPLICATION, "no stock", type="OutOfStock"))
RETRY = RetryPolicy(5_000)


def lists(room: Room) -> list[tuple[bytes, int]]:
    rows = sorted(room.tables.visibility.all(), key=lambda row: row.start_us)
    return [(row.run_id, row.status) for row in rows]


def current(room: Room) -> tuple[bytes, int]:
    [row] = room.tables.current_runs.all()
    return row.run_id, row.status


async def followed(room: Room, node: Node, **options: Any) -> tuple[bytes, bytes]:
    """Start a run and have it continue as new. Returns both run ids."""
    started = await node.start("order", **options)
    await node.complete(await node.workflow_task(room.worker()), [AGAIN])
    return started.run_id, current(room)[0]


@in_room()
async def test_the_next_run_begins_in_the_statement_that_closes_the_last(room: Room) -> None:
    """Invariant 5: between the two there is nothing for anybody to see, in memory or in the database."""
    node = await room.node(1)
    started = await node.start("order")
    result = node.result("order", run_id=started.run_id)
    task = await node.workflow_task(room.worker())
    hold = node.holds.hold("commit")
    done = node.complete(task, [AGAIN])
    poll = node.polling(room.worker(), activity=0, timeout_s=20)
    await hold.reached()
    await pass_time(1)
    nothing_said(done, result, poll)
    assert current(room) == (started.run_id, Status.RUNNING)
    assert lists(room) == [(started.run_id, Status.RUNNING)]
    hold.release()
    await done
    closed = await result
    new_run_id = closed.event.new_run_id
    assert closed.status is Status.CONTINUED_AS_NEW
    assert current(room) == (new_run_id, Status.RUNNING)
    assert lists(room) == [
        (started.run_id, Status.CONTINUED_AS_NEW),
        (new_run_id, Status.RUNNING),
    ]
    [next_task] = (await poll).workflow_tasks
    assert next_task.run_id == new_run_id
    assert next_task.events[0].input == b"next"
    following = node.result("order", run_id=new_run_id)
    await node.complete(next_task, [FINISH])
    assert (await following).status is Status.COMPLETED


@in_room()
async def test_a_commit_that_fails_leaves_no_half_of_a_chain(room: Room) -> None:
    """Invariants 5, 10: decided again on reloaded state, it begins one run, not two."""
    for error, moment in (
        (StoreUnavailable("no connection"), Moment.BEFORE),
        (OutcomeUnknown("reply lost"), Moment.BEFORE),
        (OutcomeUnknown("reply lost"), Moment.AFTER),
    ):
        node = await room.node(1)
        name = f"order-{type(error).__name__}-{moment.name}"
        started = await node.start(name)
        task = await node.workflow_task(room.worker())
        node.faults.fail_next("commit", error, moment)
        await node.complete(task, [AGAIN])
        runs = [row for row in room.tables.executions.all() if row.workflow_id == name]
        assert sorted(row.status for row in runs) == [Status.RUNNING, Status.CONTINUED_AS_NEW]
        [row] = [row for row in room.tables.current_runs.all() if row.workflow_id == name]
        assert row.run_id != started.run_id
        next_task = await node.workflow_task(room.worker())
        assert next_task.run_id == row.run_id
        await node.complete(next_task, [FINISH])


@in_room()
async def test_an_owner_that_dies_before_the_commit_has_begun_nothing(room: Room) -> None:
    """Invariants 13, 25: the task is handed out again by the next owner, and the chain goes on once."""
    old = await room.node(1)
    started = await old.start("order")
    task = await old.workflow_task(room.worker())
    hold = old.holds.hold("commit")
    done = old.complete(task, [AGAIN])
    await hold.reached()
    new = await room.node(1)
    hold.release()
    await refused(done)
    again = await new.workflow_task(room.worker("w2"), timeout_s=30)
    assert again.run_id == started.run_id
    await new.complete(again, [AGAIN])
    assert len(room.tables.executions.all()) == 2


@in_room()
async def test_the_next_owner_ends_a_back_off(room: Room) -> None:
    """Invariants 13, 21: not before its time, whoever owns the shard, and from what is saved."""
    old = await room.node(1)
    started = await old.start("order", retry_policy=RETRY)
    await old.complete(await old.workflow_task(room.worker()), [FAIL])
    failed = await old.result("order", run_id=started.run_id)
    assert failed.status is Status.FAILED
    new = await room.node(1)
    await new.nothing(room.worker(), timeout_s=4.9)
    task = await new.workflow_task(room.worker(), timeout_s=2)
    assert task.run_id == failed.event.new_run_id
    assert task.events[0].attempt == 2
    described = await new.describe("order")
    assert (described.attempt, described.first_run_id) == (2, started.run_id)
    assert described.continued_from_run_id == started.run_id


@in_room()
async def test_what_comes_in_one_batch_with_the_close_meets_the_next_run(room: Room) -> None:
    """Invariant 41: a signal that is acknowledged is in one of the two histories."""
    node = await room.node(1)
    started = await node.start("order")
    task = await node.workflow_task(room.worker())
    hold = node.holds.hold("commit")
    other = node.start("other")  # keeps the shard busy while a batch collects
    await hold.reached()
    done = node.complete(task, [AGAIN])
    signal = node.signal("order")
    start = node.start("order")
    await turns(5)
    hold.release()
    await other
    await done
    await signal
    refusal = await refused(start)
    run_id, _ = current_of(room, "order")
    assert run_id != started.run_id
    assert refusal.reason == "WORKFLOW_ALREADY_STARTED"
    assert refusal.metadata["run_id"].replace("-", "") == run_id.hex()
    assert "WorkflowExecutionSignaled" in await room.names(run_id)
    assert "WorkflowExecutionSignaled" not in await room.names(started.run_id)


def current_of(room: Room, workflow_id: str) -> tuple[bytes, int]:
    [row] = [row for row in room.tables.current_runs.all() if row.workflow_id == workflow_id]
    return row.run_id, row.status


@in_room()
async def test_a_repeated_start_names_the_run_it_started(room: Room) -> None:
    """Semantics §1: the same answer, with the chain in memory and after a take-over."""
    node = await room.node(1)
    intent = room.start_intent("order")
    started = await node.history.submit(1, intent)
    await node.complete(await node.workflow_task(room.worker()), [AGAIN])
    assert await node.history.submit(1, intent) == started
    assert await (await room.node(1)).history.submit(1, intent) == started


@in_room()
async def test_a_repeated_signal_has_its_effect_once_across_a_take_over(room: Room) -> None:
    """Invariant 42."""
    node = await room.node(1)
    await node.start("order")
    signal = SignalWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="order",
        run_id=b"",
        signal_name="paid",
        request_id=room.ids.new_id(),
        body_hash=BODY,
    )
    await node.history.submit(1, signal)
    await node.complete(await node.workflow_task(room.worker()), [AGAIN])
    new = await room.node(1)
    await new.history.submit(1, signal)
    run_id, _ = current(room)
    assert "WorkflowExecutionSignaled" not in await room.names(run_id)


@in_room()
async def test_a_start_that_terminates_meets_the_run_of_the_chain_that_is_open(room: Room) -> None:
    node = await room.node(1)
    first, second = await followed(room, node)
    third = await node.start("order", id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING)
    assert current(room) == (third.run_id, Status.RUNNING)
    by_run = dict(lists(room))
    assert by_run[first] == Status.CONTINUED_AS_NEW
    assert by_run[second] == Status.TERMINATED


@in_room()
async def test_a_cron_chain_goes_from_time_to_time(room: Room) -> None:
    """Invariant 21: by the database's clock, never before a time of the schedule, and each time once."""
    node = await room.node(1)
    ten_minutes_us = 600_000_000
    await node.start("order", cron_schedule="*/10 * * * *")
    slots: list[int] = []
    results: list[bytes] = []
    for _ in range(3):
        task = await node.workflow_task(room.worker(), timeout_s=900)
        slot, late_us = divmod(room.now_us, ten_minutes_us)
        assert late_us < 1_000_000
        slots.append(slot)
        results.append(task.events[0].last_completion_result)
        await node.complete(task, [cmd.CompleteWorkflow(b"result")])
    assert slots == [slots[0], slots[0] + 1, slots[0] + 2]
    assert results == [b"", b"result", b"result"]
