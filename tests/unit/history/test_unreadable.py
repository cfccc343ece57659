"""A history that cannot be read when a task or a query is handed out."""

from __future__ import annotations

import pytest
from tests.unit.history.room import FINISH, Node, Room, in_room, pass_time, refused, within
from tests.unit.history.test_removing import delete

from perdure_engine.core.errors import Code
from perdure_engine.core.replies import QueryAnswer
from perdure_engine.history import run as run_module
from perdure_engine.ports.store import StoreUnavailable
from perdure_engine.store.memory import Moment

YES = QueryAnswer(b"yes", None)


@pytest.fixture(autouse=True)
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "EVENTS_KEPT_MAX", 3)


async def long_gone(node: Node, room: Room, workflow_id: str) -> bytes:
    """An open run whose first events are not in memory."""
    worker = room.worker()
    run_id = await node.at(workflow_id, worker, [])
    for _ in range(3):
        await node.signal(workflow_id)
        await node.complete(await node.workflow_task(worker, timeout_s=5), [])
    assert node.shard().runs[run_id].events_past(0) is None
    return run_id


@in_room()
async def test_f32_a_history_that_is_damaged_sets_its_run_aside_and_stops_nobody(
    room: Room,
) -> None:
    """Found when a query or a workflow task is handed out: it is told, and not tried again and again."""
    for asks in ("query", "signal"):
        node = await room.node(1)
        run_id = await long_gone(node, room, asks)
        room.tables.history.delete(room.tables.history.in_order((1, run_id))[1])
        reads = node.holds.calls.count("load_history")
        poll = node.polling(room.worker("w2"), workflow=1, activity=0, timeout_s=30)
        asked = node.query(asks) if asks == "query" else node.signal(asks)
        if asks == "query":
            assert (await refused(within(asked, 5))).code is Code.DATA_LOSS
        await pass_time(20)
        assert node.holds.calls.count("load_history") == reads + 1
        assert (await refused(node.describe(asks))).code is Code.DATA_LOSS
        assert node.alarms == ["run_quarantined"]
        await node.start(f"good-{asks}")
        [task] = (await poll).workflow_tasks
        assert task.workflow_id == f"good-{asks}"
        await node.complete(task, [FINISH])


@in_room()
async def test_a_history_that_is_not_read_now_is_read_soon_and_not_as_fast_as_can_be(
    room: Room,
) -> None:
    node = await room.node(1)
    await long_gone(node, room, "order")
    for _ in range(3):
        node.faults.fail_next("load_history", StoreUnavailable("?"))
    reads = node.holds.calls.count("load_history")
    poll = node.polling(room.worker("w2"), workflow=1, activity=0, timeout_s=30)
    asked = node.query("order")
    await pass_time(1.5)
    assert node.holds.calls.count("load_history") <= reads + 2
    [task] = (await poll).workflow_tasks
    assert node.history.answer_query(task.queries[0].token, YES)
    assert await asked == YES
    assert node.holds.calls.count("load_history") >= reads + 4


@in_room()
async def test_a_run_that_is_being_deleted_is_not_damaged(room: Room) -> None:
    """Its rows go while a query has its history read."""
    node = await room.node(1)
    await long_gone(node, room, "order")
    await node.terminate("order")
    reading = node.holds.hold("load_history")
    removing = node.holds.hold("remove_runs", Moment.AFTER)
    poll = node.polling(room.worker("w2"), workflow=1, activity=0, timeout_s=5)
    asked = node.query("order")
    await reading.reached()
    deleted = delete(node, "order")
    await removing.reached()
    reading.release()
    await pass_time(0.1)
    removing.release()
    await deleted
    assert (await refused(within(asked, 5))).code is Code.NOT_FOUND
    assert (await poll).workflow_tasks == []
    assert node.alarms == []
