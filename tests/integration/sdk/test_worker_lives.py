"""What a worker does when things end, stick or are taken away from it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from queue import Queue
from typing import Any

import grpc
import pytest
from tests.integration.sdk.fake_engine import PATIENCE_S, FakeEngine
from tests.integration.sdk.fake_faults import Fault, status

from perdure import activity, workflow
from perdure.client import Client, WorkflowFailureError, WorkflowHandle
from perdure.errors import ActivityError, ApplicationError
from perdure.worker import Worker
from perdure_api.v1 import event_pb2

QUEUE = "queue"
NOW = timedelta()
LOST, CANCEL_REQUESTED = 1, 2
DEADLOCK = event_pb2.WORKFLOW_TASK_FAILED_CAUSE_DEADLOCK


@workflow.defn
class CallOne:
    @workflow.run
    async def run(self, name: str) -> object:
        return await workflow.execute_activity(name, start_to_close_timeout=timedelta(seconds=60))


BLOCKED = threading.Event()
LET_GO = threading.Event()


@workflow.defn
class Blocks:
    """Waits for another thread, which only the guard would forbid if it knew how."""

    @workflow.run
    async def run(self) -> str:
        BLOCKED.set()
        LET_GO.wait(20)
        return "never told"


MAY_END = threading.Event()
GOT_ON: list[bool] = []  # in time, each time that the code came by


@workflow.defn
class BlocksAhead:
    """Blocks as soon as its activity has returned."""

    @workflow.run
    async def run(self) -> object:
        done = await workflow.execute_activity("quick", start_to_close_timeout=timedelta(minutes=1))
        try:
            MAY_END.wait(10)
        finally:  # the guard's exception comes with the end of the wait
            GOT_ON.append(MAY_END.is_set())
        return done


@workflow.defn
class Spins:
    @workflow.run
    async def run(self) -> str:
        while True:
            pass


@activity.defn
async def quick() -> str:
    return "done"


class Stage:
    """What the activities of one test do, and what they have seen."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.seen: list[object] = []
        self.thread_began = threading.Event()
        self.thread_go_on = threading.Event()

    @activity.defn
    async def patient(self) -> str:
        activity.heartbeat("here")
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            self.seen.append(activity.is_cancelled())
            raise
        return "done"

    @activity.defn
    async def stubborn(self) -> str:
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            return "all the same"
        return "done"

    @activity.defn(no_thread_cancel_exception=True)
    def threaded(self) -> str:
        self.thread_began.set()
        activity.wait_for_cancelled_sync()
        self.seen.append("heard")
        activity.raise_if_cancelled()
        return "never"

    @activity.defn
    async def blocking(self) -> str:
        """Blocks the event loop, which no activity should: the thread must speak for it."""
        self.thread_began.set()
        assert self.thread_go_on.wait(20)
        return "back"

    @activity.defn
    async def huge(self) -> bytes:
        return b"x" * 5_000_000

    def worker(self, client: Client, **options: Any) -> Worker:
        return Worker(
            client,
            task_queue=QUEUE,
            workflows=[CallOne, Blocks, BlocksAhead, Spins],
            activities=[
                quick,
                self.patient,
                self.stubborn,
                self.threaded,
                self.blocking,
                self.huge,
            ],
            **{"graceful_shutdown_timeout": NOW, **options},
        )


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def start(client: Client, name: str) -> WorkflowHandle[CallOne, object]:
    return await client.start_workflow(CallOne.run, name, id=name, task_queue=QUEUE)


def held(request: Any) -> dict[bytes, bytes | None]:
    return {one.token: one.heartbeat_details if one.has_details else None for one in request.held}


def heartbeat_with(
    engine: FakeEngine, wanted: Callable[[dict[bytes, bytes | None]], bool]
) -> Callable[[], bool]:
    return lambda: any(wanted(held(request)) for request in engine.requests["Heartbeat"])


async def test_heartbeats_list_what_is_held_and_carry_progress_once(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    async with stage.worker(client):
        handle = await start(client, "patient")
        await stage.began.wait()
        (token,) = engine.runs.started_attempts
        await engine.until(heartbeat_with(engine, lambda found: bool(found.get(token))))
        await engine.until(heartbeat_with(engine, lambda found: found.get(token, b"x") is None))
        stage.go_on.set()
        assert await handle.result() == "done"
        count = len(engine.requests["Heartbeat"])
        await engine.arrived("Heartbeat", count + 1)
    with_progress = [one for one in engine.requests["Heartbeat"] if held(one).get(token)]
    assert len(with_progress) == 1
    assert b"here" in (held(with_progress[0])[token] or b"")
    assert held(engine.requests["Heartbeat"][-1]) == {}


async def test_a_failed_heartbeat_is_repeated_with_its_progress(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    # From before the start, so that the first heartbeat with progress fails, whichever it is.
    away = Fault(status(grpc.StatusCode.UNAVAILABLE, "away"))
    engine.fail("Heartbeat", *[away] * 1_000)
    async with stage.worker(client):
        await start(client, "patient")
        await stage.began.wait()
        (token,) = engine.runs.started_attempts

        def with_progress() -> int:
            return sum(1 for one in engine.requests["Heartbeat"] if held(one).get(token))

        await engine.until(lambda: with_progress() > 0)
        engine.faults["Heartbeat"].clear()
        failed = with_progress()
        await engine.until(lambda: with_progress() > failed)
        await engine.until(lambda: held(engine.requests["Heartbeat"][-1]).get(token, b"") is None)
    assert with_progress() == failed + 1


async def test_cancellation_comes_with_the_heartbeat(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    async with stage.worker(client):
        handle = await start(client, "patient")
        await stage.began.wait()
        (token,) = engine.runs.started_attempts
        engine.notices[token] = CANCEL_REQUESTED
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert stage.seen == ["cancelled", True]
    (cancellation,) = engine.completions("activity_cancellation")
    assert cancellation.token == token


async def test_a_thread_hears_of_its_cancellation(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    async with stage.worker(client):
        handle = await start(client, "threaded")
        await asyncio.to_thread(stage.thread_began.wait, 20)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = CANCEL_REQUESTED
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert stage.seen == ["heard"]
    assert isinstance(caught.value.cause, ActivityError)
    assert len(engine.completions("activity_cancellation")) == 1


async def test_a_lost_attempt_is_stopped_and_its_result_dropped(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    async with stage.worker(client):
        await start(client, "stubborn")
        await stage.began.wait()
        (token,) = engine.runs.started_attempts
        engine.notices[token] = LOST
        await engine.until(heartbeat_with(engine, lambda found: token in found))
        count = len(engine.requests["Heartbeat"])
        await engine.arrived("Heartbeat", count + 1)
    assert not engine.completions("activity_success")
    assert held(engine.requests["Heartbeat"][-1]) == {}
    assert list(engine.requests["Goodbye"][0].released_tokens) == []


@contextlib.contextmanager
def engine_elsewhere() -> Iterator[FakeEngine]:
    """On a loop and a thread of its own, for tests that block the worker's loop."""
    ready: Queue[tuple[FakeEngine, Callable[[], object]]] = Queue()

    async def serve() -> None:
        engine = FakeEngine()
        await engine.start()
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        ready.put((engine, lambda: loop.call_soon_threadsafe(end.set)))
        await end.wait()
        await engine.kill()

    server = threading.Thread(target=lambda: asyncio.run(serve()))
    server.start()
    engine, stop = ready.get(timeout=PATIENCE_S)
    try:
        yield engine
    finally:
        stop()
        server.join()


def when(condition: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    """In a thread that looks every 10 ms: nothing can wake it, the loops are not its own."""

    def watch() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        then()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


async def test_heartbeats_go_on_while_the_loop_is_blocked(stage: Stage) -> None:
    with engine_elsewhere() as engine:

        def stall_was_told() -> bool:
            return any(one.loop_stalled_ms > 1_000 for one in engine.requests["Heartbeat"])

        watcher = when(stall_was_told, stage.thread_go_on.set)
        async with await Client.connect(engine.address) as client, stage.worker(client):
            handle = await start(client, "blocking")
            assert await handle.result() == "back"
        watcher.join()
        stalled = [one for one in engine.requests["Heartbeat"] if one.loop_stalled_ms > 1_000]
        assert [len(one.held) for one in stalled][:1] == [1]


async def test_a_deadlock_is_reported_while_it_lasts(stage: Stage) -> None:
    with engine_elsewhere() as engine:
        watcher = when(lambda: bool(engine.completions("workflow_task_failure")), LET_GO.set)
        async with await Client.connect(engine.address) as client, stage.worker(client):
            await client.start_workflow(Blocks.run, id="blocks", task_queue=QUEUE)
            await asyncio.to_thread(watcher.join)
            assert LET_GO.is_set()
            # What the code says when it does come back is not sent, and the worker goes on.
            await client.start_workflow("Nobody", id="next", task_queue=QUEUE)
            await asyncio.to_thread(
                when(lambda: len(engine.completions("workflow_task_failure")) > 1, bool).join
            )
        first, _ = engine.completions("workflow_task_failure")
        assert first.workflow_task_failure.cause == DEADLOCK
        assert "LET_GO.wait" in first.workflow_task_failure.failure.stack_trace
        assert not engine.completions("workflow_task_success")


async def test_a_result_does_not_wait_for_code_that_went_ahead_and_is_stuck(stage: Stage) -> None:
    """Its activity is done: the guard says so, from its own thread, and the task of its own is not lost either."""
    with engine_elsewhere() as engine:
        engine.runs.attempts_may_go_ahead = True
        watcher = when(lambda: bool(engine.completions("activity_success")), MAY_END.set)
        async with await Client.connect(engine.address) as client, stage.worker(client):
            handle = await client.start_workflow(BlocksAhead.run, id="ahead", task_queue=QUEUE)
            assert await handle.result() == "done"
            watcher.join()
        assert GOT_ON[0], "the result came while the code was stuck"
        first = engine.completions("activity_success")[0]
        assert not first.activity_success.HasField("ahead")
        assert not engine.completions("workflow_task_failure"), "of a task that there was not"


async def test_an_endless_loop_is_interrupted(stage: Stage) -> None:
    with engine_elsewhere() as engine:
        async with await Client.connect(engine.address) as client, stage.worker(client):
            await client.start_workflow(Spins.run, id="spins", task_queue=QUEUE)
            await asyncio.to_thread(
                when(lambda: bool(engine.completions("workflow_task_failure")), bool).join
            )
            # The loop turns again, or this would not be answered.
            await client.start_workflow("Nobody", id="next", task_queue=QUEUE)
        first = engine.completions("workflow_task_failure")[0]
        assert first.workflow_task_failure.cause == DEADLOCK


async def test_a_graceful_shutdown_lets_an_activity_end(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    worker = stage.worker(client, graceful_shutdown_timeout=timedelta(seconds=20))
    async with worker:
        await start(client, "patient")
        await stage.began.wait()
        stopping = asyncio.create_task(worker.shutdown())
        await asyncio.sleep(0)
        stage.go_on.set()
        await stopping
    assert len(engine.completions("activity_success")) == 1
    assert list(engine.requests["Goodbye"][0].released_tokens) == []


async def test_a_shutdown_gives_back_what_does_not_end(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    async with stage.worker(client):
        await start(client, "patient")
        await stage.began.wait()
        (token,) = engine.runs.started_attempts
    assert stage.seen[0] == "cancelled"
    assert list(engine.requests["Goodbye"][0].released_tokens) == [token]
    assert not engine.completions("activity_failure")
    assert not engine.completions("activity_cancellation")


async def test_a_cancelled_run_of_the_worker_shuts_it_down(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    running = asyncio.create_task(stage.worker(client).run())
    await engine.arrived("PollTasks", 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(engine.requests["Goodbye"]) == 1


async def test_a_result_that_is_too_large_fails_the_activity(
    engine: FakeEngine, client: Client, stage: Stage
) -> None:
    async with stage.worker(client):
        handle = await start(client, "huge")
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, ActivityError)
    error = caught.value.cause.cause
    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable) == ("PayloadTooLargeError", True)
    assert "result has 5000024 bytes, the limit is 2097152" in str(error)
    assert not engine.completions("activity_success")  # it was never sent
