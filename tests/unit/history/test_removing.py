"""Runs that are deleted, on demand or after their retention: whole, once, and never an open one."""

import asyncio
import uuid

from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    Node,
    Room,
    in_room,
    nothing_said,
    pass_time,
    refused,
    schedule,
    timer,
    turns,
    within,
)

from perdure_engine.core import intents
from perdure_engine.core.errors import Code
from perdure_engine.history.removing import RUNS_MAX
from perdure_engine.history.retention import Retention
from perdure_engine.ports.store import (
    Conflict,
    NamespaceRow,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from perdure_engine.store.memory import Moment


def delete(node: Node, workflow_id: str, run_id: bytes = b"") -> asyncio.Future[None]:
    intent = intents.DeleteWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=workflow_id,
        run_id=run_id,
        request_id=uuid.uuid5(uuid.NAMESPACE_OID, workflow_id).bytes,
        body_hash=b"12345678",
    )
    return node.history.submit(1, intent)


def left_of(room: Room, run_id: bytes) -> int:
    """Rows of the run, dead ones left to the sweep included."""
    tables = room.tables
    of_many = (tables.executions, tables.history, tables.inbox, tables.snapshots)
    rows = [
        row for table in (*of_many, tables.visibility, tables.current_runs) for row in table.all()
    ]
    return sum(row.run_id == run_id for row in rows)


def keep_for(room: Room, seconds: int) -> None:
    row = NamespaceRow(NAMESPACE, "room", "", seconds * 1_000, 1)
    room.tables.namespaces[NAMESPACE] = row


def retention(node: Node) -> Retention:
    return Retention(node.rooms, node.store, node.history.shards)


@in_room()
async def test_a_closed_run_goes_and_its_id_is_free(room: Room) -> None:
    node = await room.node(1)
    first = await node.at("order", room.worker(), [FINISH])
    await delete(node, "order")
    assert left_of(room, first) == 0
    assert (await refused(node.describe("order"))).code is Code.NOT_FOUND
    assert (await refused(node.describe("order", run_id=first))).code is Code.NOT_FOUND
    again = await node.start("order", id_reuse_policy=intents.IdReusePolicy.REJECT_DUPLICATE)
    assert again.started
    assert not node.alarms
    reader = await room.node(1)
    assert (await reader.describe("order")).info.run_id == again.run_id


@in_room()
async def test_an_open_run_is_terminated_first_and_nothing_of_it_fires_later(room: Room) -> None:
    """Invariants 8, 14: what was out for it comes too late, and its timers find nothing."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("order", worker, [schedule(), timer(30)])
    task = await node.activity_task(worker)
    waiting = node.result("order")
    await turns(20)
    await delete(node, "order")
    assert (await waiting).status.name == "TERMINATED"
    assert left_of(room, run_id) == 0
    assert (await refused(node.complete_activity(task.token))).code is Code.NOT_FOUND
    await pass_time(120)
    assert left_of(room, run_id) == 0
    assert not room.timers()
    assert not room.tasks()
    assert not node.alarms


@in_room()
async def test_the_caller_hears_of_it_when_the_run_is_gone_and_not_before(room: Room) -> None:
    """Invariant 3."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [FINISH])
    hold = node.holds.hold("remove_runs")
    answer = delete(node, "order")
    await hold.reached()
    await turns(20)
    nothing_said(answer)
    assert left_of(room, run_id)
    hold.release()
    await within(answer, 1)
    assert left_of(room, run_id) == 0


@in_room()
async def test_a_removal_that_fails_is_repeated(room: Room) -> None:
    """Invariant 25: unknown or refused, the run goes once and its neighbour stays."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("stays", worker, [FINISH])
    faults: list[tuple[StoreError, Moment]] = [
        (OutcomeUnknown("?"), Moment.BEFORE),
        (OutcomeUnknown("?"), Moment.AFTER),
        (Conflict("?"), Moment.BEFORE),
        (StoreUnavailable("?"), Moment.BEFORE),
    ]
    for number, (error, moment) in enumerate(faults):
        run_id = await node.at(f"o{number}", worker, [FINISH])
        node.faults.fail_next("remove_runs", error, moment)
        await within(delete(node, f"o{number}"), 5)
        assert left_of(room, run_id) == 0
    assert not node.alarms
    assert (await node.describe("stays")).info.status.name == "COMPLETED"
    await node.start("next")


@in_room()
async def test_invariant_25_a_lost_shard_removes_nothing(room: Room) -> None:
    old = await room.node(1)
    run_id = await old.at("order", room.worker(), [FINISH])
    hold = old.holds.hold("remove_runs")
    answer = delete(old, "order")
    await hold.reached()
    new = await room.node(1)
    hold.release()
    assert (await refused(answer)).code is Code.UNAVAILABLE
    assert left_of(room, run_id)
    await delete(new, "order")
    assert left_of(room, run_id) == 0


@in_room()
async def test_who_waits_hears_of_it_when_the_shard_closes_under_a_removal_that_fails(
    room: Room,
) -> None:
    """A batch operation would wait for ever, and no other node could go on with its part."""
    node = await room.node(1)
    await node.at("order", room.worker(), [FINISH])
    hold = node.holds.hold("remove_runs")
    answer = delete(node, "order")
    await hold.reached()
    node.faults.fail_next("remove_runs", StoreUnavailable("?"))
    node.shard().close()
    hold.release()

    assert (await refused(answer)).code is Code.UNAVAILABLE


@in_room()
async def test_a_start_beside_the_removal_keeps_its_row(room: Room) -> None:
    """Invariant 7: the workflow id's row goes only with the run that it names."""
    node = await room.node(1)
    first = await node.at("order", room.worker(), [FINISH])
    gone, started = delete(node, "order"), node.start("order")
    await gone
    second = await started
    assert left_of(room, first) == 0
    reader = await room.node(1)
    assert (await reader.describe("order")).info.run_id == second.run_id


@in_room()
async def test_what_is_older_than_the_retention_goes_and_the_rest_stays(room: Room) -> None:
    """Never early by the database's clock."""
    node = await room.node(1)
    worker = room.worker()
    keep_for(room, 200)
    old = [await node.at(f"old{number}", worker, [FINISH]) for number in range(3)]
    running = await node.at("running", worker, [timer(10_000)])
    await pass_time(150)
    young = await node.at("young", worker, [FINISH])
    assert await retention(node).run_once() == 0

    await pass_time(60)
    assert await retention(node).run_once() == 3

    assert [left_of(room, run_id) for run_id in old] == [0, 0, 0]
    assert left_of(room, young)
    assert left_of(room, running)
    assert await retention(node).run_once() == 0
    assert not node.alarms


@in_room(seeds=(0,))
async def test_a_shard_that_closes_while_it_is_looked_through_lets_the_pass_go_on(
    room: Room,
) -> None:
    node = await room.node(1)
    keep_for(room, 200)
    run_id = await node.at("old", room.worker(), [FINISH])
    await pass_time(250)
    hold = node.holds.hold("load_closed_runs")
    passing = asyncio.ensure_future(retention(node).run_once())
    await hold.reached()
    node.shard().close()
    hold.release()

    await within(passing, 5)
    assert left_of(room, run_id)


@in_room(seeds=(0,), retention_pass_every_s=50.0)
async def test_passes_come_by_themselves_and_take_many_in_several_statements(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    keep_for(room, 100)
    count = RUNS_MAX + 5
    for number in range(count):
        await node.at(f"o{number}", worker, [FINISH])
    job = retention(node)
    await job.start()
    await pass_time(300)
    assert not room.tables.executions.all()
    assert node.holds.calls.count("remove_runs") == 2
    await job.stop()
    await job.stop()


@in_room()
async def test_a_namespace_that_is_unknown_keeps_its_runs(room: Room) -> None:
    """It may have been made by another node a moment ago: nothing is deleted on a guess."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [FINISH])
    await pass_time(4_000)
    assert await retention(node).run_once() == 0
    assert left_of(room, run_id)
