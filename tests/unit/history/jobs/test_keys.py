"""Concurrency keys: their limit, their policies, their rate, over evictions and take-overs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from tests.unit.history.jobs.work import (
    AT_ONCE,
    Concurrency,
    ConcurrencyPolicy,
    JobStatus,
    cancel,
    complete,
    create,
    create_named,
    describe,
    fail,
    names,
    new_job,
    poll,
    poll_one,
    reschedule,
    row_of,
    status,
    stop,
)
from tests.unit.history.room import (
    NAMESPACE,
    Node,
    Room,
    beats,
    in_room,
    pass_time,
    turns,
    within,
)

from perdure_engine.core.jobs import memory
from perdure_engine.core.jobs.decide import places
from perdure_engine.history.jobs import loading
from perdure_engine.ports.store import Batch, OutcomeUnknown
from perdure_engine.store.memory import Moment

S = 1_000_000
KEY = Concurrency("user-1")
TWO = Concurrency("user-1", limit=2)
STEPS_MAX = 300


def waiting(room: Room) -> list[str]:
    """Names of those that wait for a place, in their order."""
    rows = [row for row in room.tables.job_runs.all() if row.task_id < 0]
    rows.sort(key=lambda row: -row.task_id)
    return [room.codec.decode_job_spec(row.spec).input.decode() for row in rows]


@in_room()
async def test_no_more_run_at_a_time_than_the_limit_allows(room: Room) -> None:
    """In the order of their creation; the end of one lets the next one go on, in the same statement."""
    node = await room.node(1)
    await create_named(node, *"abcd", concurrency=TWO)
    assert waiting(room) == ["c", "d"]
    assert "waits" in (await describe(node, "c")).info.state.reason
    tasks = await poll(node, room.worker())
    assert names(tasks) == ["a", "b"]
    before = node.holds.calls.count("commit")
    await complete(node, tasks[1])
    assert node.holds.calls.count("commit") == before + 1
    assert waiting(room) == ["d"]
    assert names(await poll(node, room.worker())) == ["c"]


@in_room()
async def test_keys_and_namespaces_do_not_meet(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", concurrency=KEY)
    await create_named(node, "b", concurrency=Concurrency("user-2"))
    assert names(await poll(node, room.worker())) == ["a", "b"]


@in_room()
async def test_a_place_is_free_while_its_job_backs_off(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", concurrency=KEY)
    await fail(node, await poll_one(node, room.worker()))
    second = await poll_one(node, room.worker())
    assert names([second]) == ["b"]
    await beats(node, room.worker(), 4, second.token)
    assert waiting(room) == ["a"], "its time has come, its place is taken"
    await complete(node, second)
    [task] = await poll(node, room.worker())
    assert (names([task]), task.token.attempt) == (["a"], 2)


@in_room()
async def test_those_that_wait_can_be_cancelled_and_put_off(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, *"abcd", concurrency=KEY)
    await cancel(node, "b")
    await reschedule(node, "c", room.now_us + 60 * S)
    await complete(node, await poll_one(node, room.worker()))
    assert names(await poll(node, room.worker())) == ["d"]


@in_room()
async def test_a_ready_job_that_is_cancelled_gives_its_place_up(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", concurrency=KEY)
    await cancel(node, "a")
    assert names(await poll(node, room.worker())) == ["b"]


@in_room()
async def test_of_later_it_takes_no_place_before_its_time(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", concurrency=KEY, due_us=room.now_us + 5 * S)
    await create_named(node, "b", concurrency=KEY)
    task = await poll_one(node, room.worker())
    assert names([task]) == ["b"]
    await beats(node, room.worker(), 6, task.token)
    assert waiting(room) == ["a"]
    await complete(node, task)
    assert names(await poll(node, room.worker())) == ["a"]


@in_room()
async def test_the_newest_jobs_settings_are_the_keys(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", concurrency=KEY)
    await create_named(node, "c", concurrency=Concurrency("user-1", limit=3))
    assert names(await poll(node, room.worker())) == ["a", "b", "c"]


@in_room()
async def test_settings_are_those_of_the_newest_job_whose_time_has_come(room: Room) -> None:
    """So a new owner goes by the same ones, and no place is free while somebody waits."""
    node = await room.node(1)
    await create_named(node, "a", "b", "c", concurrency=KEY)
    later = room.now_us + 3 * S
    await create_named(node, "d", concurrency=Concurrency("user-1", limit=3), due_us=later)
    await complete(node, await poll_one(node, room.worker()))
    task = await poll_one(node, room.worker())
    assert (names([task]), waiting(room)) == (["b"], ["c"])
    await beats(node, room.worker(), 4, task.token)
    assert names(await poll(node, room.worker())) == ["c", "d"]


# ---- policies


@in_room()
async def test_the_newest_is_cancelled(room: Room) -> None:
    node = await room.node(1)
    newest = Concurrency("k", 2, ConcurrencyPolicy.CANCEL_NEWEST)
    made = await create_named(node, *"abc", concurrency=newest)
    assert [one.status for one in made.jobs] == [
        JobStatus.PENDING,
        JobStatus.PENDING,
        JobStatus.CANCELLED,
    ]
    assert "no place" in (await describe(node, "c")).info.state.reason
    await complete(node, await poll_one(node, room.worker()))
    await create_named(node, "d", concurrency=newest)
    assert await status(node, "d") is JobStatus.PENDING


@in_room()
async def test_the_oldest_gives_way(room: Room) -> None:
    """At once if no worker has it; else it is asked to stop, and the new one waits for that."""
    node = await room.node(1)
    newer = Concurrency("k", 1, ConcurrencyPolicy.CANCEL_RUNNING)
    await create_named(node, "a", concurrency=newer)
    await create_named(node, "b", concurrency=newer)
    assert await status(node, "a") is JobStatus.CANCELLED
    task = await poll_one(node, room.worker())
    assert names([task]) == ["b"]
    await create_named(node, "c", concurrency=newer)
    assert await status(node, "c") is JobStatus.PENDING
    [verdict] = node.beat(room.worker(), task.token)
    assert verdict is not None
    assert verdict.cancel_requested
    await stop(node, task)
    assert await status(node, "b") is JobStatus.CANCELLED
    assert names(await poll(node, room.worker())) == ["c"]


@in_room()
async def test_one_that_comes_back_is_not_the_newest(room: Room) -> None:
    """It has had its place, and lost it over a failure: it waits for another, and is not cancelled."""
    node = await room.node(1)
    newest = Concurrency("k", 1, ConcurrencyPolicy.CANCEL_NEWEST)
    await create_named(node, "a", concurrency=newest)
    await fail(node, await poll_one(node, room.worker()))
    await create_named(node, "b", concurrency=newest)
    second = await poll_one(node, room.worker())
    assert names([second]) == ["b"]
    await beats(node, room.worker(), 4, second.token)
    assert await status(node, "a") is JobStatus.RETRY
    await complete(node, second)
    assert names(await poll(node, room.worker())) == ["a"]


@in_room()
async def test_nobody_gives_way_to_an_older_one_that_comes_back(room: Room) -> None:
    """The newest has the place: what failed before it came gives way itself."""
    node = await room.node(1)
    newer = Concurrency("k", 1, ConcurrencyPolicy.CANCEL_RUNNING)
    await create_named(node, "a", concurrency=newer)
    await fail(node, await poll_one(node, room.worker()))
    await pass_time(0.1)
    await create_named(node, "b", concurrency=newer)
    task = await poll_one(node, room.worker())
    assert names([task]) == ["b"]
    await beats(node, room.worker(), 4, task.token)
    assert node.beat(room.worker(), task.token) == [None], "it is not asked to stop"
    described = await describe(node, "a")
    assert described.info.status is JobStatus.CANCELLED
    assert "newer" in described.info.state.reason
    assert (await complete(node, task)).refused == []


# ---- rates


@in_room()
async def test_a_rate_lets_so_many_start_in_a_second(room: Room) -> None:
    """Those that wait for it have a timer, so that they go on whatever happens to the owner."""
    node = await room.node(1)
    rated = Concurrency("k", limit=100, rate_per_s=2.0)
    await create_named(node, *"abcdef", concurrency=rated)
    began_us = room.now_us
    found: list[tuple[str, int]] = []
    while len(found) < 6:
        tasks = await poll(node, room.worker(), timeout_s=5)
        found += [(name, room.now_us - began_us) for name in names(tasks)]
    assert [name for name, _ in found] == list("abcdef")
    for index, (_, late_us) in enumerate(found):
        assert index * S // 2 <= late_us <= index * S // 2 + 20_000


@in_room()
async def test_a_rate_goes_on_after_a_take_over(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, *"abc", concurrency=Concurrency("k", limit=9, rate_per_s=0.2))
    assert names(await poll(node, room.worker())) == ["a"]
    await pass_time(1.6)
    taker = await room.node(1)
    found: list[str] = []
    for _ in range(4):
        found += names(await poll(taker, room.worker("w2"), timeout_s=5))
    assert [name for name in found if name != "a"] == ["b", "c"]
    assert taker.alarms == []


# ---- whatever happens to memory


@in_room()
async def test_a_new_owner_knows_who_has_a_place_and_who_is_next(room: Room) -> None:
    """No more than the limit, though it has seen none of the starts; and the next is the one that waits longest."""
    node = await room.node(1)
    await create_named(node, *"abcde", concurrency=TWO)
    tasks = await poll(node, room.worker(), 1)
    await pass_time(1.6)
    tasks += await poll(node, room.worker(), 1)
    assert names(tasks) == ["a", "b"]
    taker = await room.node(1)
    await create_named(taker, "f", concurrency=TWO)
    assert waiting(room) == ["c", "d", "e", "f"]
    await complete(taker, tasks[0])
    await beats(taker, room.worker(), 4, tasks[1].token)
    assert names(await poll(taker, room.worker("w2"))) == ["c"]
    assert taker.alarms == []


@pytest.mark.parametrize("moment", list(Moment))
def test_a_statement_that_comes_to_nothing_gives_no_place_twice(moment: Moment) -> None:
    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        await create_named(node, *"abc", concurrency=KEY)
        for name in "abc":
            task = await poll_one(node, room.worker())
            assert names([task]) == [name]
            node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
            assert (await complete(node, task)).refused == []
        assert node.alarms == []

    story()


@in_room()
async def test_more_wait_than_memory_holds(room: Room) -> None:
    """Whoever is only a row has its turn, in its order."""
    node = await room.node(1)
    many = [f"j{number:02}" for number in range(40)]
    done: list[str] = []
    with little_room():
        await create(node, *[new_job(name, concurrency=TWO) for name in many])
        while len(done) < 40:
            tasks = await poll(node, room.worker())
            assert 1 <= len(tasks) <= 2
            done += names(tasks)
            await complete(node, *tasks)
    assert done == many
    assert room_of(node) is None, "a key that nobody uses is forgotten"


@in_room()
async def test_a_job_joins_those_who_wait_while_they_are_being_read(room: Room) -> None:
    node = await room.node(1)
    found: list[str] = []
    with little_room():
        await create(node, *[new_job(f"j{number:02}", concurrency=KEY) for number in range(12)])
        hold = node.holds.hold("load_keyed_jobs")
        while not hold.waiting:
            tasks = await poll(node, room.worker(), timeout_s=0.1)
            found += names(tasks)
            done = complete(node, *tasks)
            await pass_time(0.1)
        made = create(node, *[new_job(f"k{number}", concurrency=KEY) for number in range(6)])
        await pass_time(0.5)
        hold.release()
        await done
        await made
        while len(found) < 18:
            tasks = await poll(node, room.worker())
            found += names(tasks)
            await complete(node, *tasks)
    assert found == [f"j{number:02}" for number in range(12)] + [f"k{n}" for n in range(6)]


@in_room()
async def test_a_key_is_not_read_again_before_its_last_step_is_saved(room: Room) -> None:
    """One step lets a job join those who wait, as a row alone, and makes the key short of them; a third intent needs
    more of them. Read at once, the new one would be missed, and wait for ever."""
    node = await room.node(1)
    with little_room():
        await create(node, *[new_job(f"j{number}", concurrency=KEY) for number in range(6)])
        await create_named(node, "k", concurrency=KEY, due_us=room.now_us + 2 * S)
        for _ in range(2):
            await complete(node, *await poll(node, room.worker()))
        task = await poll_one(node, room.worker())
        assert waiting(room) == ["j3", "j4", "j5"]
        before = node.holds.hold("commit")
        create_named(node, "x")
        await before.reached()
        await pass_time(3)  # k comes due, and waits for its turn
        calls = [complete(node, task), cancel(node, "j4")]
        hold = node.holds.hold("commit")
        before.release()
        await hold.reached()
        await pass_time(1)
        hold.release()
        for call in calls:
            await call
        found: list[str] = []
        while len(found) < 4:
            tasks = await poll(node, room.worker(), timeout_s=5)
            assert tasks, "somebody waits for ever"
            found += names(tasks)
            await complete(node, *tasks)
    assert sorted(found) == ["j3", "j5", "k", "x"]


@in_room()
async def test_a_key_is_read_again_beside_a_step_without_jobs(room: Room) -> None:
    """What is in flight decides of runs only: nothing of the key is unsaved, and no later step of jobs need come."""
    node = await room.node(1)
    with little_room():
        await create(node, *[new_job(f"j{number}", concurrency=KEY) for number in range(6)])
        for _ in range(3):
            await complete(node, *await poll(node, room.worker()))
        task = await poll_one(node, room.worker())
        assert room_of(node).is_short
        await node.start("wf")
        hold = node.holds.hold("commit")
        signalled, done = node.signal("wf"), complete(node, task)
        await hold.reached()
        await pass_time(0.5)
        hold.release()
        await signalled
        assert (await within(done, 1)).refused == []
        assert names(await poll(node, room.worker())) == ["j4"]


@in_room()
async def test_a_key_is_read_again_on_a_shard_that_is_never_idle(room: Room) -> None:
    """Whenever a statement returns the next one is decided at once: between any two of them nobody else has a turn."""
    node = await room.node(1)
    with little_room():
        await create(node, *[new_job(f"j{number}", concurrency=KEY) for number in range(6)])
        for _ in range(3):
            await complete(node, *await poll(node, room.worker()))
        task = await poll_one(node, room.worker())
        assert room_of(node).is_short
        done, commit = asyncio.Event(), node.store.commit
        steps = 0

        async def busily(batch: Batch) -> int:
            nonlocal steps
            if not done.is_set() and steps < STEPS_MAX:
                steps += 1
                create_named(node, f"x{steps}", queue="others")
                await turns(1)
            return await commit(batch)

        with patch.object(node.store, "commit", busily):
            create_named(node, "x", queue="others")
            completed = complete(node, task)
            completed.add_done_callback(lambda _: done.set())
            assert (await completed).refused == []
        assert steps < STEPS_MAX
        assert names(await poll(node, room.worker())) == ["j4"]


@contextmanager
def little_room() -> Iterator[None]:
    """Of those who wait for a key, a few are in memory."""
    with (
        patch.object(memory, "PLACES_MAX", 2),
        patch.object(places, "WAITING_KEPT_MAX", 4),
        patch.object(loading, "KEYED_ROWS_MAX", 6),
    ):
        yield


def room_of(node: Node) -> Any:
    return node.shard().jobs.memory.rooms.get((NAMESPACE, "user-1"))


@in_room()
async def test_a_retry_of_a_keyed_job_is_its_own_attempt(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", concurrency=KEY, retry=AT_ONCE)
    task = await poll_one(node, room.worker())
    await fail(node, task)
    assert waiting(room) == ["a"], "it stands behind those who wait"
    second = await poll_one(node, room.worker())
    assert names([second]) == ["b"]
    await complete(node, second)
    third = await poll_one(node, room.worker())
    assert (names([third]), third.token.attempt) == (["a"], 2)
    assert row_of(room, "a").status == JobStatus.RETRY
