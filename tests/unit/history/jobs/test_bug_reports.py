"""Faults that other schedulers had, by their number in cases/bug_reports.md: what becomes of jobs here."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from unittest.mock import patch

import pytest
from tests.simulation.world import VirtualClock
from tests.unit.history import room as history_room
from tests.unit.history.jobs.work import (
    Concurrency,
    JobStatus,
    Unique,
    complete,
    create,
    create_named,
    describe,
    names,
    new_job,
    poll,
    poll_one,
    row_of,
    status,
)
from tests.unit.history.room import Node, Room, beats, in_room, pass_time, refused, within

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.history.jobs.queues import CREDIT
from perdure_engine.ports.history import HandedJobTask, WorkerRef
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

S = 1_000_000
LEASE_S = 10
AWAY = StoreUnavailable("the database was started again")


def incarnation(name: str, number: int) -> WorkerRef:
    """A worker process of that identity: each start of it is another one."""
    return WorkerRef(f"{name}-{number}".encode().ljust(16, b"."), name, "")


async def all_of(node: Node, worker: WorkerRef, many: int) -> list[HandedJobTask]:
    """Poll until so many jobs have come, or none does for a while."""
    found: list[HandedJobTask] = []
    while len(found) < many and (tasks := await poll(node, worker, timeout_s=5)):
        found += tasks
    return found


@in_room()
async def test_case_34_an_old_list_of_what_to_recover_executes_nothing(room: Room) -> None:
    """Its owner stops between the list and the claim; the claim matches no row, so the job is handed out once."""
    node = await room.node(1)
    await create_named(node, "a")
    await poll_one(node, incarnation("dead", 1))
    await pass_time(1.6)
    hold = node.holds.hold("commit")
    # the worker is dead: the job is put back, in a statement that does not leave
    await pass_time(9)
    assert hold.waiting == 1
    taker = await room.node(1)
    [task] = await poll(taker, room.worker("w2"), timeout_s=LEASE_S + 1)
    hold.release()

    assert await poll(node, room.worker("w3"), timeout_s=20) == []
    assert (await complete(taker, task)).refused == []
    assert row_of(room, "a").status == JobStatus.COMPLETED


@in_room(seeds=(0,))
async def test_case_36_all_250_are_recovered_though_the_database_fails_meanwhile(
    room: Room,
) -> None:
    """Owner and worker are dead. Recovery is a loop: what failed once, and again, is not forgotten."""
    node = await room.node(1)
    many = [f"j{number:03}" for number in range(250)]
    await create(node, *[new_job(name) for name in many])
    started = await all_of(node, incarnation("dead", 1), 250)
    assert len(started) == 250
    await pass_time(1.6)
    await node.stop()
    taker = await room.node()
    for operation in ("load_started_jobs", "load_jobs", "load_timers", "load_ready_jobs_of_shard"):
        for _ in range(3):
            taker.faults.fail_next(operation, AWAY)
    for moment in Moment:
        taker.faults.fail_next("commit", OutcomeUnknown("the reply was lost"), moment)
    await taker.take(1)

    tasks = await all_of(taker, room.worker("w2"), 250)
    while len(tasks) < 250:
        tasks += await all_of(taker, room.worker("w2"), 250 - len(tasks))
    assert Counter(names(tasks)) == Counter(many)
    assert {task.token.attempt for task in tasks} == {1}
    assert (await complete(taker, *tasks)).refused == []
    assert [await status(taker, name) for name in many] == [JobStatus.COMPLETED] * 250


@in_room()
async def test_case_37_60_a_worker_that_comes_back_under_its_old_name_is_another_one(
    room: Room,
) -> None:
    """What the old one held is its orphan: not kept alive by the new one, offered again within the lease, and no key is
    blocked for longer. What the old one, still draining, says of it later is refused."""
    node = await room.node(1)
    key, unique = Concurrency("one"), Unique("u")
    await create_named(node, "a", concurrency=key, unique=unique)
    await create_named(node, "b", concurrency=key)
    old, new = incarnation("w", 1), incarnation("w", 2)
    held = await poll_one(node, old)
    await pass_time(1)  # killed, and started again

    for _ in range(LEASE_S):
        node.beat(new)
        [again] = (await create_named(node, "c", concurrency=key, unique=unique)).jobs
        assert not again.created, "the unique job is in flight"
        tasks = await poll(node, new, timeout_s=1)
        if tasks:
            break
    assert names(tasks) == ["a"]
    assert tasks[0].token.attempt == 1
    assert len((await complete(node, held)).refused) == 1
    assert (await complete(node, *tasks)).refused == []
    [after] = (await create_named(node, "c", concurrency=key, unique=unique)).jobs
    assert after.created
    assert names(await poll(node, new)) == ["b"]


@in_room(seeds=(0, 1))
async def test_case_45_two_nodes_that_race_for_a_thousand_due_jobs_start_each_once(
    room: Room,
) -> None:
    node = await room.node(1)
    many = [f"j{number:04}" for number in range(1_000)]
    due_us = room.now_us + 5 * S
    await create(node, *[new_job(name, due_us=due_us) for name in many])
    await pass_time(5)
    mine, yours = room.worker("mine"), room.worker("yours")
    begun = await poll(node, mine, 300)
    taking = asyncio.ensure_future(room.node(1))
    begun += await poll(node, mine, 300, timeout_s=0.1)
    taker = await taking
    tokens = [task.token for task in begun]

    taken: list[HandedJobTask] = []
    for _ in range(20):
        taker.beat(mine, *tokens)
        node.beat(mine, *tokens)
        taken += await poll(taker, yours, 500)
        assert await poll(node, room.worker("late"), 500) == []
        taker.beat(yours, *[task.token for task in taken])
    assert Counter(names(begun + taken)) == Counter(many)
    assert {task.token.attempt for task in begun + taken} == {1}
    assert (await complete(taker, *begun, *taken)).refused == []


@in_room(seeds=(0,))
async def test_case_48_a_job_of_later_is_state_and_no_message_that_comes_again(room: Room) -> None:
    """An hour off, with leases of seconds, and owners that change: one copy, at its time."""
    node = await room.node(1)
    due_us = room.now_us + 3_600 * S
    await create_named(node, "a", due_us=due_us)
    worker = room.worker()
    for _ in range(9):
        assert await poll(node, worker, timeout_s=390) == []
        node = await room.node(1)
    tasks = await poll(node, worker, timeout_s=600)

    assert names(tasks) == ["a"]
    assert 0 <= room.now_us - due_us < S
    await beats(node, worker, 300, tasks[0].token)
    assert await poll(node, room.worker("w2"), timeout_s=5) == []
    await beats(node, worker, 2, tasks[0].token)
    assert (await describe(node, "a")).info.attempt == 1


@in_room()
async def test_case_55_who_rescues_dies_over_it_and_another_one_takes_over(room: Room) -> None:
    """The owner is killed while it puts back what a dead worker held. Nothing of the rescue is a lock that stays."""
    node = await room.node(1)
    await create_named(node, "a")
    await poll_one(node, incarnation("dead", 1))
    await pass_time(1.6)
    hold = node.holds.hold("commit")
    await pass_time(9)
    assert hold.waiting == 1
    taker = await room.node(1)

    tasks = await poll(taker, room.worker("w2"), timeout_s=LEASE_S + 1)
    assert names(tasks) == ["a"]
    hold.release()


BACKGROUND = (
    "commit",
    "sweep",
    "load_timers",
    "load_jobs",
    "load_started_jobs",
    "load_ready_jobs",
    "load_ready_jobs_of_shard",
    "load_keyed_jobs",
    "load_job_keys",
    "load_schedules",
)


@pytest.mark.parametrize("operation", BACKGROUND)
def test_case_58_each_loop_tries_again_by_itself(operation: str) -> None:
    """Its first call after a take-over fails, and nothing stays half alive: old work goes on, and new work too."""

    @in_room(seeds=(0,), sweep_every_s=1.0)
    async def story(room: Room) -> None:
        node = await room.node(1)
        key = Concurrency("k", limit=2)
        many = [f"j{number:03}" for number in range(CREDIT + 1)]  # the last is read when they go
        await create_named(node, "ready", "held", "waits", concurrency=key)
        await create_named(node, *many)
        await create_named(node, "later", due_us=room.now_us + 20 * S)
        await poll(node, incarnation("dead", 1), 1)
        await pass_time(1.6)
        await node.stop()
        taker = await room.node()
        taker.faults.fail_next(operation, AWAY)
        while not await taker.take(1):
            await pass_time(1)

        done: set[str] = set()
        made = False
        for _ in range(30):
            if not made:
                made = await accepted(taker, "new")
            tasks = await poll(taker, room.worker(), timeout_s=1)
            done.update(names(tasks))
            if tasks:
                await reported(taker, tasks)
        assert taker.holds.calls.count(operation) > 1, "the one that failed, and another one"
        assert done == {"ready", "held", "waits", "later", "new", *many}

    story()


async def accepted(node: Node, name: str) -> bool:
    """Whether a creation was; a client comes again with one that was not answered."""
    try:
        made = await create_named(node, name, unique=Unique("n"))
    except Rejected as refusal:
        if refusal.code is not Code.UNAVAILABLE:
            raise
        return False
    return bool(made.jobs)


async def reported(node: Node, tasks: list[HandedJobTask]) -> None:
    """As a worker does: until it is answered."""
    while True:
        try:
            assert (await within(complete(node, *tasks), 5)).refused == []
        except Rejected as refusal:
            if refusal.code is not Code.UNAVAILABLE:
                raise
            await pass_time(0.5)
        else:
            return


@in_room()
async def test_case_64_no_clock_but_the_databases_ends_a_lease(room: Room) -> None:
    """A node whose own clock is four minutes ahead steals nothing, and is not early with what is due."""
    node = await room.node(1)
    due_us = room.now_us + 50 * S
    await create_named(node, "a")
    await create_named(node, "later", due_us=due_us, queue="other")
    task = await poll_one(node, room.worker())
    await pass_time(1.6)
    with patch.object(history_room, "VirtualClock", partial(VirtualClock, offset=240.0)):
        ahead = await room.node(1)
    later = asyncio.ensure_future(poll_one(ahead, room.worker(), timeout_s=60, queue="other"))
    for _ in range(30):
        await pass_time(2)
        assert ahead.beat(room.worker(), task.token) == [None]
        assert await poll(ahead, room.worker("thief"), timeout_s=0.1) == []
        assert later.done() is (room.now_us >= due_us)
    assert (await complete(ahead, task)).refused == []
    assert (await refused(complete(node, task))).code is Code.UNAVAILABLE
