"""Which ready jobs are offered and in memory, in which order, and how those that are only rows have their turn."""

import asyncio
from unittest.mock import patch

import pytest
from tests.unit.history.jobs.work import (
    JobStatus,
    cancel,
    complete,
    create,
    create_named,
    describe,
    id_of,
    names,
    new_job,
    poll,
    reschedule,
    row_of,
    run_of,
    wait,
)
from tests.unit.history.room import NAMESPACE, Node, Room, in_room, nothing_said, pass_time, turns

from perdure_engine.core.errors import Code
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history import offering
from perdure_engine.history.jobs import queues, take_over
from perdure_engine.history.jobs.queues import JobQueues
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import StoreUnavailable


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"j{number:05}" for number in range(first, first + count)]


@pytest.fixture(autouse=True)
def _little_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobQueues, "credit", 40)
    monkeypatch.setattr(offering, "PAGE", 50)
    monkeypatch.setattr(queues, "PAGE", 50)


@in_room(jobs_cached_max=300)
async def test_a_backlog_is_drained_in_its_order_and_memory_stays_small(room: Room) -> None:
    """Offered, in the reserve, or only rows: first come, first served, each once."""
    node = await room.node(1)
    await create_named(node, *numbered(600))
    await create_named(node, *numbered(400, 600))
    assert len(node.shard().jobs.memory.jobs) == 40 + 150
    done: list[str] = []
    while len(done) < 1_000:
        tasks = await poll(node, room.worker(), 90)
        assert tasks
        done += names(tasks)
        await complete(node, *tasks)
        assert len(node.shard().jobs.memory.jobs) <= 300 + 75
    assert done == numbered(1_000)
    await pass_time(10)
    assert await poll(node, room.worker()) == []
    assert len(node.shard().jobs.memory.jobs) <= 75
    assert node.rooms.job_cache.reserved == 0
    assert node.alarms == []


@in_room(jobs_cached_max=100)
async def test_jobs_of_queues_without_workers_leave_memory(room: Room) -> None:
    """And are read, many together, when a worker asks."""
    node = await room.node(1)
    for queue in ("q1", "q2", "q3", "q4", "q5"):
        await create_named(node, *[f"{queue}-{name}" for name in numbered(40)], queue=queue)
    assert len(node.shard().jobs.memory.jobs) == 100
    assert id_of("q1-j00000") not in node.shard().jobs.memory.jobs
    node.holds.calls.clear()
    found = await poll(node, room.worker("w2"), 200, queue="q1")
    assert names(found) == [f"q1-{name}" for name in numbered(40)]
    assert node.holds.calls.count("load_jobs") == 1
    assert (await complete(node, *found)).refused == []


@in_room(jobs_cached_max=300)
async def test_new_jobs_stand_behind_those_that_are_only_rows(room: Room) -> None:
    """Also when they come while a page is being read."""
    node = await room.node(1)
    await create_named(node, *numbered(500))
    hold = node.holds.hold("load_ready_jobs")
    done: list[str] = []
    while not hold.waiting:
        tasks = await poll(node, room.worker(), 50)
        done += names(tasks)
        await complete(node, *tasks)
        await turns()
    made = create_named(node, *numbered(100, 500))
    await made
    hold.release()
    while len(done) < 600:
        tasks = await poll(node, room.worker(), 50, timeout_s=6)
        done += names(tasks)
        await complete(node, *tasks)
    assert done == numbered(600)


@in_room(jobs_cached_max=300)
async def test_those_of_the_reserve_that_have_left_memory_are_paged_in(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, *numbered(140))
    for number in range(8):
        await create_named(node, *numbered(40, 500 + 40 * number), queue=f"other-{number}")
    assert id_of("j00100") not in node.shard().jobs.memory.jobs
    done: list[str] = []
    while len(done) < 140:
        tasks = await poll(node, room.worker(), timeout_s=6)
        assert tasks
        done += names(tasks)
        await complete(node, *tasks)
    assert sorted(done) == numbered(140)
    assert node.rooms.job_cache.reserved == 0


@in_room(jobs_cached_max=100)
async def test_a_page_that_cannot_be_read_is_read_later(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, *numbered(500))
    node.faults.fail_next("load_ready_jobs", StoreUnavailable("away"))
    done: set[str] = set()
    while len(done) < 500:
        tasks = await poll(node, room.worker(), timeout_s=6)
        done |= set(names(tasks))
        await complete(node, *tasks)
    assert done == set(numbered(500))


@in_room()
async def test_priority_goes_before_age(room: Room) -> None:
    node = await room.node(1)
    await create(
        node,
        *[new_job(f"p{priority}", priority=priority) for priority in (3, 5, 1, 4, 2)],
        new_job("old1", priority=1),
    )
    assert names(await poll(node, room.worker())) == ["p1", "old1", "p2", "p3", "p4", "p5"]


@in_room()
async def test_a_new_owner_pages_through_queues(room: Room) -> None:
    """It reads a queue's first rows and goes on with the next queue; the rest has its turn."""
    node = await room.node(1)
    for queue in ("q1", "q2", "q3"):
        names_of = [f"{queue}-{name}" for name in numbered(400)]
        await create_named(node, *names_of, queue=queue)
    with patch.object(take_over, "PAGE", 50):
        taker = await room.node(1)
        await pass_time(4)
    assert taker.holds.calls.count("load_ready_jobs_of_shard") <= 4
    for queue in ("q3", "q1", "q2"):
        done: list[str] = []
        while len(done) < 400:
            tasks = await poll(taker, room.worker(), queue=queue)
            assert tasks
            done += names(tasks)
            await complete(taker, *tasks)
        assert done == [f"{queue}-{name}" for name in numbered(400)]


@in_room()
async def test_matching_counts_them_apart_from_activities(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b")
    assert node.matcher.describe(NAMESPACE, "mail", TaskKind.JOB).backlog_count == 2
    assert not node.matcher.has_pollers(NAMESPACE, "mail", TaskKind.JOB)
    await poll(node, room.worker())
    assert node.matcher.has_pollers(NAMESPACE, "mail", TaskKind.JOB)


# ---- what is in memory, and what a read brings


@in_room()
async def test_a_job_whose_change_is_being_saved_is_not_handed_out(room: Room) -> None:
    """Invariants 5, 16. If it is to be had after that, it is offered at once."""
    node = await room.node(1)
    await create_named(node, "a", "b")
    hold = node.holds.hold("commit")
    calls = [cancel(node, "a"), reschedule(node, "b", 0)]
    await hold.reached()
    polled = node.polling(room.worker(), queue="mail", timeout_s=3)
    await turns(20)
    nothing_said(polled)
    hold.release()
    assert names((await polled).job_tasks) == ["b"]
    assert [(await call).status for call in calls] == [JobStatus.CANCELLED, JobStatus.PENDING]


@in_room(jobs_cached_max=200)
async def test_a_read_does_not_bring_back_what_has_gone_on_meanwhile(room: Room) -> None:
    """A job is asked for by id; while its row is on its way, it is paged in, done, and forgotten."""
    node = await room.node(1)
    await create_named(node, *numbered(400))
    known, one = node.shard().jobs.memory.jobs, id_of("j00200")
    assert one not in known
    reads = slow_reads(node)
    described = describe(node, "j00200")
    await turns()
    assert len(reads) == 1
    for _ in range(400 // 40):
        await complete(node, *await poll(node, room.worker(), timeout_s=6))
    assert one not in known
    for read in reads:
        read.set()
        await turns()
    assert (await described).info.status is JobStatus.COMPLETED
    assert node.alarms == []


def slow_reads(node: Node) -> list[asyncio.Event]:
    """Reads by id see what is there when they are asked, and answer when their event is set."""
    arrived: list[asyncio.Event] = []
    load = node.store.load_jobs

    async def load_slowly(shard_id: int, job_ids: list[bytes]) -> list[JobRunRow]:
        rows = await load(shard_id, job_ids)
        arrived.append(asyncio.Event())
        await arrived[-1].wait()
        return rows

    node.rooms.store.load_jobs = load_slowly  # type: ignore[method-assign]  # looks on
    return arrived


@in_room(jobs_cached_max=3)
async def test_what_was_read_for_somebody_is_there_when_it_has_its_turn(room: Room) -> None:
    """Though memory is full, and others are saved in between."""
    node = await room.node(1)
    await create_named(node, *numbered(20), due_us=room.now_us + 3_600_000_000)
    taker = await room.node(1)
    await pass_time(1)
    hold = taker.holds.hold("commit")
    made = create_named(taker, *numbered(20, 200))
    cancelled = [cancel(taker, name) for name in numbered(20)]
    await hold.reached()
    await pass_time(0.5)
    assert taker.holds.calls.count("load_jobs") == 1
    hold.release()
    for call in (made, *cancelled):
        await call
    assert taker.holds.calls.count("load_jobs") == 1


# ---- waits


@in_room(jobs_cached_max=40)
async def test_a_wait_is_answered_with_all_that_have_ended(room: Room) -> None:
    """In memory or not; unknown ones are said to be."""
    node = await room.node(1)
    await create_named(node, *numbered(40))
    waiting = wait(node, *numbered(40))
    tasks = await poll(node, room.worker())
    nothing_said(waiting)
    await complete(node, *tasks[:20])
    assert [one.job_id for one in (await waiting).jobs] == [id_of(name) for name in numbered(20)]
    await complete(node, *tasks[20:])
    taker = await room.node(1)
    ended = (await wait(taker, *numbered(40), "unknown")).jobs
    assert [one.status for one in ended] == [*[JobStatus.COMPLETED] * 40, None]
    assert (await wait(taker)).jobs == []


@in_room()
async def test_who_gives_up_waits_no_more(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    waiting = wait(node, "a")
    await turns()
    waiting.cancel()
    await turns()
    assert node.shard().jobs.waits._waiting == {}
    other = wait(node, "a")
    await node.history.release_many([1])
    assert other.exception().code is Code.UNAVAILABLE  # type: ignore[union-attr]


# ---- rows that do not read back


@in_room()
async def test_a_job_that_does_not_read_back_costs_its_neighbours_nothing(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", "c", due_us=room.now_us + 5_000_000)
    room.tables.job_runs.put(row_of(room, "b")._replace(spec=b"\xff"))
    taker = await room.node(1)
    tasks = await poll(taker, room.worker(), timeout_s=20)
    assert names(tasks) == ["a", "c"]
    assert set(taker.alarms) == {"run_quarantined"}
    assert run_of(taker, "a").status is JobStatus.PENDING
