"""Timers in two phases: a loader, a heap, and nothing that falls between them (design §5)."""

import hypothesis
from hypothesis import strategies as st
from tests.simulation.loop import simulate
from tests.unit.history.room import (
    Gates,
    Room,
    cmd,
    in_room,
    pass_time,
    timer,
    turns,
)

from perdure_engine.core import events as ev
from perdure_engine.history import timers as timers_module
from perdure_engine.history.rooms import HistoryConfig
from perdure_engine.history.timers import MARK_BEHIND_US
from perdure_engine.ports.store import StoreUnavailable
from perdure_engine.store.memory import Moment

SECOND = 1_000_000


async def fired(room: Room, run_id: bytes) -> list[ev.TimerFired]:
    return [e for e in await room.history(run_id) if isinstance(e, ev.TimerFired)]


@in_room()
async def test_a_timer_fires_once_within_moments_of_its_time(room: Room) -> None:
    """Invariants 21, 22."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(7)])
    due_us = room.timers()[0].due_us
    await pass_time(6.9)
    assert not await fired(room, run_id)
    await pass_time(30)
    [event] = await fired(room, run_id)
    assert due_us <= event.time_us < due_us + SECOND


@in_room()
async def test_invariant_21_never_early_by_the_databases_clock(room: Room) -> None:
    """The node's own clock runs ahead by a minute: db_low is a lower bound, whatever the node thinks."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(30)])
    due_us = room.timers()[0].due_us
    room.database_clock.jump(-20)  # another database node answers, whose clock is behind
    at: list[int] = []
    commit = node.store.commit

    async def note(batch):  # type: ignore[no-untyped-def]
        at.append(room.now_us)
        return await commit(batch)

    node.store.commit = note  # type: ignore[method-assign]
    await pass_time(100)
    [event] = await fired(room, run_id)
    assert event.time_us >= due_us


@in_room()
async def test_a_late_answer_of_the_database_makes_a_low_bound_not_a_high_one(room: Room) -> None:
    """Invariant 21: the sample was 4 s old when it came in."""
    node = await room.node(1)
    hold = node.holds.hold("commit", Moment.AFTER)
    start = node.start("order")
    await hold.reached()
    await pass_time(4)
    hold.release()
    await start
    assert node.rooms.database_clock.low_us() <= room.now_us


@in_room()
async def test_timers_beyond_the_window_are_left_in_the_database_until_it_comes_near(
    room: Room,
) -> None:
    """Invariants 13, 22."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(1_000), timer(10, "near")])
    assert [entry[3] for entry in node.shard().timers._heap] == [
        node.shard().runs[run_id].state.folded.timers["near"].started_event_id
    ]
    await pass_time(999)
    assert len(await fired(room, run_id)) == 1
    await pass_time(5)
    assert len(await fired(room, run_id)) == 2


@in_room()
async def test_invariant_23_a_timer_that_was_due_while_nobody_owned_the_shard_fires_at_once(
    room: Room,
) -> None:
    """Invariants 13, 23, 27: and the later ones in their order."""
    first = await room.node(1)
    run_id = await first.at("order", room.worker(), [timer(n, f"t{n}") for n in (9, 3, 6, 400)])
    await first.stop()
    await pass_time(100)
    await room.node(1)
    await pass_time(1)
    assert [e.timer_id for e in await fired(room, run_id)] == ["t3", "t6", "t9"]
    await pass_time(400)
    assert len(await fired(room, run_id)) == 4


# ---- the window's end


@in_room()
async def test_the_windows_end_is_raised_before_the_read_begins(room: Room) -> None:
    """Invariant 15: a timer that commits during the read, and is not seen by it, is on the heap."""
    node = await room.node()
    hold = node.holds.hold("load_timers")
    await node.take(1)
    await hold.reached()
    run_id = await node.at("order", room.worker(), [timer(30)])
    assert node.shard().timers._heap, "published against the end as it is now"
    hold.release()
    await pass_time(40)
    assert len(await fired(room, run_id)) == 1


@in_room()
async def test_publish_compares_with_the_end_as_it_is_at_publish_time(room: Room) -> None:
    """Invariants 13, 15: decided before the window moved, read by nobody, published after."""
    node = await room.node(1)
    worker = room.worker()
    await pass_time(54)  # the next window is read at 60 s
    await node.start("order")
    task = await node.workflow_task(worker)
    commit = node.holds.hold("commit")
    done = node.complete(task, [timer(100)])
    await commit.reached()
    await pass_time(10)  # it has been read: the timer was not there
    commit.release()
    await done
    [run_id] = node.shard().runs
    assert len(node.shard().timers._heap) == 1
    await pass_time(160)
    assert len(await fired(room, run_id)) == 1


@in_room()
async def test_a_timer_that_comes_both_ways_is_taken_once(room: Room) -> None:
    """Invariant 22: landed, read by the loader, and then published."""
    node = await room.node(1)
    worker = room.worker()
    await pass_time(54)
    await node.start("order")
    task = await node.workflow_task(worker)
    hold = node.holds.hold("commit", Moment.AFTER)
    done = node.complete(task, [timer(100)])
    await hold.reached()
    await pass_time(10)
    hold.release()
    await done
    assert len(node.shard().timers._heap) == 1
    await pass_time(120)
    [run_id] = node.shard().runs
    assert len(await fired(room, run_id)) == 1


@in_room()
async def test_a_read_that_fails_half_way_strands_nothing(room: Room) -> None:
    """Invariants 13, 23: the end goes back to what is known for certain, and the rest is read again."""
    timers_module_page = timers_module.PAGE
    timers_module.PAGE = 3
    try:
        first = await room.node(1)
        run_id = await first.at(
            "order", room.worker(), [timer(20 + n, f"t{n:02}") for n in range(10)]
        )
        node = await room.node()
        reads = 0
        load = node.store.load_timers

        async def fail_the_second(*args):  # type: ignore[no-untyped-def]
            nonlocal reads
            reads += 1
            if reads == 2:
                raise StoreUnavailable("away")
            return await load(*args)

        node.store.load_timers = fail_the_second  # type: ignore[method-assign]
        await node.take(1)
        await turns(20)
        assert node.shard().timers.window_end_us <= room.timers()[3].wake_us
        other = await node.at("other", room.worker("w2"), [timer(20.5, "between")])
        await pass_time(60)
        assert len(await fired(room, other)) == 1
        assert [e.timer_id for e in await fired(room, run_id)] == [f"t{n:02}" for n in range(10)]
    finally:
        timers_module.PAGE = timers_module_page


@in_room(timers_in_memory_max=6)
async def test_a_page_that_fills_the_budget_lowers_the_end(room: Room) -> None:
    """Invariants 13, 15: the rest is read when the first have fired, and new ones are not lost in between."""
    page, timers_module.PAGE = timers_module.PAGE, 3
    try:
        first = await room.node(1)
        run_id = await first.at(
            "order", room.worker(), [timer(20 + n, f"t{n:02}") for n in range(20)]
        )
        node = await room.node(1)
        await turns(20)
        timers = node.shard().timers
        assert len(timers._heap) == 6
        assert timers.window_end_us == timers._loaded_to[0] == room.timers()[5].wake_us
        other = await node.at("other", room.worker(), [timer(10, "before"), timer(30.5, "after")])
        await pass_time(60)
        assert len(await fired(room, run_id)) == 20
        assert len(await fired(room, other)) == 2
    finally:
        timers_module.PAGE = page


@in_room(fires_per_s_max=40)
async def test_a_mass_wake_up_is_paced_by_a_token_bucket(room: Room) -> None:
    """Invariants 54, 69: 200 timers of one second, 40 a second, none lost."""
    first = await room.node(1)
    run_id = await first.at("order", room.worker(), [timer(5, f"t{n}") for n in range(200)])
    await first.stop()
    await pass_time(60)
    node = await room.node(1)
    await pass_time(2)
    assert 40 <= len(await fired(room, run_id)) <= 140
    await pass_time(8)
    assert len(await fired(room, run_id)) == 200
    assert not node.alarms


# ---- the mark


def mark_of(room: Room) -> int:
    return room.tables.shards[1].timer_mark_us


@in_room(sweep_every_s=1.0)
async def test_the_saved_mark_is_never_ahead_of_an_unfinished_key_nor_of_ten_seconds_ago(
    room: Room,
) -> None:
    """Invariants 13, 14: a new owner reads from the mark, so nothing unfinished may lie before it."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("late", worker, [timer(40, "first"), timer(90, "second")])
    marks = []
    for _ in range(150):
        await pass_time(1)
        if _ % 5 == 0:
            await node.at(f"o{_}", worker, [timer(1)])
        live = [row.wake_us for row in room.timers()]
        assert mark_of(room) <= min(live, default=1 << 62)
        assert mark_of(room) <= room.now_us - MARK_BEHIND_US
        marks.append(mark_of(room))
    assert marks == sorted(marks)
    assert marks[-1] > room.now_us - 40 * SECOND, "it does go on"


@in_room(seeds=(0,), sweep_every_s=1.0, fires_per_s_max=20)
async def test_the_mark_waits_for_what_the_token_bucket_holds_back(room: Room) -> None:
    """Invariants 13, 14: due for half a minute and still on the heap."""
    node = await room.node(1)
    run_id = await node.at("order", room.worker(), [timer(5, f"t{n}") for n in range(600)])
    wake_us = room.timers()[0].wake_us
    for _ in range(25):
        await pass_time(1)
        assert mark_of(room) <= wake_us
    assert room.now_us - MARK_BEHIND_US > wake_us
    await pass_time(60)
    assert len(await fired(room, run_id)) == 600
    assert not node.alarms


@in_room(sweep_every_s=1.0)
async def test_the_mark_waits_for_what_is_not_loaded(room: Room) -> None:
    """Invariants 13, 14, 23: the loader's reads fail for minutes while the rest goes on."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at("order", worker, [timer(150)])
    wake_us = room.timers()[0].wake_us
    for _ in range(200):
        node.faults.fail_next("load_timers", StoreUnavailable("away"))
    for number in range(22):
        await pass_time(10)
        await node.at(f"o{number}", worker, [timer(1)])
        assert mark_of(room) <= wake_us
    assert "sweep_met_a_live_row" not in node.alarms
    await pass_time(200)
    assert len(await fired(room, run_id)) == 1


@in_room(sweep_every_s=1.0)
async def test_the_mark_waits_for_a_firing_that_is_not_saved_yet(room: Room) -> None:
    """Invariants 13, 14: off the heap, its commit in flight for a long time."""
    node = await room.node(1, 2)
    run_id = await node.at("order", room.worker(), [timer(3)])
    wake_us = room.timers()[0].wake_us
    hold = node.holds.hold("load_run")
    node.shard().evict(node.shard().runs[run_id])
    await hold.reached()  # the firing is parked
    await node.at("other", room.worker(), [timer(1)])
    for _ in range(30):
        await pass_time(1)
        await node.signal("other")
        assert mark_of(room) <= wake_us
        assert node.shard().timers.next_mark_us() <= wake_us
    hold.release()
    await pass_time(1)
    assert len(await fired(room, run_id)) == 1


@in_room(sweep_every_s=1.0, runs_cached_max=1)
async def test_the_mark_goes_on_past_a_timer_whose_reason_was_gone(room: Room) -> None:
    """Invariant 14: cancelled, its run out of memory; the heap still knew it."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(5)])
    await node.signal("order")
    task = await node.workflow_task(worker)
    await node.complete(task, [cmd.CancelTimer("t")])
    await node.start("other")
    await node.start("another")
    await pass_time(60)
    for number in range(3):
        await node.at(f"o{number}", room.worker("w2"), [timer(0.1)])
        await pass_time(20)
    assert not node.shard().timers._firing
    assert mark_of(room) > room.now_us - 40 * SECOND


@in_room(sweep_every_s=1.0)
async def test_no_timer_wakes_before_the_mark(room: Room) -> None:
    """wake_at = max(due, mark): what is due long ago is still found (design §4)."""
    node = await room.node(1)
    await node.at("order", room.worker(), [timer(1)])
    await pass_time(40)
    mark_us = mark_of(room)
    assert mark_us > 0
    node.rooms.database_clock._floor_us = 0
    node.rooms.database_clock._best_us = -(10**15)
    node.rooms.database_clock._previous_us = None  # as if time had been lost
    hold = node.holds.hold("commit")
    node.start("old", run_timeout_ms=1)
    await hold.reached()
    hold.release()
    await turns(20)
    assert all(row.wake_us >= mark_us for row in room.timers())


# ---- every order


class Interleaving:
    """A shard whose loader, commits and publishes are let go one at a time, in any order."""

    def __init__(self, order: list[int], delays: list[int], seed: int) -> None:
        self.order = order
        self.delays = delays
        self.seed = seed

    async def story(self, loop) -> None:  # type: ignore[no-untyped-def]
        config = HistoryConfig(
            window_s=20.0, window_load_every_s=3.0, timers_in_memory_max=3, sweep_every_s=2.0
        )
        room = Room(loop, self.seed, config)
        node = await room.node(1)
        runs = []
        for number in range(len(self.delays)):
            runs.append((await node.start(f"o{number}")).run_id)
        answer = await node.polling(room.worker(), workflow=100, timeout_s=1)
        tasks = {task.run_id: task for task in answer.workflow_tasks}
        gates = Gates(node.faults, "commit", "load_timers", "sweep")
        pending = list(zip(runs, self.delays, strict=True))
        for choice in self.order:
            match choice % 3:
                case 0 if pending:
                    run_id, delay = pending.pop()
                    node.complete(tasks[run_id], [timer(delay / 2)])
                case 1 if gates.waiting:
                    gates.let_one_go(choice)
                case _:
                    await pass_time(0.7)
            await turns(8)
        gates.let_all_go()
        for run_id, delay in pending:
            node.complete(tasks[run_id], [timer(delay / 2)])
        # work that was held up longer than a task may take was put back: finish it
        await pass_time(1)
        await self.finish(room, node, runs)
        await room.stop()

    async def finish(self, room: Room, node, runs: list[bytes]) -> None:  # type: ignore[no-untyped-def]
        for _ in range(40):
            await pass_time(1)
        for run_id in runs:
            history = await room.history(run_id)
            started = [e for e in history if isinstance(e, ev.TimerStarted)]
            done = [e for e in history if isinstance(e, ev.TimerFired)]
            assert len(done) == len(started), "invariants 13, 22: a timer stranded, or fired twice"
            for before, after in zip(started, done, strict=True):
                assert after.time_us >= before.time_us + before.start_to_fire_ms * 1000, (
                    "invariant 21"
                )
        live = [row.wake_us for row in room.timers()]
        assert mark_of(room) <= min(live, default=1 << 62)
        assert not node.alarms


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    order=st.lists(st.integers(0, 11), min_size=4, max_size=30),
    delays=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    seed=st.integers(0, 5),
)
def test_loader_commit_and_publish_in_every_order(
    order: list[int], delays: list[int], seed: int
) -> None:
    """Invariants 13, 15, 21, 22 (issue 2): no timer stranded, none twice, none early."""
    page, timers_module.PAGE = timers_module.PAGE, 2
    try:
        simulate(Interleaving(order, delays, seed).story, seed)
    finally:
        timers_module.PAGE = page
