"""Activities that no lease watches, and those that an operator holds back: across leases and take-overs."""

import asyncio
from typing import Any

from tests.unit.history.room import (
    NAMESPACE,
    Node,
    Room,
    beats,
    codes,
    ev,
    held_activity,
    in_room,
    intents,
    outcomes,
    pass_time,
    turns,
)

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.tasks import TaskKind, TaskState
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.stillness import Stillness, stillness
from perdure_engine.ports.history import HeldTask
from perdure_engine.ports.store import OutcomeUnknown
from perdure_engine.store.memory import Moment


async def hand_over(node: Node, token: TaskToken) -> None:
    await node.history.complete(intents.HandOverActivity(token, b"", "w"))


async def operate(node: Node, kind: Any, **options: Any) -> None:
    intent = kind(
        namespace_id=NAMESPACE,
        workflow_id="order",
        run_id=b"",
        activity_id="",
        activity_type="charge",
        **options,
    )
    await node.history.submit(1, intent)


def state_of_activity(room: Room) -> int:
    [row] = room.tasks(TaskKind.ACTIVITY)
    return row.state


@in_room()
async def test_inv16_no_end_of_a_lease_puts_a_handed_over_attempt_back(room: Room) -> None:
    """Invariants 16, 30: neither silence, nor a heartbeat that does not list it, nor a goodbye, nor a
    take-over: its worker does not hold it any more."""
    old = await room.node(1)
    worker = room.worker()
    run_id, task = await held_activity(room, old, worker, start_to_close_timeout_ms=600_000)
    await hand_over(old, task.token)
    [verdict] = old.beat(worker, task.token)  # listed once more: the answer was under way
    assert verdict.lost
    await beats(old, worker, 10)
    old.history.goodbye(worker, [task.token])
    await old.nothing(room.worker("w2"), timeout_s=room.config.lease_s + 1)
    assert state_of_activity(room) == TaskState.ASYNC

    new = await room.node(1)
    await new.nothing(room.worker("w2"), timeout_s=60)
    await new.complete_activity(task.token)
    assert outcomes(await room.history(run_id), ev.ActivityTaskCompleted) == 1
    assert await codes(new.complete_activity(task.token)) == [Code.NOT_FOUND]


@in_room()
async def test_inv10_a_hand_over_whose_commit_was_unknown_and_landed_is_not_put_back(
    room: Room,
) -> None:
    """Invariants 10, 16: the memory that is loaded again has the attempt as the database has it."""
    node = await room.node(1)
    _, task = await held_activity(room, node, room.worker(), start_to_close_timeout_ms=600_000)
    node.faults.fail_next("commit", OutcomeUnknown("reply lost"), Moment.AFTER)
    await hand_over(node, task.token)
    await node.nothing(room.worker("w2"), timeout_s=room.config.lease_s + 5)
    assert state_of_activity(room) == TaskState.ASYNC
    await node.complete_activity(task.token)


@in_room()
async def test_inv24_a_new_owner_times_a_handed_over_attempt_out(room: Room) -> None:
    """Invariants 24, 34: by a timer row, once."""
    old = await room.node(1)
    _, task = await held_activity(room, old, room.worker(), start_to_close_timeout_ms=20_000)
    await hand_over(old, task.token)
    new = await room.node(1)
    await new.nothing(room.worker("w2"), timeout_s=18)
    again = await new.activity_task(room.worker("w2"), timeout_s=5)
    assert again.attempt == 2
    assert await codes(new.complete_activity(task.token)) == [Code.NOT_FOUND]


@in_room()
async def test_heartbeats_of_the_outside_keep_it(room: Room) -> None:
    node = await room.node(1)
    _, task = await held_activity(
        room, node, room.worker(), start_to_close_timeout_ms=600_000, heartbeat_timeout_ms=10_000
    )
    await hand_over(node, task.token)
    for _ in range(5):
        await pass_time(8)
        await node.history.complete(intents.HeartbeatActivity(task.token, b"on"))
    assert state_of_activity(room) == TaskState.ASYNC
    again = await node.activity_task(room.worker("w2"), timeout_s=13)
    assert (again.attempt, again.progress) == (2, b"on")


# ---- pause


@in_room()
async def test_a_paused_activity_is_handed_to_nobody_also_after_a_take_over(room: Room) -> None:
    """Invariants 13, 16: a worker that dies with it does not bring it back either."""
    old = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, old, worker)
    await operate(old, intents.PauseActivity)
    [verdict] = old.beat(worker, task.token)
    assert (verdict.paused, verdict.lost, verdict.cancel_requested) == (True, False, False)
    new = await room.node(1)
    await new.nothing(room.worker("w2"), timeout_s=30)
    assert state_of_activity(room) == TaskState.PAUSED

    await operate(new, intents.UnpauseActivity)
    again = await new.activity_task(room.worker("w2"), timeout_s=1)
    assert again.attempt == 1
    await new.complete_activity(again.token)


@in_room()
async def test_an_activity_that_waits_for_a_worker_is_taken_back(room: Room) -> None:
    node = await room.node(1)
    await node.at_activity("order", room.worker())
    await operate(node, intents.PauseActivity)
    await node.nothing(room.worker("w2"), timeout_s=20)
    await operate(node, intents.UnpauseActivity)
    await node.activity_task(room.worker("w2"), timeout_s=1)


# ---- options


@in_room()
async def test_the_next_attempt_has_the_other_options(room: Room) -> None:
    node = await room.node(1)
    await node.at_activity("order", room.worker())
    await operate(node, intents.UpdateActivityOptions, start_to_close_timeout_ms=77_000)
    task = await node.activity_task(room.worker("w2"), timeout_s=1)
    assert task.scheduled.start_to_close_timeout_ms == 77_000
    assert task.token.deadline_us == task.started_us + 77_000_000


# ---- progress


@in_room()
async def test_invariant_33_a_late_heartbeat_does_not_replace_a_checkpoint(room: Room) -> None:
    """B39: it was sent before, and is older."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker, start_to_close_timeout_ms=100_000)
    await node.history.complete(intents.HeartbeatActivity(task.token, b"second", 2))
    for _ in range(20):
        await pass_time(2)
        assert node.history.heartbeat(worker, [HeldTask(task.token, b"first", 1)]) == [None]
    saved = room.codec.decode_task(room.tasks(TaskKind.ACTIVITY)[0])
    assert (saved.progress, saved.progress_version) == (b"second", 2)
    again = await node.activity_task(room.worker("w2"), timeout_s=120)
    assert (again.attempt, again.progress, again.progress_version) == (1, b"second", 2)


@in_room()
async def test_time_does_not_jump_over_an_outcome_that_is_to_come(room: Room) -> None:
    node = await room.node(1)
    _, task = await held_activity(room, node, room.worker(), start_to_close_timeout_ms=600_000)
    await hand_over(node, task.token)
    await turns()
    assert stillness(node.history.shards()) is Stillness.WORKING


@in_room(seeds=[0])
async def test_b40_who_says_too_much_is_told_to_come_back(room: Room) -> None:
    """Progress of 2 MiB again and again: the shard's memory has an end, and its other work goes on."""
    node = await room.node(1)
    _, task = await held_activity(room, node, room.worker(), start_to_close_timeout_ms=600_000)
    hold = node.holds.hold("commit")
    details = bytes(2 * 1024 * 1024)
    beats_sent = [
        node.history.complete(intents.HeartbeatActivity(task.token, details)) for _ in range(60)
    ]
    hold.release()
    answers = await asyncio.gather(*beats_sent, return_exceptions=True)
    refused = [one.code for one in answers if isinstance(one, Rejected)]
    assert set(refused) == {Code.RESOURCE_EXHAUSTED}
    assert len(refused) < len(beats_sent)
    await node.complete_activity(task.token)
