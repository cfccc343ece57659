"""When a test's clock may jump: nothing goes on that a jump would hurt or overtake."""

from __future__ import annotations

from tests.unit.history.room import (
    FINISH,
    Node,
    Room,
    ev,
    in_room,
    outcomes,
    pass_time,
    schedule,
    timer,
    turns,
)

from perdure_engine.history.stillness import Stillness, stillness
from perdure_engine.store.memory import Moment

HOUR_S = 3600
CENTURIES_S = 1e10  # every timer is in memory, as in a test environment
FORGOTTEN_S = 61  # a worker that took something counts as polling for a minute


def found(node: Node) -> Stillness:
    return stillness(node.history.shards())


def jump(room: Room, node: Node, seconds: float) -> None:
    """What the test environment does."""
    room.database_clock.jump(seconds)
    node.rooms.database_clock.sample(room.now_us)
    for shard in node.history.shards():
        shard.timers.time_jumped()


@in_room()
async def test_a_run_that_waits_for_a_timer_is_still(room: Room) -> None:
    node = await room.node(1, 2)
    await turns()
    assert found(node) is Stillness.STILL

    await node.at("order", room.worker(), [timer(HOUR_S)])
    await turns()

    assert found(node) is Stillness.STILL


@in_room()
async def test_a_task_that_is_out_is_work_whatever_its_kind(room: Room) -> None:
    """Invariant of the timeouts: they count time in which the worker could work."""
    node = await room.node(1)
    await node.start("order")
    task = await node.workflow_task(room.worker())
    assert found(node) is Stillness.WORKING

    await node.complete(task, [schedule()])
    activity = await node.activity_task(room.worker())
    assert found(node) is Stillness.WORKING

    await node.complete_activity(activity.token)
    await node.complete(await node.workflow_task(room.worker()), [FINISH])
    await turns()
    assert found(node) is Stillness.STILL


@in_room()
async def test_ready_work_moves_while_somebody_polls_for_it_and_else_is_unattended(
    room: Room,
) -> None:
    node = await room.node(1, 2)
    await node.start("order")
    await node.start("other", shard_id=2)
    await turns()
    assert found(node) is Stillness.UNATTENDED

    worker = room.worker()
    await node.workflow_task(worker)  # one of the two; it polls again before long
    assert found(node) is Stillness.MOVING


@in_room()
async def test_an_unattended_task_does_not_hide_that_another_is_out(room: Room) -> None:
    node = await room.node(1, 2)
    await node.at_activity("order", room.worker(), task_queue="nobody-polls")
    await node.start("other", shard_id=2)
    await node.workflow_task(room.worker())

    assert found(node) is Stillness.WORKING


@in_room()
async def test_it_moves_from_the_intake_of_a_call_to_the_end_of_its_commit(room: Room) -> None:
    node = await room.node(1)
    await node.at("order", room.worker(), [timer(HOUR_S)])
    hold = node.holds.hold("commit", Moment.AFTER)

    signal = node.signal("order")
    assert found(node) is Stillness.MOVING, "in the inbox"
    await hold.reached()
    assert found(node) is Stillness.MOVING, "in flight"
    hold.release()
    await signal

    await pass_time(FORGOTTEN_S)
    assert found(node) is Stillness.UNATTENDED


@in_room()
async def test_it_moves_while_a_run_is_loaded(room: Room) -> None:
    node = await room.node(1)
    hold = node.holds.hold("load_current_runs")
    described = node.describe("nobody")
    await hold.reached()

    assert found(node) is Stillness.MOVING

    hold.release()
    await turns()
    assert described.exception() is not None
    assert found(node) is Stillness.STILL


@in_room(window_s=CENTURIES_S)
async def test_time_that_jumped_moves_until_what_was_due_is_saved(room: Room) -> None:
    """Invariant 21, 22: the timer fires once, at its time, without waiting for a clock of our own."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(HOUR_S)])
    due_us = room.timers()[0].due_us
    await pass_time(FORGOTTEN_S)
    hold = node.holds.hold("commit")

    jump(room, node, HOUR_S - 1 - FORGOTTEN_S)
    await turns()
    assert found(node) is Stillness.STILL, "not due yet"
    jump(room, node, 1)
    assert found(node) is Stillness.MOVING
    await hold.reached()
    assert found(node) is Stillness.MOVING
    hold.release()
    await turns(20)

    assert found(node) is Stillness.UNATTENDED
    history = await room.history(run_id)
    assert outcomes(history, ev.TimerFired) == 1
    [fired] = [event for event in history if isinstance(event, ev.TimerFired)]
    assert fired.time_us >= due_us
    assert room.now_us - due_us < 1_000_000, "no time of ours has passed"


@in_room(window_s=CENTURIES_S)
async def test_a_jump_that_the_shard_is_not_told_of_still_counts_as_moving(room: Room) -> None:
    node = await room.node(1)
    await node.at("order", room.worker(), [timer(HOUR_S)])
    await turns()
    room.database_clock.jump(HOUR_S)
    node.rooms.database_clock.sample(room.now_us)

    assert found(node) is Stillness.MOVING
