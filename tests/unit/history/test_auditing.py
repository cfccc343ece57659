"""The audit log beside the commits: a row with its action or neither, and one chain whatever fails.

Reliability invariants 3 and 25 for a table more: what was acknowledged is there, and what was not saved
leaves nothing, neither in the database nor in the memory of where the chain ends.
"""

import asyncio

import pytest
from tests.simulation.audit_chains import log_of
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    Room,
    in_room,
    refused,
    schedule,
    turns,
    within,
)
from tests.unit.history.test_removing import delete, left_of

from perdure_engine.core import intents
from perdure_engine.core.audit import entry_of
from perdure_engine.core.errors import Code
from perdure_engine.core.ids import uuid_text
from perdure_engine.ports.store import (
    BatchRefused,
    Conflict,
    GuardFailed,
    OutcomeUnknown,
    StoreError,
)
from perdure_engine.store.memory import Moment


@in_room()
async def test_an_action_is_in_the_log_when_it_is_acknowledged(room: Room) -> None:
    node = await room.node(1)
    await node.start("a")
    await node.start("b")
    assert log_of(room.tables) == []
    await node.terminate("a")
    assert log_of(room.tables) == [("workflow.terminate", "a")]
    await node.terminate("b")
    await delete(node, "a")
    assert log_of(room.tables) == [
        ("workflow.terminate", "a"),
        ("workflow.terminate", "b"),
        ("workflow.delete", "a"),
    ]
    last = entry_of(room.tables.audit.in_order(1)[-1])
    assert (last.before, last.after) == ("TERMINATED", "DELETED")
    assert not node.alarms


@in_room()
async def test_rows_outlive_the_run(room: Room) -> None:
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [FINISH])
    await delete(node, "order")
    assert left_of(room, run_id) == 0
    assert log_of(room.tables) == [("workflow.delete", "order")]


@pytest.mark.parametrize(
    ("error", "moment"),
    [
        (OutcomeUnknown("?"), Moment.BEFORE),
        (OutcomeUnknown("?"), Moment.AFTER),
        (Conflict("?"), Moment.BEFORE),
        (GuardFailed("?"), Moment.BEFORE),
    ],
)
def test_invariant_25_what_fails_or_may_have_failed_leaves_one_chain(
    error: StoreError, moment: Moment
) -> None:
    """A commit whose fate is unknown, a conflict, a guard: one row for the action, and the next goes on behind it."""

    @in_room()
    async def scene(room: Room) -> None:
        node = await room.node(1)
        for name in ("a", "b", "c"):
            await node.start(name)
        await node.terminate("a")
        node.faults.fail_next("commit", error, moment)
        await within(node.terminate("b"), 10)
        await node.terminate("c")
        expected = [("workflow.terminate", name) for name in ("a", "b", "c")]
        assert log_of(room.tables) == expected

    scene()


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_invariant_25_a_removal_that_may_have_landed_is_in_the_log_once(moment: Moment) -> None:
    """It adds to the chain, so its fate is found out before anything else is written for the shard."""

    @in_room()
    async def scene(room: Room) -> None:
        node = await room.node(1)
        worker = room.worker()
        for name in ("a", "b"):
            await node.at(name, worker, [FINISH])
        await node.start("c")
        node.faults.fail_next("remove_runs", OutcomeUnknown("?"), moment)
        gone = delete(node, "a")
        terminated = node.terminate("c")
        await within(asyncio.gather(gone, terminated), 10)
        await delete(node, "b")
        assert sorted(log_of(room.tables)) == [
            ("workflow.delete", "a"),
            ("workflow.delete", "b"),
            ("workflow.terminate", "c"),
        ]
        assert not node.alarms

    scene()


@in_room()
async def test_an_action_that_is_refused_by_the_database_leaves_no_row(room: Room) -> None:
    node = await room.node(1)
    await node.start("a")
    await node.start("b")
    node.faults.fail_next("commit", BatchRefused("22021", "?"), Moment.BEFORE)
    assert (await refused(node.terminate("a"))).code is Code.INTERNAL
    assert log_of(room.tables) == []
    await node.terminate("b")
    assert log_of(room.tables) == [("workflow.terminate", "b")]


@in_room()
async def test_the_next_owner_goes_on_behind_the_last_row(room: Room) -> None:
    """Invariant 7: of an old owner that does not know, nothing is saved any more."""
    old = await room.node(1)
    for name in ("a", "b", "c"):
        await old.start(name)
    await old.terminate("a")
    hold = old.holds.hold("commit")
    late = old.terminate("b")
    await hold.reached()
    new = await room.node(1)
    await new.terminate("c")
    hold.release()
    assert (await refused(late)).code is Code.UNAVAILABLE
    await turns(20)
    assert log_of(room.tables) == [("workflow.terminate", "a"), ("workflow.terminate", "c")]
    assert not new.alarms


@in_room()
async def test_actions_of_one_batch_follow_each_other(room: Room) -> None:
    node = await room.node(1)
    names = [f"o{number}" for number in range(5)]
    for name in names:
        await node.start(name)
    await asyncio.gather(*(node.terminate(name) for name in names))
    assert sorted(log_of(room.tables)) == [("workflow.terminate", name) for name in names]


@in_room()
async def test_steps_without_actions_write_no_rows(room: Room) -> None:
    """What pays for the log are the actions alone."""
    node = await room.node(1)
    worker = room.worker()
    await node.at_activity("order", worker)
    task = await node.activity_task(worker)
    await node.complete_activity(task.token)
    await node.complete(await node.workflow_task(worker), [FINISH])
    assert not room.tables.audit.all()


@in_room()
async def test_a_paused_activity_is_in_the_log(room: Room) -> None:
    node = await room.node(1)
    await node.at("order", room.worker(), [schedule()])
    (activity,) = (await node.describe("order")).activities
    pause = intents.PauseActivity(
        namespace_id=NAMESPACE,
        workflow_id="order",
        run_id=b"",
        activity_id=activity.activity_id,
        activity_type="",
        identity="op",
    )
    await node.history.submit(1, pause)
    assert log_of(room.tables) == [("activity.pause", "order")]


@in_room()
async def test_a_reset_is_in_the_log_once_and_names_both_runs(room: Room) -> None:
    node = await room.node(1)
    base = await node.at("order", room.worker(), [FINISH])
    request = room.ids.new_id()
    new = await node.reset("order", request_id=request)
    await node.reset("order", request_id=request)
    assert log_of(room.tables) == [("workflow.reset", "order")]
    (row,) = room.tables.audit.in_order(1)
    entry = entry_of(row)
    assert (entry.run_id, entry.subject) == (base, uuid_text(new.run_id))
    assert (entry.before, entry.after) == ("COMPLETED", "reset to event 4")
