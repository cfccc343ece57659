"""Queries: they see every write acknowledged before them, and never write (semantics §6)."""

from tests.unit.history.room import (
    FINISH,
    Room,
    codes,
    ev,
    in_room,
    nothing_said,
    refused,
    schedule,
    timer,
    turns,
    within,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.intents import FailWorkflowTask, QueryRejectCondition
from perdure_engine.core.replies import QueryAnswer

YES = QueryAnswer(b"yes", None)


@in_room()
async def test_a_query_of_an_idle_run_travels_alone(room: Room) -> None:
    """Invariant 45: it writes nothing."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("order", worker, [timer(60)])
    rows = room.rows()
    query = node.query("order")
    task = await node.workflow_task(worker)
    assert task.token is None
    assert [event.event_id for event in task.events] == list(range(1, 6))
    [given] = task.queries
    assert node.history.answer_query(given.token, YES)
    assert await query == YES
    assert not node.history.answer_query(given.token, YES), "answered once"
    assert room.rows() == rows
    assert (await room.names(run_id))[-1] == "TimerStarted"


@in_room()
async def test_invariant_45_the_state_includes_every_write_acknowledged_before(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(60)])
    await node.signal("order", "mine")
    query = node.query("order")
    task = await node.workflow_task(worker)
    assert "mine" in [
        e.signal_name for e in task.events if isinstance(e, ev.WorkflowExecutionSignaled)
    ]
    [given] = task.queries
    node.history.answer_query(given.token, YES)
    await node.complete(task)
    assert await query == YES


@in_room()
async def test_invariant_45_a_query_while_the_task_is_out_waits_for_what_it_makes(
    room: Room,
) -> None:
    """The signal is buffered behind the task that is out: an answer from before it would be stale."""
    node = await room.node(1)
    worker = room.worker()
    await node.start("order")
    out = await node.workflow_task(worker)
    await node.signal("order", "mine")
    query = node.query("order")
    await node.nothing(room.worker("w2"), timeout_s=1)
    await node.complete(out, [timer(60)])
    task = await node.workflow_task(worker)
    assert "mine" in [
        e.signal_name for e in task.events if isinstance(e, ev.WorkflowExecutionSignaled)
    ]
    node.history.answer_query(task.queries[0].token, YES)
    assert await query == YES


@in_room()
async def test_a_query_while_the_task_is_out_and_nothing_follows_travels_alone_after_it(
    room: Room,
) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.start("order")
    out = await node.workflow_task(worker)
    query = node.query("order")
    await node.complete(out, [timer(60)])
    task = await node.workflow_task(worker)
    assert task.token is None
    node.history.answer_query(task.queries[0].token, YES)
    assert await query == YES


@in_room()
async def test_a_query_of_a_closed_run_is_answered(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [FINISH])
    query = node.query("order")
    task = await node.workflow_task(worker)
    node.history.answer_query(task.queries[0].token, YES)
    assert await query == YES


@in_room()
async def test_a_query_is_refused_of_a_run_that_its_caller_does_not_want(room: Room) -> None:
    """Before anything else: nobody need poll for it."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("waits", worker, [timer(60)])
    await node.at("completed", worker, [FINISH])
    await node.start("terminated")
    await node.terminate("terminated")

    async def refused_with(workflow_id: str, condition: QueryRejectCondition) -> str | None:
        query = node.query(workflow_id, reject_condition=condition)
        await turns(20)
        if not query.done():
            task = await node.workflow_task(worker)
            node.history.answer_query(task.queries[0].token, YES)
            assert await query == YES
            return None
        error = await refused(query)
        assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "QUERY_REJECTED")
        return error.metadata["status"]

    never, not_open, not_clean = QueryRejectCondition
    assert [
        [await refused_with(workflow_id, condition) for condition in (never, not_open, not_clean)]
        for workflow_id in ("waits", "completed")
    ] == [[None, None, None], [None, "2", None]]
    assert [await refused_with("terminated", one) for one in (not_open, not_clean)] == ["5", "5"]


@in_room()
async def test_without_pollers_a_query_is_refused(room: Room) -> None:
    node = await room.node(1)
    await node.start("order")
    assert await codes(node.query("order")) == [Code.FAILED_PRECONDITION]


@in_room()
async def test_a_query_of_a_run_whose_task_keeps_failing_is_refused(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.start("order")
    task = await node.workflow_task(worker)
    waiting = node.query("order")
    await turns(20)
    assert task.token is not None
    await node.history.complete(
        FailWorkflowTask(task.token, ev.WorkflowTaskFailedCause.NON_DETERMINISM, None, "w")
    )
    assert await codes(waiting, node.query("order")) == [Code.FAILED_PRECONDITION] * 2


@in_room()
async def test_a_poll_that_was_cancelled_gives_its_query_back(room: Room) -> None:
    """Invariant 17."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(60)])
    query = node.query("order")
    node.history.undo_start(await node.workflow_task(worker))
    task = await node.workflow_task(room.worker("w2"), timeout_s=2)
    node.history.answer_query(task.queries[0].token, YES)
    assert await query == YES


@in_room()
async def test_a_query_carried_by_a_task_whose_worker_died_goes_to_the_next(room: Room) -> None:
    """The lease of the task ends, and the query travels with it again."""
    node = await room.node(1)
    await node.start("order", task_timeout_ms=60_000)
    first = await node.workflow_task(room.worker())
    node.history.undo_start(first)
    query = node.query("order")
    dying = await node.workflow_task(room.worker())
    assert len(dying.queries) == 1
    task = await node.workflow_task(room.worker("w2"), timeout_s=14)
    node.history.answer_query(task.queries[0].token, YES)
    assert await within(query, 1) == YES


@in_room()
async def test_a_query_that_travelled_alone_to_a_worker_that_died_goes_to_the_next(
    room: Room,
) -> None:
    """Nobody holds a lease on it: when the worker is known to be gone, somebody else is asked."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(600)])
    query = node.query("order")
    dying = await node.workflow_task(worker)
    assert dying.token is None
    node.history.poll_broken(worker.worker_id)
    task = await node.workflow_task(room.worker("w2"), timeout_s=25)
    node.history.answer_query(task.queries[0].token, YES)
    assert await within(query, 1) == YES


@in_room()
async def test_a_query_of_a_run_that_leaves_memory_starts_over(room: Room) -> None:
    """Invariant 28: evicted after a failed commit, its query is routed again on reloaded state."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("order", worker, [timer(60), schedule()])
    query = node.query("order")
    await turns(20)
    shard = node.shard()
    shard.evict(shard.runs[run_id])
    shard.work_waits()
    await turns(20)
    nothing_said(query)
    task = await node.workflow_task(worker)
    node.history.answer_query(task.queries[0].token, YES)
    assert await query == YES


@in_room()
async def test_a_query_asked_while_the_nodes_lease_was_in_doubt_is_answered_later(
    room: Room,
) -> None:
    """Invariant 28: nothing is handed out meanwhile, and nothing is forgotten."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(600)])
    node.lease = False
    query = node.query("order")
    await node.nothing(worker, timeout_s=1)
    node.lease = True
    task = await node.workflow_task(worker, timeout_s=8)
    node.history.answer_query(task.queries[0].token, YES)
    assert await query == YES


@in_room()
async def test_a_callers_end_forgets_its_query(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("order", worker, [timer(60)])
    query = node.query("order")
    await turns(20)
    query.cancel()
    await turns()
    assert not node.shard().runs[run_id].queries
    await node.nothing(worker)
