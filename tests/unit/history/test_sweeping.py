"""Dead rows are deleted, in time and by key; nothing live ever is."""

import asyncio

import pytest
from tests.unit.history.room import (
    FINISH,
    Room,
    in_room,
    pass_time,
    schedule,
    timer,
    turns,
)

from perdure_engine.core.tasks import TaskKind
from perdure_engine.history import sweeping
from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.ports.store import (
    Conflict,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from perdure_engine.store.memory import Moment


def dead(room: Room) -> int:
    tasks = [row for row in room.tables.tasks.all() if row.state == ROW_GONE]
    timers = [row for row in room.tables.timers.all() if row.state == ROW_GONE]
    return len(tasks) + len(timers)


@in_room(sweep_every_s=1.0)
async def test_invariant_14_dead_rows_go_and_live_ones_stay(room: Room) -> None:
    """Invariants 13, 14."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(900), timer(1, "soon"), schedule()])
    await node.start("fresh")
    for number in range(20):
        await node.at(f"o{number}", worker, [schedule(), timer(500), FINISH])
    assert dead(room) > 20
    tasks, timers = room.tasks(TaskKind.ACTIVITY), len(room.timers())
    await pass_time(20)
    assert dead(room) == 0
    assert room.tasks(TaskKind.ACTIVITY) == tasks
    assert len(room.timers()) == timers - 1
    assert not node.alarms


@in_room(sweep_every_s=1.0)
async def test_buffered_events_are_swept_after_the_head_has_passed_them(room: Room) -> None:
    """Invariants 14, 42."""
    node = await room.node(1)
    worker = room.worker()
    started = await node.start("order")
    task = await node.workflow_task(worker)
    await asyncio.gather(*(node.signal("order", f"s{n}") for n in range(4)))
    await node.at("other", room.worker("w2"), [timer(1)])
    await pass_time(4)
    assert len(room.tables.inbox.in_order((1, started.run_id))) == 4, "not consumed yet"
    await node.complete(task, [timer(900)])
    await pass_time(6)
    assert not room.tables.inbox.in_order((1, started.run_id))
    assert not node.alarms
    again = await room.node(1)
    assert (await again.describe("order")).info.history_events == 10


@in_room(sweep_every_s=1.0)
async def test_a_sweep_that_fails_is_repeated(room: Room) -> None:
    """Invariants 14, 25: unknown or refused, nothing live is hurt and nothing dead stays."""
    node = await room.node(1)
    worker = room.worker()
    faults: list[tuple[StoreError, Moment]] = [
        (OutcomeUnknown("?"), Moment.BEFORE),
        (OutcomeUnknown("?"), Moment.AFTER),
        (Conflict("?"), Moment.BEFORE),
        (StoreUnavailable("?"), Moment.BEFORE),
    ]
    for number, (error, moment) in enumerate(faults):
        node.faults.fail_next("sweep", error, moment)
        await node.at(f"o{number}", worker, [schedule(), FINISH])
        await node.start(f"live{number}", task_queue="quiet")
        await pass_time(5)
        assert not [row for row in room.tables.tasks.all() if row.state == ROW_GONE]
    assert len(room.tasks()) == 4
    assert not node.alarms
    await node.signal("live0")


@in_room(sweep_every_s=1.0)
async def test_a_sweep_that_would_hit_a_live_row_deletes_nothing_and_rings(room: Room) -> None:
    """Invariant 14: its own guard (design §3)."""
    node = await room.node(1)
    await node.start("order")
    await node.terminate("order")
    await node.start("third")
    [live] = room.tasks()
    node.shard().sweeping.found(live)
    await pass_time(3)
    assert "sweep_met_a_live_row" in node.alarms
    assert room.tasks() == [live]
    await node.signal("third")


@in_room(sweep_every_s=1.0)
async def test_invariant_25_a_sweep_of_a_lost_shard_deletes_nothing(room: Room) -> None:
    """Invariants 14, 25."""
    old = await room.node(1)
    await old.at("order", room.worker(), [schedule(), FINISH])
    rows = len(room.tables.tasks.all())
    hold = old.holds.hold("sweep")
    await hold.reached()
    await room.node(1)
    hold.release()
    await turns(20)
    assert len(room.tables.tasks.all()) == rows
    assert old.history.owned() == frozenset()


@in_room(sweep_every_s=1.0)
async def test_dead_rows_of_before_a_take_over_are_found_and_swept(room: Room) -> None:
    """Invariant 14."""
    old = await room.node(1)
    await old.at("order", room.worker(), [schedule(), FINISH])
    assert dead(room)
    new = await room.node(1)
    await pass_time(1)
    await new.at("other", room.worker("w2"), [FINISH])
    await pass_time(5)
    assert not [row for row in room.tables.tasks.all() if row.state == ROW_GONE]


def test_a_shard_that_is_never_idle_is_swept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short wait of a full statement was once begun anew with every batch, and never ended."""
    monkeypatch.setattr(sweeping, "KEYS_MAX", 6)

    @in_room()
    async def swept(room: Room) -> None:
        node = await room.node(1)
        worker = room.worker()
        for number in range(40):
            await node.at(f"o{number}", worker, [schedule(), FINISH])
            await pass_time(sweeping.FULL_WAIT_S / 5)
        assert "sweep" in node.holds.calls
        assert dead(room) < 40

    swept()


@in_room(sweep_every_s=3_600.0)
async def test_a_sweep_takes_the_tasks_of_few_queues_the_fullest_first(room: Room) -> None:
    node = await room.node(1)
    sweeps = node.shard().sweeping
    for queue_no in range(6):
        for number in range(queue_no + 1):
            sweeps._add_task(queue_no, 10 * queue_no + number)
    first = sweeps.take(b"b" * 16).task_keys
    assert [queue_no for queue_no, _ in first] == [5] * 6 + [4] * 5 + [3] * 4 + [2] * 3
    second = sweeps.take(b"b" * 16).task_keys
    assert sorted(second) == [(0, 0), (1, 10), (1, 11)]
    assert sweeps.take(b"b" * 16).task_keys == []


def test_what_does_not_fit_into_one_sweep_waits_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "KEYS_MAX", 4)

    @in_room(sweep_every_s=3_600.0)
    async def cut(room: Room) -> None:
        node = await room.node(1)
        sweeps = node.shard().sweeping
        for task_id in range(6):
            sweeps._add_task(7, task_id)
        assert sweeps.take(b"b" * 16).task_keys == [(7, task_id) for task_id in range(4)]
        assert sweeps.take(b"b" * 16).task_keys == [(7, 4), (7, 5)]

    cut()


@in_room(sweep_every_s=3_600.0)
async def test_more_queues_than_fit_into_the_next_sweep_too_come_soon(room: Room) -> None:
    node = await room.node(1)
    sweeps = node.shard().sweeping
    for queue_no in range(2 * sweeping.QUEUES_MAX + 1):
        sweeps._add_task(queue_no, queue_no)
    sweeps._tick()
    await pass_time(1)
    assert node.holds.calls.count("sweep") == 2
