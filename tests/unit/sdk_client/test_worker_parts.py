"""The parts of a worker that need neither an engine nor a clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from perdure._replay.interrupts import DeadlockDetected
from perdure._replay.messages import Event, OtherEvent, Task, TaskSuccess
from perdure._wire.calls import Target
from perdure._wire.connection import BATCH_BYTES_MAX
from perdure._wire.held import HeldTaskNews, HeldTaskState
from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import PolledWorkflowTask
from perdure._worker.cache import CachedRun, RunCache
from perdure._worker.deadlock import LIMIT_S, DeadlockWatch
from perdure._worker.guard import TICK_S, GuardThread
from perdure._worker.heartbeat import PERIOD_S, Heartbeats, LoopProbe
from perdure._worker.history import GIVE_UP_AFTER_S, TaskHistory
from perdure._worker.holding import HeldTask, HeldTasks, Progress
from perdure.errors import HistoryError, RPCError, RPCStatusCode
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as pb


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s

    def surroundings(self) -> Surroundings:
        return Surroundings(self, self.sleep, lambda: 0.0, lambda: "id")


async def turn() -> None:
    """The loop has done what was due."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


# --- heartbeats -----------------------------------------------------------------------------------


class Door:
    def __init__(self) -> None:
        self.beats: list[list[HeldTaskNews]] = []
        self.stalls: list[int] = []
        self.answer: list[tuple[int, HeldTaskState]] = []
        self.fails = False

    def heartbeat(
        self, held: Sequence[HeldTaskNews], loop_stalled_ms: int, timeout_s: float
    ) -> list[tuple[int, HeldTaskState]]:
        self.beats.append(list(held))
        self.stalls.append(loop_stalled_ms)
        if self.fails:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE)
        return self.answer


class Beating:
    def __init__(self) -> None:
        self.clock = Clock()
        self.door = Door()
        self.held = HeldTasks()
        loop = asyncio.get_running_loop()
        probe = LoopProbe(loop, self.clock)
        self.beats = Heartbeats(self.held, self.door, probe, loop, self.clock)


async def test_a_heartbeat_every_period_and_sooner_after_a_failure() -> None:
    it = Beating()
    it.beats.tick()
    it.beats.tick()
    assert len(it.door.beats) == 1
    it.clock.now_s += PERIOD_S
    it.door.fails = True
    it.beats.tick()
    it.beats.tick()
    assert len(it.door.beats) == 3
    it.door.fails = False
    it.beats.tick()
    it.beats.tick()
    assert len(it.door.beats) == 4


async def test_a_short_heartbeat_timeout_is_answered_in_time() -> None:
    """reliability.md, leases and heartbeats: an attempt that reports its progress in time is not
    taken for dead. Every 2 s, as for other tasks, would be too late for a timeout of one."""
    it = Beating()
    it.held.add(HeldTask(b"slow"))
    it.held.add(HeldTask(b"quick"))
    it.held.watch_heartbeats(b"quick", 1.0)
    it.held.watch_heartbeats(b"gone before", 1.0)
    beats_at: list[float] = []

    def tick_until(end_s: float) -> list[float]:
        beats_at.clear()
        while it.clock.now_s < end_s:
            before = len(it.door.beats)
            it.beats.tick()
            if len(it.door.beats) > before:
                beats_at.append(it.clock.now_s - start_s)
            it.clock.now_s += TICK_S
        return beats_at

    start_s = it.clock.now_s
    assert tick_until(start_s + 2) == [0, 0.5, 1, 1.5]

    it.held.remove(b"quick")
    start_s = it.clock.now_s
    assert tick_until(start_s + 4.5) == [1.5, 3.5]


@pytest.mark.parametrize("timeout_s", [1.0, 2.0, 5.0, 9.0])
async def test_progress_reported_every_half_of_a_short_timeout_arrives_in_time(
    timeout_s: float,
) -> None:
    it = Beating()
    task = HeldTask(b"quick")
    it.held.add(task)
    it.held.watch_heartbeats(b"quick", timeout_s)
    start_s = heard_at_s = it.clock.now_s
    report_at_s = start_s + timeout_s / 2
    gaps: list[float] = []
    while it.clock.now_s < start_s + 10 * timeout_s:
        it.beats.tick()
        if it.door.beats and it.door.beats[-1][0].heartbeat_details is not None:
            it.door.beats.clear()
            gaps.append(it.clock.now_s - heard_at_s)
            heard_at_s = it.clock.now_s
        it.clock.now_s += it.beats.tick_after_s()
        if it.clock.now_s >= report_at_s:
            task.progress = Progress(b"")
            report_at_s += timeout_s / 2
    assert len(gaps) > 10
    assert max(gaps) < 0.8 * timeout_s


async def test_without_news_a_short_timeout_makes_no_more_heartbeats() -> None:
    it = Beating()
    it.held.add(HeldTask(b"quick"))
    it.held.watch_heartbeats(b"quick", 2.0)
    assert it.beats.tick_after_s() == 0.2
    end_s = it.clock.now_s + 9.9
    while it.clock.now_s < end_s:
        it.beats.tick()
        it.clock.now_s += it.beats.tick_after_s()
    assert len(it.door.beats) <= 13
    it.held.remove(b"quick")
    assert it.beats.tick_after_s() == TICK_S


async def test_progress_is_sent_until_it_has_arrived_and_the_same_again_is_new() -> None:
    it = Beating()
    task = HeldTask(b"t")
    it.held.add(task)
    task.progress = Progress(b"")
    it.door.fails = True
    with pytest.raises(RPCError):
        it.beats.beat()
    it.door.fails = False
    it.beats.beat()
    it.beats.beat()
    task.progress = Progress(b"")
    it.beats.beat()
    assert [beat[0].heartbeat_details for beat in it.door.beats] == [b"", b"", None, b""]


async def test_all_tasks_are_listed_even_when_their_progress_does_not_fit() -> None:
    it = Beating()
    for name in (b"a", b"b", b"c"):
        task = HeldTask(name)
        task.progress = Progress(b"x" * (BATCH_BYTES_MAX // 2 + 1))
        it.held.add(task)
    for _ in range(4):
        it.beats.beat()
    assert [[one.token for one in beat] for beat in it.door.beats] == [[b"a", b"b", b"c"]] * 4
    sent = [[one.token for one in beat if one.heartbeat_details] for beat in it.door.beats]
    assert sent == [[b"a"], [b"b"], [b"c"], []]


async def test_answers_are_delivered_on_the_loop_to_those_still_held() -> None:
    it = Beating()
    heard: list[str] = []
    for name in ("a", "b", "c"):
        it.held.add(
            HeldTask(
                name.encode(),
                lambda name=name: heard.append(f"{name} lost"),  # type: ignore[misc]  # default
                lambda name=name: heard.append(f"{name} cancel"),  # type: ignore[misc]  # default
            )
        )
    it.door.answer = [
        (0, HeldTaskState.LOST),
        (1, HeldTaskState.CANCEL_REQUESTED),
        (2, HeldTaskState.LOST),
    ]
    it.beats.beat()
    it.held.remove(b"c")
    assert heard == []
    await turn()
    assert heard == ["a lost", "b cancel"]


async def test_a_loop_that_does_not_turn_is_measured() -> None:
    clock = Clock()
    probe = LoopProbe(asyncio.get_running_loop(), clock)
    assert probe.stalled_ms() == 0
    clock.now_s += 2
    assert probe.stalled_ms() == 2_000
    clock.now_s += 1
    assert probe.stalled_ms() == 3_000
    await turn()
    assert probe.stalled_ms() == 0


def test_the_guard_survives_a_defect_and_stops_once() -> None:
    ran = threading.Event()
    twice = iter([ValueError("a defect")])

    def job() -> None:
        error = next(twice, None)
        if error is not None:
            raise error
        ran.set()

    guard = GuardThread((job, ran.set))
    guard.start()
    assert ran.wait(10)
    guard.stop()
    guard.stop()


# --- deadlocks ------------------------------------------------------------------------------------


def polled(**fields: object) -> PolledWorkflowTask:
    return PolledWorkflowTask(pb.WorkflowTask(workflow_id="w", run_id="r", **fields))


class Stuck:
    """A thread that watches over itself and spins in its second task until it is interrupted."""

    def __init__(self, clock: Clock) -> None:
        self.told: list[tuple[PolledWorkflowTask, str]] = []
        self.first, self.second = polled(), polled()
        self.interrupted = False
        self.watch: DeadlockWatch | None = None
        self._clock = clock
        self._has_watch = threading.Event()
        self._go_on = threading.Event()
        self._spins = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._has_watch.wait(10)

    def go_on(self) -> None:
        self._go_on.set()
        assert self._spins.wait(10)

    def join(self) -> None:
        self._thread.join(10)

    def _run(self) -> None:
        self.watch = watch = DeadlockWatch(
            lambda task, stack: self.told.append((task, stack)), self._clock
        )
        watch.current = self.first
        self._has_watch.set()
        self._go_on.wait(10)
        try:
            watch.current = self.second
            self._spins.set()
            while True:
                pass
        except DeadlockDetected:
            self.interrupted = True
        watch.leave(self.second)
        watch.leave(self.second)


def test_only_a_task_that_stays_is_reported_and_interrupted() -> None:
    clock = Clock()
    stuck = Stuck(clock)
    watch = stuck.watch
    assert watch is not None
    watch.tick()
    clock.now_s += LIMIT_S
    stuck.go_on()
    watch.tick()
    clock.now_s += LIMIT_S - 0.1
    watch.tick()
    assert stuck.told == []

    clock.now_s += 0.1
    watch.tick()
    stuck.join()
    assert stuck.interrupted
    assert [task for task, _ in stuck.told] == [stuck.second]
    assert watch.reported is stuck.second
    assert "in _run" in stuck.told[0][1]

    clock.now_s += LIMIT_S
    watch.tick()
    watch.tick()
    assert len(stuck.told) == 1


# --- the cache ------------------------------------------------------------------------------------


class FakeInstance:
    def __init__(self) -> None:
        self.evicted = 0

    def fits(self, task: Task) -> bool:
        return True

    def activate(self, task: Task) -> TaskSuccess:
        raise NotImplementedError

    def evict(self) -> None:
        self.evicted += 1


def test_the_least_recently_used_run_is_evicted_once() -> None:
    cache = RunCache(2)
    instances = {name: FakeInstance() for name in "abc"}
    runs = {name: CachedRun(name, instance) for name, instance in instances.items()}
    for name in "ab":
        cache.put(runs[name])
    cache.put(runs["a"])  # used again
    cache.put(runs["c"])
    assert [instances[name].evicted for name in "abc"] == [0, 1, 0]
    cache.evict(runs["b"])
    assert instances["b"].evicted == 1
    assert cache.get("b") is None

    other = CachedRun("a", FakeInstance())
    cache.put(other)
    assert instances["a"].evicted == 1
    cache.evict(runs["a"])  # the one before it, evicted already
    assert cache.get("a") is other
    cache.clear()
    assert instances["c"].evicted == 1


def test_a_cache_of_nothing() -> None:
    assert not RunCache(0).keeps_runs
    assert RunCache(1).keeps_runs


# --- histories ------------------------------------------------------------------------------------


def events(first: int, last: int) -> list[Event]:
    return [OtherEvent(event_id=one, time_us=0) for one in range(first, last + 1)]


class Pages:
    def __init__(self, pages: dict[bytes, tuple[list[Event], bytes] | RPCError]) -> None:
        self.pages = pages
        self.failures: list[RPCError] = []

    async def task_history(self, page_token: bytes) -> tuple[list[Event], bytes]:
        if self.failures:
            raise self.failures.pop()
        page = self.pages[page_token]
        if isinstance(page, RPCError):
            raise page
        return page

    async def replay_page(
        self, target: Target, page_token: bytes, timeout_s: float
    ) -> tuple[list[Event], bytes]:
        assert target == Target("ns", "w", "r")
        return await self.task_history(page_token)


def history_of(pages: Pages, clock: Clock | None = None) -> TaskHistory:
    return TaskHistory(
        pages.task_history, pages.replay_page, "ns", (clock or Clock()).surroundings()
    )


def task_with(first: int, last: int, **fields: object) -> PolledWorkflowTask:
    return polled(
        events=[event_pb2.HistoryEvent(event_id=one) for one in range(first, last + 1)], **fields
    )


async def test_what_comes_before_a_delta_is_fetched_and_no_more() -> None:
    pages = Pages({b"": (events(1, 3), b"2"), b"2": (events(4, 9), b"3")})
    found = await history_of(pages).fetch_before(task_with(6, 8))
    assert [one.event_id for one in found] == [1, 2, 3, 4, 5]

    query = polled(started_event_id=7, query_only=True)
    found = await history_of(pages).fetch_before(query)
    assert [one.event_id for one in found] == [1, 2, 3, 4, 5, 6, 7]


async def test_what_comes_after_the_first_page_is_fetched() -> None:
    pages = Pages({b"1": (events(4, 5), b"2"), b"2": (events(6, 7), b"")})
    task = task_with(1, 3, next_page_token=b"1", started_event_id=7)
    found = await history_of(pages).fetch_after(task)
    assert [one.event_id for one in found] == [4, 5, 6, 7]
    assert await history_of(pages).fetch_after(task_with(1, 3)) == []


async def test_a_history_with_a_gap_is_refused() -> None:
    with pytest.raises(HistoryError):
        await history_of(Pages({b"": (events(2, 5), b"")})).fetch_before(task_with(6, 8))
    with pytest.raises(HistoryError):
        await history_of(Pages({b"": (events(1, 3), b"")})).fetch_before(task_with(6, 8))
    short = Pages({b"1": (events(4, 5), b"")})
    with pytest.raises(HistoryError):
        await history_of(short).fetch_after(
            task_with(1, 3, next_page_token=b"1", started_event_id=7)
        )


async def test_fetching_insists_but_not_for_ever() -> None:
    pages = Pages({b"": (events(1, 5), b"")})
    pages.failures = [RPCError("away", RPCStatusCode.UNAVAILABLE)] * 3
    assert len(await history_of(pages).fetch_before(task_with(6, 6))) == 5

    clock = Clock()
    gone = Pages({b"": RPCError("away", RPCStatusCode.UNAVAILABLE)})
    with pytest.raises(RPCError):
        await history_of(gone, clock).fetch_before(task_with(6, 6))
    assert GIVE_UP_AFTER_S - 4 < clock.now_s - 100.0 <= GIVE_UP_AFTER_S

    refused = Pages({b"": RPCError("no", RPCStatusCode.NOT_FOUND)})
    with pytest.raises(RPCError):
        await history_of(refused).fetch_before(task_with(6, 6))
