"""Jobs of later: which of them are in memory before their time, and how few reads bring them there."""

import asyncio
from unittest.mock import patch

import hypothesis
from hypothesis import strategies as st
from tests.simulation.loop import SimulatedLoop, simulate
from tests.unit.history.jobs.work import (
    Concurrency,
    JobStatus,
    cancel,
    complete,
    create,
    create_named,
    fail,
    id_of,
    names,
    new_job,
    poll,
    reschedule,
    row_of,
    status,
)
from tests.unit.history.room import Gates, Node, Room, in_room, pass_time, turns

from perdure_engine.core.errors import Rejected
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.history import timers as timers_module
from perdure_engine.history.jobs.cache import JOB_BYTES, LOOKS_MAX, JobCache
from perdure_engine.history.rooms import HistoryConfig
from perdure_engine.ports.store import StoreUnavailable

S = 1_000_000
EACH = JOB_BYTES + len("j00000")  # what a job of these takes
NOTHING = EACH // 2  # of room: no job that waits is in memory


def numbered(count: int) -> list[str]:
    return [f"j{number:05}" for number in range(count)]


def in_memory(node: Node) -> set[bytes]:
    return set(node.shard().jobs.memory.jobs)


def room_left(node: Node) -> int:
    return node.rooms.job_cache.waiting_room


async def run_all(node: Node, room: Room, count: int, timeout_s: float = 6) -> list[str]:
    """Until so many have run. Returns them in the order in which they were handed out."""
    done: list[str] = []
    while len(done) < count:
        tasks = await poll(node, room.worker(), timeout_s=timeout_s)
        assert tasks
        done += names(tasks)
        await complete(node, *tasks)
    return done


# ---- few reads


@in_room()
async def test_a_due_group_that_is_not_in_memory_costs_a_few_reads_and_none_when_it_is_due(
    room: Room,
) -> None:
    first = await room.node(1)
    await create_named(first, *numbered(1_200), due_us=room.now_us + 10 * S)
    node = await room.node(1)
    await pass_time(8)
    assert not in_memory(node)
    node.holds.calls.clear()
    await pass_time(1.9)
    assert node.holds.calls == ["load_jobs"] * 3
    assert len(in_memory(node)) == 1_200
    await pass_time(0.5)
    assert node.holds.calls.count("load_jobs") == 3
    assert sorted(await run_all(node, room, 1_200)) == numbered(1_200)
    assert node.alarms == []


@in_room(jobs_ahead_bytes_max=400 * EACH)
async def test_jobs_that_become_due_one_by_one_are_read_by_the_half_second(room: Room) -> None:
    """A quarter of them is made before there is no room for more, and stays."""
    node = await room.node(1)
    await turns()
    start_us = room.now_us + 5 * S
    for at, name in enumerate(numbered(800)):
        await create_named(node, name, due_us=start_us + at * 5_000)
    assert len(in_memory(node)) == 200
    node.holds.calls.clear()
    done = await run_all(node, room, 800, timeout_s=10)
    assert done == numbered(800)
    assert node.holds.calls.count("load_jobs") <= 10


@in_room(jobs_ahead_bytes_max=30 * EACH)
async def test_memory_stays_within_its_bytes_however_many_are_due(room: Room) -> None:
    """A21: the horizon shrinks by itself. And none is lost or started twice."""
    node = await room.node(1)
    await turns()
    await create_named(node, *numbered(300), due_us=room.now_us + 5 * S)
    assert len(in_memory(node)) == 15
    await pass_time(4.5)
    assert len(in_memory(node)) == 30
    assert room_left(node) == 0
    assert sorted(await run_all(node, room, 300)) == numbered(300)
    assert room_left(node) == 30 * EACH


@in_room(jobs_ahead_bytes_max=100 * JOB_BYTES)
async def test_what_a_job_takes_counts_not_their_number(room: Room) -> None:
    node = await room.node(1)
    await turns()
    many = [new_job(n, due_us=room.now_us + 60 * S, input=bytes(20_000)) for n in numbered(10)]
    await create(node, *many)
    assert len(in_memory(node)) == 50 * JOB_BYTES // (20_000 + JOB_BYTES)


@in_room(jobs_cached_max=100)
async def test_jobs_of_later_do_not_displace_those_that_are_about_to_be_handed_out(
    room: Room,
) -> None:
    node = await room.node(1)
    ready = [f"ready{number}" for number in range(90)]
    await create_named(node, *ready)
    await create_named(node, *numbered(500), due_us=room.now_us + 60 * S)
    await create_named(node, *[f"x{n}" for n in numbered(500)], due_us=room.now_us + 3_600 * S)
    assert {id_of(name) for name in ready} <= in_memory(node)
    assert id_of("xj00000") not in in_memory(node), "nothing of it is of interest for an hour"
    node.holds.calls.clear()
    assert names(await poll(node, room.worker())) == ready
    assert "load_jobs" not in node.holds.calls


@in_room(jobs_cached_max=0)
async def test_timers_of_what_has_ended_since_cost_nothing(room: Room) -> None:
    """Cancelled, or expiring and done: its time comes, and nothing is read, decided or saved."""
    node = await room.node(1)
    await create_named(node, "far", "near", due_us=room.now_us + 20 * S)
    await create_named(node, "done", expire_us=room.now_us + 20 * S)
    await run_all(node, room, 1)
    await cancel(node, "far")
    await pass_time(19.5)
    await cancel(node, "near")
    await turns()
    node.holds.calls.clear()
    await pass_time(5)
    assert [call for call in node.holds.calls if call != "sweep"] == []
    assert node.shard().timers.lag_us() == 0
    assert len(node.shard().jobs.timers) == 0


@in_room(jobs_ahead_bytes_max=2 * EACH)
async def test_a_job_that_has_ended_before_it_was_looked_at_takes_no_room(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, *numbered(6), due_us=room.now_us + 5 * S)
    await pass_time(4.5)
    for name in numbered(6)[2:]:
        await cancel(node, name)
    assert room_left(node) == 0
    await run_all(node, room, 2)
    await pass_time(1)
    assert room_left(node) == 2 * EACH


# ---- what changes after the read


@in_room(jobs_ahead_bytes_max=2_000_000)
async def test_what_has_been_read_is_changed_in_memory_and_found_so(room: Room) -> None:
    """Invariants 21, 22, 57: cancelled, put off, brought forward, expired after the read."""
    first = await room.node(1)
    due_us = room.now_us + 10 * S
    await create_named(first, "run", "cancelled", "later", "sooner", due_us=due_us)
    await create_named(first, "expired", due_us=due_us, expire_us=due_us - S // 10)
    node = await room.node(1)
    await pass_time(9.2)
    assert len(in_memory(node)) == 5, "they have been read"
    await cancel(node, "cancelled")
    await reschedule(node, "later", due_us + 30 * S)
    await reschedule(node, "sooner", room.now_us + S // 10)
    assert await run_all(node, room, 1, timeout_s=0.4) == ["sooner"]
    assert await run_all(node, room, 1) == ["run"]
    assert await status(node, "expired") is JobStatus.SKIPPED
    assert await status(node, "cancelled") is JobStatus.CANCELLED
    assert await poll(node, room.worker(), timeout_s=25) == []
    [task] = await poll(node, room.worker(), timeout_s=10)
    assert names([task]) == ["later"]
    assert task.started_us >= due_us + 30 * S
    assert node.alarms == []


@in_room(jobs_ahead_bytes_max=NOTHING)
async def test_without_any_room_jobs_are_read_when_they_are_due(room: Room) -> None:
    """Invariants 21, 57. And what was to be read ahead is forgotten then."""
    node = await room.node(1)
    due_us = room.now_us + 3 * S
    await create_named(node, *numbered(20), due_us=due_us)
    assert not in_memory(node)
    await pass_time(2.9)
    assert await poll(node, room.worker(), timeout_s=0.05) == []
    assert await run_all(node, room, 20) == numbered(20)
    await pass_time(1)
    assert not node.shard().jobs.ahead._near


@in_room()
async def test_a_read_that_fails_is_made_good_when_they_are_due(room: Room) -> None:
    """Invariant 57."""
    first = await room.node(1)
    await create_named(first, *numbered(20), due_us=room.now_us + 3 * S)
    node = await room.node(1)
    node.faults.fail_next("load_jobs", StoreUnavailable("away"))
    assert await run_all(node, room, 20) == numbered(20)


# ---- owners, and what they leave


@in_room(jobs_ahead_bytes_max=400 * EACH)
async def test_invariant_57_the_next_owner_starts_what_the_last_one_had_read(room: Room) -> None:
    first = await room.node(1)
    await create_named(first, *numbered(60), due_us=room.now_us + 5 * S)
    await pass_time(4.5)
    assert len(in_memory(first)) == 60
    node = await room.node(1)
    assert sorted(await run_all(node, room, 60)) == numbered(60)
    assert await poll(node, room.worker(), timeout_s=5) == []
    await first.stop()
    assert room_left(first) == 400 * EACH, "nothing of a shard that is gone takes room"


@in_room(jobs_cached_max=8)
async def test_nothing_stays_when_all_have_ended(room: Room) -> None:
    """Also those of a concurrency key that is in use while they wait, and those that failed in between."""
    node = await room.node(1)
    retry = RetryPolicy(initial_interval_ms=2_000, maximum_attempts=2)
    await create_named(node, *numbered(40), due_us=room.now_us + 5 * S, retry=retry)
    keyed = [f"k{number}" for number in range(20)]
    key = Concurrency("k", 20)
    await create_named(node, "now", concurrency=key)
    await create_named(node, *keyed, due_us=room.now_us + 400 * S, concurrency=key)
    assert not in_memory(node) & {id_of(name) for name in keyed}
    await run_all(node, room, 1)
    await pass_time(6)
    tasks = await poll(node, room.worker())
    await fail(node, *tasks)
    await run_all(node, room, 40)
    assert await run_all(node, room, 20, timeout_s=500) == keyed
    await pass_time(1)
    assert room_left(node) == HistoryConfig().jobs_ahead_bytes_max
    assert len(in_memory(node)) <= 8
    assert len(node.shard().jobs.timers) == 0


@in_room(sweep_every_s=1.0)
async def test_the_mark_waits_for_jobs_that_are_due_and_not_decided(room: Room) -> None:
    """Invariants 13, 14: a new owner reads timers from the mark on."""
    first = await room.node(1)
    await create_named(first, "a", due_us=room.now_us + 5 * S)
    wake_us = room.timers()[0].wake_us
    node = await room.node(1, 2)
    hold = node.holds.hold("load_jobs")
    await hold.reached()
    for number in range(40):
        await create_named(node, f"b{number}", due_us=room.now_us + S // 2)
        await pass_time(1)
        assert node.shard().timers.next_mark_us() <= wake_us
        assert room.tables.shards[1].timer_mark_us <= wake_us
    assert node.shard().timers.busy
    hold.release()
    assert "a" in await run_all(node, room, 41)
    for number in range(3):
        await create_named(node, f"c{number}", due_us=room.now_us + S // 2)
        await pass_time(20)
    assert room.tables.shards[1].timer_mark_us > wake_us


@in_room()
async def test_time_may_jump_over_what_is_far(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", due_us=room.now_us + 100 * S)
    room.database_clock.jump(200)
    node.rooms.database_clock.sample(room.now_us)
    node.shard().timers.time_jumped()
    assert sorted(names(await poll(node, room.worker()))) == ["a", "b"]


# ---- the cache


class Keeper:
    """The jobs of a shard, none of which may be forgotten now."""

    def __init__(self) -> None:
        self.asked = 0

    def may_forget(self) -> bool:
        self.asked += 1
        return False

    def forget(self, run: object) -> None:
        raise AssertionError


@in_room(seeds=(0,))
async def test_a_shard_that_may_forget_nothing_does_not_make_each_step_look_at_all_its_jobs(
    room: Room,
) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    run = node.shard().jobs.memory.jobs[id_of("a")]
    cache, keeper = JobCache(0, 0), Keeper()
    cache.owners[1] = keeper
    for number in range(3 * LOOKS_MAX):
        cache._open[id_of(f"a{number}")] = run
    cache.trim()
    assert keeper.asked == LOOKS_MAX
    assert len(cache) == 3 * LOOKS_MAX


# ---- every order


class Interleaving:
    """Creations, commits, windows and reads of jobs, in any order."""

    def __init__(self, order: list[int], delays: list[int], seed: int) -> None:
        self.order, self.delays, self.seed = order, delays, seed

    async def story(self, loop: SimulatedLoop) -> None:
        config = HistoryConfig(
            window_s=6.0,
            window_load_every_s=3.0,
            sweep_every_s=1.0,
            jobs_ahead_bytes_max=2 * JOB_BYTES,
            jobs_cached_max=2,
        )
        room = Room(loop, self.seed, config)
        node = await room.node(1)
        calls: list[asyncio.Future[None]] = []
        gates = Gates(node.faults, "commit", "load_timers", "load_jobs", "sweep")
        pending = [(f"j{number}", delay / 2 * S) for number, delay in enumerate(self.delays)]
        due: dict[str, int] = {}
        for choice in self.order:
            match choice % 4:
                case 0 if pending:
                    name, delay_us = pending.pop()
                    due[name] = room.now_us + int(delay_us)
                    create_named(node, name, due_us=due[name])
                case 1 if due and choice > 5:
                    name = sorted(due)[choice % len(due)]
                    calls.append(asyncio.ensure_future(self.put_off(node, due, name)))
                case 2 if gates.waiting:
                    gates.let_one_go(choice)
                case _:
                    await pass_time(0.7)
            await turns(8)
        gates.let_all_go()
        await asyncio.gather(*calls)
        await self.finish(room, node, due)
        await room.stop()

    async def put_off(self, node: Node, due: dict[str, int], name: str) -> None:
        later_us = due[name] + 2 * S
        try:
            await reschedule(node, name, later_us)
        except Rejected:  # it has not been made yet, or has been handed out
            return
        due[name] = later_us

    async def finish(self, room: Room, node: Node, due: dict[str, int]) -> None:
        started: list[str] = []
        for _ in range(45):
            tasks = await poll(node, room.worker(), timeout_s=1)
            for task in tasks:
                [name] = names([task])
                started.append(name)
                assert task.started_us >= due[name], "invariant 21"
            if tasks:
                await complete(node, *tasks)
        assert sorted(started) == sorted(due), "invariants 13, 22: stranded, or started twice"
        assert all(row_of(room, name).closed_us for name in due)
        assert node.shard().timers.lag_us() == 0
        assert not node.alarms


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    order=st.lists(st.integers(0, 23), min_size=4, max_size=40),
    delays=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    seed=st.integers(0, 5),
)
def test_creations_windows_and_reads_in_every_order(
    order: list[int], delays: list[int], seed: int
) -> None:
    """Invariants 13, 15, 21, 22: no job of later is stranded, none starts twice, none early."""
    with patch.object(timers_module, "PAGE", 2):
        simulate(Interleaving(order, delays, seed).story, seed)
