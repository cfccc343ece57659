"""No worker of the surgical pool asks for what is poisoned: it is suspended at 24 hours all the same (invariant 39)."""

from __future__ import annotations

from tests.unit.history.room import FINISH, Node, Room, in_room, pass_time
from tests.unit.history.test_crashes import (
    MINUTE_US,
    dead_code,
    poisoned,
    resume,
    saved,
    surgeon,
)
from tests.unit.history.test_stillness import CENTURIES_S, jump

from perdure_engine.core.poison import SUSPENDED_AFTER_US
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskKind, TaskState, TimerKind


async def ready(room: Room, node: Node, kind: TaskKind) -> None:
    """Of the run "order": poisoned, a minute ago."""
    if kind is TaskKind.ACTIVITY:
        await poisoned(room, node)
    else:
        await node.start("order")
        await dead_code(room, node, 3)
    jump(room, node, 61)
    await pass_time(0.5)
    assert saved(room, kind).state is TaskState.READY
    [row] = room.timers()
    assert row.kind == TimerKind.SUSPENSION


def left_s(room: Room, kind: TaskKind) -> float:
    """Until it has crashed for 24 hours."""
    crashes = saved(room, kind).crashes
    assert crashes is not None
    return (crashes.first_us + SUSPENDED_AFTER_US - room.now_us) / 1_000_000


def suspensions(room: Room) -> list[str]:
    actions = [row.action for row in room.tables.audit.in_order(1)]
    return [action for action in actions if action == "workflow.suspend"]


async def nobody_asks(room: Room, kind: TaskKind) -> None:
    """Not early, once, over a take-over; and to resume it gives 24 hours anew."""
    node = await room.node(1)
    await ready(room, node, kind)
    jump(room, node, left_s(room, kind) - 5)
    node = await room.node(1)
    await pass_time(2)
    assert (saved(room, kind).state, suspensions(room)) == (TaskState.READY, [])
    await pass_time(10)

    assert saved(room, kind).state is TaskState.PAUSED
    assert room.timers() == []
    jump(room, node, 48 * 3_600)
    await pass_time(10)
    assert len(suspensions(room)) == 1
    described = await node.describe("order")
    assert (described.info.status, described.suspended) == (Status.PAUSED, True)
    name = "activity" if kind is TaskKind.ACTIVITY else "workflow"
    assert node.rooms.metrics.tasks_suspended.value(name) == 1
    assert node.rooms.metrics.timer_early.value() == 0
    await node.nothing(surgeon(room))

    await resume(node, "order")
    [row] = room.timers()
    assert row.kind == TimerKind.SUSPENSION
    assert 0 <= SUSPENDED_AFTER_US - (row.due_us - room.now_us) < MINUTE_US
    jump(room, node, 24 * 3_600 + 1)
    await pass_time(1)
    assert len(suspensions(room)) == 2


@in_room(window_s=CENTURIES_S)
async def test_invariant_39_an_activity_that_nobody_asks_for_is_suspended_once(room: Room) -> None:
    await nobody_asks(room, TaskKind.ACTIVITY)


@in_room(window_s=CENTURIES_S)
async def test_invariant_39_code_that_nobody_asks_for_is_suspended_once(room: Room) -> None:
    await nobody_asks(room, TaskKind.WORKFLOW)


@in_room(window_s=CENTURIES_S)
async def test_invariant_39_what_is_started_at_the_last_second_and_completes_is_not(
    room: Room,
) -> None:
    node = await room.node(1)
    await ready(room, node, TaskKind.ACTIVITY)
    jump(room, node, left_s(room, TaskKind.ACTIVITY) - 1)
    handed = await node.activity_task(surgeon(room))
    assert room.now_us < handed.started_us + 1_000_000
    await pass_time(2)
    assert room.timers() == []
    await node.complete_activity(handed.token)
    task = await node.workflow_task(room.worker("w2"))
    await node.complete(task, [FINISH])
    assert (await node.describe("order")).info.status is Status.COMPLETED

    await node.start("code")
    await dead_code(room, node, 3)
    jump(room, node, 61)
    await pass_time(0.5)
    jump(room, node, left_s(room, TaskKind.WORKFLOW) - 1)
    task = await node.workflow_task(surgeon(room))
    await pass_time(2)
    await node.complete(task, [FINISH])
    assert (await node.describe("code")).info.status is Status.COMPLETED
    assert suspensions(room) == []


@in_room(window_s=CENTURIES_S)
async def test_invariant_39_a_start_that_its_engine_has_not_saved_does_not_outlive_it(
    room: Room,
) -> None:
    """The timer fires within the second in which a start is not saved, and the engine dies: the next one knows of it,
    and suspends the run when nobody claims the task."""
    node = await room.node(1)
    await ready(room, node, TaskKind.ACTIVITY)
    jump(room, node, left_s(room, TaskKind.ACTIVITY) - 0.3)
    await node.activity_task(surgeon(room))
    await pass_time(0.5)
    assert (saved(room).state, room.timers()) == (TaskState.STARTED, [])
    await room.node(1)
    await pass_time(30)

    assert saved(room).state is TaskState.PAUSED
    assert len(suspensions(room)) == 1
