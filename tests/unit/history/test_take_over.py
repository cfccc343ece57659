"""Take-over with adoption: nothing is executed again that somebody still runs (design §6)."""

import asyncio

from tests.unit.history.room import (
    FINISH,
    ONCE,
    Room,
    beats,
    codes,
    ev,
    held_activity,
    in_room,
    nothing_said,
    outcomes,
    pass_time,
    turns,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.tasks import TaskKind, TaskState
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable

# ---- take-over and adoption


@in_room()
async def test_an_unsaved_start_is_adopted_by_a_heartbeat_within_3_s(room: Room) -> None:
    """Invariants 16, 31, 35: nothing is executed again."""
    old = await room.node(1)
    worker = room.worker()
    run_id, task = await held_activity(room, old, worker)
    assert room.tasks(TaskKind.ACTIVITY)[0].state == TaskState.READY
    new = await room.node(1)
    poll = new.polling(room.worker("w2"), workflow=0, timeout_s=20)
    await pass_time(2)
    new.beat(worker, task.token)
    await beats(new, worker, 16, task.token)
    nothing_said(poll)
    await new.complete_activity(task.token)
    assert not (await poll).activity_tasks
    assert outcomes(await room.history(run_id), ev.ActivityTaskCompleted) == 1


@in_room()
async def test_an_unsaved_start_that_nobody_claims_is_handed_out_after_3_s_uncounted(
    room: Room,
) -> None:
    """Invariants 13, 31, 35."""
    old = await room.node(1)
    _, task = await held_activity(room, old, room.worker())
    new = await room.node(1)
    await new.nothing(room.worker("w2"), timeout_s=2.9)
    again = await new.activity_task(room.worker("w2"), timeout_s=1)
    assert again.attempt == 1
    assert again.token.start_no > task.token.start_no
    assert await codes(new.complete_activity(task.token)) == [Code.NOT_FOUND]


@in_room()
async def test_a_saved_start_is_kept_for_10_s_and_then_handed_out_uncounted(room: Room) -> None:
    """Invariants 13, 31, 35."""
    old = await room.node(1)
    _, task = await held_activity(room, old, room.worker())
    await pass_time(2)
    assert room.tasks(TaskKind.ACTIVITY)[0].state == TaskState.STARTED
    new = await room.node(1)
    await new.nothing(room.worker("w2"), timeout_s=9.5)
    again = await new.activity_task(room.worker("w2"), timeout_s=2)
    assert again.attempt == 1
    assert again.token.start_no > task.token.start_no


@in_room()
async def test_a_saved_start_is_adopted_by_a_heartbeat_within_10_s(room: Room) -> None:
    """Invariants 16, 35."""
    old = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, old, worker)
    await pass_time(2)
    new = await room.node(1)
    poll = new.polling(room.worker("w2"), workflow=0, timeout_s=30)
    await pass_time(6)
    await beats(new, worker, 20, task.token)
    nothing_said(poll)
    await new.complete_activity(task.token)
    await poll


@in_room()
async def test_a_completion_with_a_valid_token_adopts_too(room: Room) -> None:
    """Invariants 10, 16, 30: saved or not, an activity or a workflow task; and only once."""
    for saved in (False, True):
        old = await room.node(1)
        worker = room.worker()
        run_id, task = await held_activity(room, old, worker, f"a{saved}")
        await old.start(f"w{saved}")
        workflow_task = await old.workflow_task(worker)
        if saved:
            await pass_time(2)
        new = await room.node(1)
        await new.complete_activity(task.token)
        await new.complete(workflow_task, [FINISH])
        assert (
            await codes(new.complete_activity(task.token), new.complete(workflow_task, [FINISH]))
            == [Code.NOT_FOUND] * 2
        )
        assert outcomes(await room.history(run_id), ev.ActivityTaskCompleted) == 1


@in_room()
async def test_a_workflow_task_is_adopted_only_for_the_history_it_was_handed_out_for(
    room: Room,
) -> None:
    """Invariants 1, 16, 18: the new owner has numbered a signal meanwhile."""
    old = await room.node(1)
    await old.start("order")
    task = await old.workflow_task(room.worker())
    new = await room.node(1)
    await new.signal("order")
    assert await codes(new.complete(task, [FINISH])) == [Code.NOT_FOUND]
    assert task.token is not None
    assert new.beat(room.worker(), task.token)[0].lost
    second = await new.workflow_task(room.worker("w2"), timeout_s=5)
    await new.complete(second, [FINISH])


@in_room()
async def test_an_older_start_or_another_attempt_adopts_nothing(room: Room) -> None:
    """Invariants 16, 30."""
    old = await room.node(1)
    worker = room.worker()
    _, first = await held_activity(room, old, worker)
    await pass_time(11)
    second = await old.activity_task(room.worker("w2"), timeout_s=2)
    await pass_time(2)  # the second start is saved
    new = await room.node(1)
    await new.describe("order")
    assert new.beat(worker, first.token)[0].lost
    assert await codes(new.complete_activity(first.token)) == [Code.NOT_FOUND]
    await new.complete_activity(second.token)


@in_room()
async def test_an_orphan_whose_adoption_met_a_failing_read_is_not_forgotten(room: Room) -> None:
    """Invariant 13: one heartbeat, a read that failed, and the worker is never heard of again."""
    old = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, old, worker)
    await pass_time(2)
    new = await room.node(1)
    await pass_time(1)
    new.faults.fail_next("load_run", StoreUnavailable("away"))
    new.beat(worker, task.token)
    await pass_time(12)
    again = await new.activity_task(room.worker("w2"), timeout_s=15)
    assert again.attempt == 1


@in_room()
async def test_a_task_adopted_before_the_scan_saw_it_is_not_taken_away(room: Room) -> None:
    """Invariants 16, 31: the scan's read is slow, the heartbeat was faster."""
    old = await room.node(1)
    worker = room.worker()
    run_id, task = await held_activity(room, old, worker, retry_policy=ONCE)
    new = await room.node()
    hold = new.holds.hold("load_tasks")
    await new.take(1)
    await hold.reached()
    await pass_time(1)
    new.beat(worker, task.token)
    await turns(20)
    hold.release()
    await beats(new, worker, 20, task.token)
    assert outcomes(await room.history(run_id), ev.ActivityTaskFailed) == 0
    await new.complete_activity(task.token)


@in_room()
async def test_maximum_attempts_1_survives_a_take_over(room: Room) -> None:
    """Invariants 31, 35: adopted it goes on; unclaimed it is lost, never run again."""
    old = await room.node(1)
    worker = room.worker()
    kept, task = await held_activity(room, old, worker, "kept", retry_policy=ONCE)
    lost, _ = await held_activity(room, old, room.worker("dead"), "lost", retry_policy=ONCE)
    new = await room.node(1)
    await beats(new, worker, 14, task.token)
    await new.complete_activity(task.token)
    assert outcomes(await room.history(kept), ev.ActivityTaskCompleted) == 1
    assert outcomes(await room.history(lost), ev.ActivityTaskFailed) == 1


@in_room()
async def test_an_eviction_keeps_what_is_handed_out(room: Room) -> None:
    """Invariants 16, 31: memory was wrong about something else; the worker goes on."""
    node = await room.node(1)
    worker = room.worker()
    run_id, task = await held_activity(room, node, worker)
    node.faults.fail_next("commit", OutcomeUnknown("?"))
    await node.signal("order")
    await beats(node, worker, 14, task.token)
    await node.complete_activity(task.token)
    assert outcomes(await room.history(run_id), ev.ActivityTaskStarted) == 1


@in_room()
async def test_an_evicted_hand_out_whose_worker_dies_is_handed_out_anew(room: Room) -> None:
    """Invariants 13, 16: its start was never saved, and the reloaded row knows nothing of it."""
    node = await room.node(1)
    await held_activity(room, node, room.worker())
    node.faults.fail_next("commit", OutcomeUnknown("?"))
    await node.signal("order")
    assert (await node.activity_task(room.worker("w2"), timeout_s=20)).attempt == 1


@in_room()
async def test_buffered_signals_are_not_lost_by_a_take_over(room: Room) -> None:
    """Invariants 41, 42: buffered while a task was out whose worker and owner both died."""
    old = await room.node(1)
    started = await old.start("order")
    await old.workflow_task(room.worker())
    await asyncio.gather(*(old.signal("order", f"s{n}") for n in range(3)))
    new = await room.node(1)
    task = await new.workflow_task(room.worker("w2"), timeout_s=20)
    seen = [e.signal_name for e in task.events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert seen == ["s0", "s1", "s2"]
    await new.complete(task, [FINISH])
    assert (await room.names(started.run_id)).count("WorkflowExecutionSignaled") == 3
