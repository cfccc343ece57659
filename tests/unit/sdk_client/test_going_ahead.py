"""A worker goes ahead: what travels with a result, and what becomes of the run in memory by the engine's answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import CONVERTER, START_US, PocketEngine, payloads
from tests.unit.sdk.test_replay_ahead import LIMIT, Steps, activity_of
from tests.unit.sdk.test_replay_properties import work
from tests.unit.sdk_client.test_edge import Reversing

from perdure import activity, workflow
from perdure._definitions import activity_definition
from perdure._replay.interrupts import DeadlockDetected
from perdure._replay.messages import Event, Task
from perdure._wire.completions import Completion, activity_success
from perdure._wire.connection import Connection
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.payloads import payloads_to_bytes
from perdure._wire.tasks import PolledActivityTask, PolledWorkflowTask
from perdure._wire.worker_service import WorkerIdentity, WorkerService
from perdure._worker.activities import Activities
from perdure._worker.ahead import (
    LUCK_MAX,
    MISS_COSTS,
    TYPES_MAX,
    GoesAhead,
    TaskAhead,
    WorkAhead,
    _Luck,
)
from perdure._worker.cache import CachedRun, RunCache
from perdure._worker.deadlock import DeadlockWatch
from perdure._worker.guarded import GuardedCode
from perdure._worker.holding import HeldTasks
from perdure._worker.local_activities import LocalActivities
from perdure._worker.rooms import WorkerRooms
from perdure._worker.slots import Slots
from perdure._worker.workflow_tasks import WorkflowTasks
from perdure.errors import PayloadError, RPCError, RPCStatusCode
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as pb

RUN_ID = "0199c7d2-1111-7222-8333-444455556666"


@workflow.defn
class Stuck:
    """Does not give the event loop back: the guard interrupts it."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(work, 1, start_to_close_timeout=LIMIT)
        raise DeadlockDetected


@workflow.defn
class BadValue:
    """Asks for what no message can carry."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(work, 1, start_to_close_timeout=LIMIT)
        await workflow.execute_activity("\ud800", 1, start_to_close_timeout=LIMIT)


class Room:
    """A run that waits for its first activity, in a worker's memory."""

    def __init__(self, cls: type = Steps, *args: Any, **options: Any) -> None:
        self.engine = PocketEngine(cls, *args, **options)
        self.activity_id = activity_of(self.engine.task())
        self.cache = RunCache(10)
        self.run = CachedRun(RUN_ID, self.engine.instance)
        self.cache.put(self.run)
        self.watch = DeadlockWatch(lambda *_: None, lambda: 0.0)
        self.goes_ahead = GoesAhead(self.cache, GuardedCode(self.watch, CONVERTER))

    def polled(self, **changes: Any) -> PolledActivityTask:
        fields: dict[str, Any] = {
            "token": b"t",
            "activity_type": "work",
            "activity_id": self.activity_id,
            "workflow_id": "w-1",
            "run_id": RUN_ID,
            "workflow_type": "Steps",
            "input": payloads_to_bytes(payloads(7)),
            "started_time_us": self.engine.now_us,
            "may_go_ahead": True,
        }
        return PolledActivityTask(pb.ActivityTask(**(fields | changes)))

    def after(self, **changes: Any) -> WorkAhead | None:
        alone = activity_success(b"t", payloads(7))
        return self.goes_ahead.after(
            self.polled(**changes), payloads(7), alone, self.engine.now_us + 5
        )

    @property
    def is_kept(self) -> bool:
        return self.cache.get(RUN_ID) is self.run and not self.run.is_evicted


class Activating:
    """An instance one of whose methods is another."""

    def __init__(self, real: Any, activate: Callable[[Task], Any]) -> None:
        self.real = real
        self.activate = activate

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def message(work: WorkAhead | None) -> pb.WorkflowTaskAhead:
    assert work is not None
    return work.completion.message.activity_success.ahead


def test_what_follows_travels_with_the_result() -> None:
    room = Room(Steps, ["step", "step"])
    work = room.after()

    ahead = message(work)
    assert work is not None
    assert work.completion.message.activity_success.result == payloads_to_bytes(payloads(7))
    assert ahead.previous_started_event_id == room.engine.previous_started_event_id
    # Completed, Scheduled; the attempt's Started and Completed; Scheduled, Started
    assert ahead.started_event_id == ahead.previous_started_event_id + 6
    assert ahead.started_time_us == room.engine.now_us + 5
    assert ahead.success.cached
    assert [one.WhichOneof("command") for one in ahead.success.commands] == ["schedule_activity"]


def test_a_run_that_ends_is_not_kept() -> None:
    room = Room(Steps, ["step"])
    ahead = message(room.after())

    assert not ahead.success.cached
    assert [one.WhichOneof("command") for one in ahead.success.commands] == ["complete_workflow"]
    assert not room.is_kept


def test_it_is_ahead_until_the_engine_has_gone_along() -> None:
    room = Room(Steps, ["step", "step"])
    work = room.after()
    assert work is not None
    assert room.run.is_ahead
    assert room.after(activity_id="2") is None, "it goes no further ahead"

    work.settle(counts=True)
    assert not room.run.is_ahead
    assert room.is_kept


def test_what_does_not_count_is_forgotten() -> None:
    room = Room(Steps, ["step", "step"])
    work = room.after()
    assert work is not None
    work.settle(counts=False)

    assert not room.is_kept
    assert room.run.is_evicted


def test_it_is_used_last_by_now() -> None:
    """A run that goes ahead has not been idle: another is given up before it."""
    room = Room(Steps, ["step", "step"])
    room.cache.put(CachedRun("another", PocketEngine(Steps, ["step"]).instance))
    work = room.after()
    assert work is not None
    for number in range(9):
        room.cache.put(CachedRun(f"more-{number}", PocketEngine(Steps, ["step"]).instance))
    assert room.cache.get("another") is None
    assert room.is_kept


def test_a_run_that_is_not_in_memory() -> None:
    room = Room(Steps, ["step", "step"])
    assert room.after(run_id="another") is None
    assert room.after(activity_id="another") is None
    assert room.is_kept


@pytest.mark.parametrize(("cls", "args"), [(Stuck, ()), (BadValue, ())])
def test_what_goes_wrong_is_left_to_a_task_of_its_own(cls: type, args: tuple[Any, ...]) -> None:
    room = Room(cls, *args)

    assert room.after() is None
    assert room.run.is_evicted
    (luck,) = room.goes_ahead._luck.values()
    assert (luck.left, luck.stays) == (LUCK_MAX - MISS_COSTS, False), (
        "it costs a replay, and may do better"
    )


@pytest.mark.parametrize("way", ["local", "sized"])
def test_a_type_whose_code_asks_for_more_stays(way: str) -> None:
    """Each time would cost a replay."""
    room = Room(Steps, [way, "step"])
    assert room.after() is None
    assert room.run.is_evicted

    other = Room(Steps, ["step", "step"])
    other.goes_ahead._luck = room.goes_ahead._luck
    assert other.after() is None
    assert other.is_kept, "it was not even tried"
    assert other.after(workflow_type="Other") is not None


def test_the_guard_is_told_what_must_not_wait() -> None:
    """The result alone: the engine knows of no task that it could be told of."""
    seen: list[Any] = []
    room = Room(Steps, ["step", "step"])
    real = room.engine.instance.activate

    def looks(task: Task) -> Any:
        seen.append(room.watch.current)
        return real(task)

    room.run.instance = Activating(room.run.instance, looks)
    assert room.after() is not None
    (watched,) = seen
    assert isinstance(watched, TaskAhead)
    assert watched.token == b""
    assert (watched.workflow_id, watched.run_id) == ("w-1", RUN_ID)
    assert not watched.alone.message.activity_success.HasField("ahead")
    assert room.watch.current is None


@pytest.mark.parametrize(("edge", "sent"), [(PLAIN, 1), (PayloadEdge(Reversing()), 0)])
def test_the_guard_says_nothing_that_is_to_be_encoded(edge: PayloadEdge, sent: int) -> None:
    """Invariant 68: codecs run on the loop, which is stuck; the result waits for the end of that."""
    said: list[Completion] = []
    rooms: Any = SimpleNamespace(
        _edge=edge,
        _blocking_service=SimpleNamespace(complete_tasks=lambda some, _: said.extend(some)),
    )
    alone = activity_success(b"t", payloads("secret"))
    WorkerRooms._report_deadlock(rooms, TaskAhead(Room(Steps, ["step"]).polled(), alone), "a stack")

    assert said == [alone][:sent]


def test_what_the_guard_has_spoken_for_does_not_count() -> None:
    room = Room(Steps, ["step", "step"])
    real = room.engine.instance.activate

    def is_found(task: Task) -> Any:
        room.watch.reported = room.watch.current
        return real(task)

    room.run.instance = Activating(room.run.instance, is_found)
    assert room.after() is None
    assert room.run.is_evicted


def test_types_of_any_name_are_not_remembered_without_end() -> None:
    room = Room(Steps, ["step", "step"])
    for number in range(TYPES_MAX + 10):
        room.after(workflow_type=f"any-{number}", activity_id="another")
    assert len(room.goes_ahead._luck) <= TYPES_MAX


def test_where_it_mostly_does_not_count_it_is_given_up_for_a_while() -> None:
    room = Room(Steps, ["step", "step"])
    luck = None
    misses = 0
    for _ in range(LUCK_MAX):
        other = Room(Steps, ["step", "step"])
        if luck is not None:
            other.goes_ahead._luck = luck
        luck = other.goes_ahead._luck
        work = other.after()
        if work is None:
            break
        work.settle(counts=False)
        misses += 1
    assert misses == LUCK_MAX // MISS_COSTS + 1
    assert luck is not None
    room.goes_ahead._luck = luck
    tries = [room.after() for _ in range(MISS_COSTS)]  # one is behind us
    assert [work is not None for work in tries].index(True) == MISS_COSTS - 1
    assert room.is_kept


def test_what_counts_makes_up_for_what_does_not_and_is_not_hoarded() -> None:
    luck = _Luck()
    for _ in range(3 * LUCK_MAX):
        luck.hit()
    assert luck.left == LUCK_MAX
    for _ in range(100):  # one in eight
        luck.missed()
        for _ in range(MISS_COSTS):
            luck.hit()
    assert luck.ask()
    for _ in range(LUCK_MAX // MISS_COSTS + 1):
        luck.missed()
    assert not luck.ask()


class LooksAround:
    """A converter that wants to know where it is."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.in_activity: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        self.in_activity.append(activity.in_activity())
        return getattr(self.real, name)


def test_nothing_of_the_activity_that_has_returned_reaches_the_workflow() -> None:
    room = Room(Steps, ["step", "step"])
    run = room.engine.instance._run
    run.converter = looks = LooksAround(run.converter)  # type: ignore[assignment]  # stands for it
    token = activity._current.set(object())  # type: ignore[arg-type]  # something
    try:
        assert room.after() is not None
    finally:
        activity._current.reset(token)
    assert set(looks.in_activity) == {False}


# --- with the activities --------------------------------------------------------------------------


@dataclass
class Engine:
    """Answers completions one by one; `went_ahead`: what it says of work ahead."""

    answers: list[RPCError | PayloadError | None] = field(default_factory=list)
    went_ahead: bool = True
    sent: list[Completion] = field(default_factory=list)
    said: asyncio.Event = field(default_factory=asyncio.Event)

    def submit(
        self, completion: Completion, done: Callable[[RPCError | PayloadError | None], None]
    ) -> None:
        self.sent.append(completion)
        answer = self.answers.pop(0) if self.answers else None
        completion.went_ahead = self.went_ahead and answer is None
        done(answer)
        self.said.set()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


IDENTITY = WorkerIdentity(namespace="default", worker_id=b"w" * 16, identity="w", build_id="")


class Answering:
    """A stream of calls that has one answer."""

    def __init__(self, answer: pb.WorkAnswer) -> None:
        self.answer = answer

    async def call(self, fill: Callable[[pb.WorkCall], None], *_: Any) -> pb.WorkAnswer:
        fill(pb.WorkCall())
        return self.answer


async def never_asked(*_: object) -> None:
    raise AssertionError("nobody makes checkpoints here")


async def attempt(
    room: Room, engine: Engine, executor: ThreadPoolExecutor, *, stopping: bool = False, **task: Any
) -> Slots:
    slots, held = Slots(1), HeldTasks()
    activities = Activities(
        {"work": activity_definition(work)},
        namespace="default",
        task_queue="q",
        converter=CONVERTER,
        executor=executor,
        completions=engine,
        held=held,
        slots=slots,
        save_progress=never_asked,
        goes_ahead=room.goes_ahead,
    )
    await slots.reserve()
    if stopping:
        activities.begin_shutdown()
    activities.take(room.polled(**task))
    await activities.wait_ended()
    assert slots.used == 0
    assert held.all() == []
    return slots


async def test_an_activity_s_result_takes_it_along(executor: ThreadPoolExecutor) -> None:
    room, engine = Room(Steps, ["step", "step"]), Engine()
    await attempt(room, engine, executor)

    (sent,) = engine.sent
    assert sent.message.activity_success.HasField("ahead")
    started_us = sent.message.activity_success.ahead.started_time_us
    assert room.engine.now_us < started_us < room.engine.now_us + 60_000_000, (
        "on the engine's clock"
    )
    assert room.is_kept
    assert not room.run.is_ahead


@pytest.mark.parametrize(
    "options",
    [
        {"stopping": True},
        {"may_go_ahead": False},
        {"start_to_close_timeout_ms": 3_900},
        {"schedule_to_close_timeout_ms": 60_000, "scheduled_time_us": START_US - 57_000_000},
        {"heartbeat_timeout_ms": 4_000},
    ],
)
async def test_a_result_alone(executor: ThreadPoolExecutor, options: dict[str, Any]) -> None:
    """The engine does not want more, the worker is about to go, or a timeout could come while the workflow's code
    keeps the result waiting."""
    room, engine = Room(Steps, ["step", "step"]), Engine()
    await attempt(room, engine, executor, **options)

    (sent,) = engine.sent
    assert not sent.message.activity_success.HasField("ahead")
    assert room.is_kept


@pytest.mark.parametrize(
    "timeouts",
    [
        {"start_to_close_timeout_ms": 10_000, "heartbeat_timeout_ms": 10_000},
        {"schedule_to_close_timeout_ms": 60_000, "scheduled_time_us": START_US - 30_000_000},
    ],
)
async def test_timeouts_that_are_far_away(
    executor: ThreadPoolExecutor, timeouts: dict[str, Any]
) -> None:
    room, engine = Room(Steps, ["step", "step"]), Engine()
    await attempt(room, engine, executor, **timeouts)

    (sent,) = engine.sent
    assert sent.message.activity_success.HasField("ahead")


async def test_a_defect_of_ours_does_not_cost_the_result(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a defect")

    room, engine = Room(Steps, ["step", "step"]), Engine()
    monkeypatch.setattr(room.goes_ahead, "after", fails)
    await attempt(room, engine, executor)

    (sent,) = engine.sent
    assert not sent.message.activity_success.HasField("ahead")


async def test_the_answer_s_places_are_those_of_the_completions() -> None:
    answer = pb.WorkAnswer(complete_tasks=pb.CompleteTasksResponse(went_ahead=[1]))
    service = WorkerService(Connection("nobody:1"), IDENTITY, "q")
    service._calls = Answering(answer)  # type: ignore[assignment]  # stands for it
    said = [activity_success(b"t", payloads(number)) for number in range(3)]
    errors, _ = await service.complete_tasks(said, 0, 0)

    assert errors == {}
    assert [one.went_ahead for one in said] == [False, True, False]


@pytest.mark.parametrize("answer", [None, RPCError("", RPCStatusCode.NOT_FOUND)])
async def test_an_engine_that_does_not_go_along(
    executor: ThreadPoolExecutor, answer: RPCError | None
) -> None:
    """It says so by saying nothing: one of before knows of no such thing."""
    room, engine = Room(Steps, ["step", "step"]), Engine([answer], went_ahead=False)
    await attempt(room, engine, executor)

    assert len(engine.sent) == 1
    assert room.run.is_evicted


@pytest.mark.parametrize(
    "answer",
    [
        RPCError("too large", RPCStatusCode.RESOURCE_EXHAUSTED),
        RPCError("bad", RPCStatusCode.INVALID_ARGUMENT),
        RPCError("a bug, or rows that cannot be written", RPCStatusCode.INTERNAL),
        PayloadError("cannot be encoded"),
    ],
)
async def test_a_result_is_not_lost_with_what_came_along(
    executor: ThreadPoolExecutor, answer: RPCError | PayloadError
) -> None:
    """Whatever was wrong with both together, the result is said again alone."""
    room, engine = Room(Steps, ["step", "step"]), Engine([answer])
    await attempt(room, engine, executor)

    together, alone = engine.sent
    assert together.message.activity_success.HasField("ahead")
    assert not alone.message.activity_success.HasField("ahead")
    assert alone.message.activity_success.result == together.message.activity_success.result
    assert room.run.is_evicted


def test_an_interceptor_s_afterwards_come_once_it_counts(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fails() -> None:
        done.append("first")
        raise ValueError("an interceptor's")

    for counts in (False, True):
        room = Room(Steps, ["step", "step"])
        room.run.instance._run.do_afterwards(fails)  # type: ignore[attr-defined]  # the real one
        room.run.instance._run.do_afterwards(  # type: ignore[attr-defined]
            lambda: done.append("second")
        )
        work = room.after()
        assert work is not None
        assert done == []
        with caplog.at_level(logging.ERROR):
            work.settle(counts=counts)
        assert done == (["first", "second"] if counts else [])


# --- tasks that come meanwhile --------------------------------------------------------------------


class NoHistory:
    """Has to be asked for what came before."""

    def __init__(self) -> None:
        self.asked = 0

    async def fetch_after(self, polled: PolledWorkflowTask) -> list[Event]:
        self.asked += 1
        raise RPCError("not today", RPCStatusCode.UNAVAILABLE)


@pytest.mark.parametrize("is_ahead", [False, True])
async def test_a_run_that_is_ahead_is_not_trusted_with_the_next_task(
    executor: ThreadPoolExecutor, is_ahead: bool
) -> None:
    """It may fit by chance: another worker may have had the task that this one did ahead."""
    room, engine, history = Room(Steps, ["step", "step"]), Engine(), NoHistory()
    work = room.after()
    assert work is not None
    if not is_ahead:
        work.settle(counts=True)
    ahead = work.completion.message.activity_success.ahead
    slots, held = Slots(1), HeldTasks()
    local = LocalActivities(
        {},
        namespace="default",
        task_queue="q",
        converter=CONVERTER,
        executor=executor,
        at_once_max=1,
        now_us=lambda: 0,
    )
    tasks = WorkflowTasks(
        make_instance=lambda _: room.engine.instance,
        cache=room.cache,
        history=history,  # type: ignore[arg-type]  # what is asked of it here
        guarded=GuardedCode(room.watch, CONVERTER),
        completions=engine,
        held=held,
        slots=slots,
        local=local,
    )
    await slots.reserve()
    signal = event_pb2.WorkflowExecutionSignaled(signal_name="end", input=payloads_to_bytes([]))
    first = ahead.started_event_id + 1
    events = [
        event_pb2.HistoryEvent(
            event_id=first, workflow_task_completed=event_pb2.WorkflowTaskCompleted()
        ),
        event_pb2.HistoryEvent(
            event_id=first + 1,
            activity_task_scheduled=event_pb2.ActivityTaskScheduled(
                activity_id="2", activity_type="work"
            ),
        ),
        event_pb2.HistoryEvent(event_id=first + 2, workflow_execution_signaled=signal),
        event_pb2.HistoryEvent(
            event_id=first + 3, workflow_task_scheduled=event_pb2.WorkflowTaskScheduled()
        ),
        event_pb2.HistoryEvent(
            event_id=first + 4, workflow_task_started=event_pb2.WorkflowTaskStarted()
        ),
    ]
    tasks.take(
        PolledWorkflowTask(
            pb.WorkflowTask(
                token=b"w",
                run_id=RUN_ID,
                previous_started_event_id=ahead.started_event_id,
                started_event_id=first + 4,
                events=events,
            )
        )
    )
    async with asyncio.timeout(10):
        await engine.said.wait()
    await tasks.close()

    assert history.asked == (1 if is_ahead else 0)
    assert room.run.is_evicted  # at the latest by `close`
    outcome = engine.sent[0].message.WhichOneof("outcome")
    assert outcome == ("workflow_task_failure" if is_ahead else "workflow_task_success")
