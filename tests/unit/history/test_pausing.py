"""A run that is paused, in a shard: nothing of it is handed out, whoever owns it, until it is unpaused."""

from __future__ import annotations

from tests.unit.history.room import (
    FINISH,
    Room,
    cmd,
    in_room,
    pass_time,
    refused,
    schedule,
    timer,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.replies import Description, QueryAnswer
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskState


def listed(room: Room) -> int:
    [row] = room.tables.visibility.all()
    [head] = room.tables.executions.all()
    assert head.status == Status.RUNNING, "the head says that it is open"
    return row.status


@in_room()
async def test_nothing_of_a_paused_run_is_handed_out_by_this_owner_or_the_next(room: Room) -> None:
    """Offers that were made before come to nothing; rows of the run are offered by no owner (invariants 13, 24)."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [schedule("a"), timer(5)])
    await node.pause("order", reason="provider is down")
    await node.signal("order", "paid")
    described: Description = await node.describe("order")
    assert described.info.status is Status.PAUSED
    assert (described.pause_identity, described.pause_reason) == ("me", "provider is down")
    assert listed(room) == Status.PAUSED
    await node.nothing(worker, timeout_s=20)  # the timer has fired meanwhile
    assert {row.state for row in room.tasks()} == {TaskState.PAUSED}

    new = await room.node(1)
    await new.nothing(worker, timeout_s=20)
    assert (await new.describe("order")).info.status is Status.PAUSED
    await new.unpause("order")
    assert listed(room) == Status.RUNNING
    task = await new.workflow_task(worker)
    names = [type(event).__name__ for event in task.events]
    assert names.count("WorkflowExecutionSignaled") == names.count("TimerFired") == 1
    await new.complete_activity((await new.activity_task(worker)).token)
    await new.complete(task, [])
    await new.complete(await new.workflow_task(worker), [FINISH])


@in_room()
async def test_what_a_worker_decided_before_the_pause_does_not_count_after_it(room: Room) -> None:
    """Invariant 30: the workflow task that was out is taken back, also for an owner that never handed it out."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(500)])
    await node.signal("order")
    task = await node.workflow_task(worker)
    await node.signal("order", "while it is out")
    await node.pause("order")
    assert (await refused(node.complete(task, [FINISH]))).code is Code.NOT_FOUND
    new = await room.node(1)
    assert (await refused(new.complete(task, [FINISH]))).code is Code.NOT_FOUND
    await new.unpause("order")
    assert (await refused(new.complete(task, [FINISH]))).code is Code.NOT_FOUND
    again = await new.workflow_task(worker)
    assert [type(event).__name__ for event in again.events].count("WorkflowExecutionSignaled") == 2
    await new.complete(again, [FINISH])


@in_room()
async def test_an_activity_that_runs_goes_on_and_its_next_attempt_waits(room: Room) -> None:
    """It is saved as started with the pause: an owner that takes over does not hand it out again (invariant 24)."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [schedule("a"), schedule("b")])
    held = await node.activity_task(worker)
    other = await node.activity_task(worker)
    await node.pause("order")
    new = await room.node(1)
    assert new.beat(worker, held.token, other.token) == [None, None]
    await new.nothing(worker, timeout_s=1)
    await new.complete_activity(held.token)
    new.history.goodbye(worker, [])
    await pass_time(10)
    await new.nothing(room.worker("w2"), timeout_s=5)
    await new.unpause("order")
    again = await new.activity_task(room.worker("w2"))
    assert again.scheduled.activity_id == other.scheduled.activity_id


@in_room()
async def test_queries_of_a_paused_run_see_it_as_its_code_left_it(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(500)])
    await node.pause("order")
    await node.signal("order")
    poll = node.polling(worker, activity=0, timeout_s=20)
    await pass_time(0.1)
    query = node.query("order")
    [task] = (await poll).workflow_tasks
    assert task.token is None
    assert node.history.answer_query(task.queries[0].token, QueryAnswer(b"7", None))
    assert (await query).result == b"7"

    await node.start("fresh")
    await node.pause("fresh")
    poll = node.polling(worker, activity=0, timeout_s=1)
    await pass_time(0.1)
    refusal = await refused(node.query("fresh"))
    assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "WORKFLOW_PAUSED")
    await poll


@in_room()
async def test_a_query_that_waits_for_the_task_goes_its_own_way_when_the_run_is_paused(
    room: Room,
) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(500)])
    await node.signal("order")
    task = await node.workflow_task(worker)
    poll = node.polling(worker, activity=0, timeout_s=20)
    await pass_time(0.1)
    query = node.query("order")
    await node.pause("order")
    [alone] = (await poll).workflow_tasks
    assert alone.token is None
    assert task.token is not None
    assert node.history.answer_query(alone.queries[0].token, QueryAnswer(b"7", None))
    assert (await query).result == b"7"


@in_room()
async def test_terminate_cancel_and_the_run_timeout_need_no_unpause(room: Room) -> None:
    node = await room.node(1)
    for name, options in (("cancel", {}), ("terminate", {}), ("late", {"run_timeout_ms": 5_000})):
        await node.start(name, **options)
        task = await node.workflow_task(room.worker())
        await node.complete(task, [timer(500)])
        await node.pause(name)
    result = node.result("late")
    await node.terminate("terminate")
    assert (await node.describe("terminate")).info.status is Status.TERMINATED
    assert (await result).status is Status.TIMED_OUT
    await node.reset("cancel")
    assert (await node.describe("cancel")).info.status is Status.RUNNING, (
        "a reset run is not paused"
    )


@in_room()
async def test_a_pause_says_once_what_it_did_and_refuses_a_second_one(room: Room) -> None:
    node = await room.node(1)
    await node.at("order", room.worker(), [cmd.StartTimer("t", 500_000)])
    request_id = room.ids.new_id()
    await node.pause("order", request_id=request_id)
    await node.pause("order", request_id=request_id)
    assert (await refused(node.pause("order"))).reason == "WORKFLOW_PAUSED"
    await node.unpause("order")
    await node.pause("order", request_id=request_id)
    assert (await node.describe("order")).info.status is Status.RUNNING, "it was answered before"
    assert (await refused(node.unpause("order"))).reason == "WORKFLOW_NOT_PAUSED"
    assert (await refused(node.pause("nobody"))).code is Code.NOT_FOUND
