"""Activities that run alone, in real processes, against the fake engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.sdk import alone_code as code
from tests.integration.sdk.fake_engine import PATIENCE_S, FakeEngine

from perdure import activity
from perdure._worker.isolation import child
from perdure._worker.isolation.launcher import Launcher
from perdure._worker.isolation.ward import Ward
from perdure.client import Client, WorkflowFailureError, WorkflowHandle
from perdure.errors import ActivityError, ApplicationError
from perdure.worker import SurgicalPool, Worker

QUEUE = "queue"
NOW = timedelta()
LOST, CANCEL_REQUESTED, PAUSED = 1, 2, 3


@pytest.fixture(autouse=True)
def crashed_twice(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.runs.attempts_have_crashed = 2
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # "spawn" imports the code by its name


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where a process says who it is: whoever reads waits for it."""
    path = tmp_path / "place"
    os.mkfifo(path)
    return str(path)


def worker(client: Client, *activities: Callable[..., Any], **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[code.CallOne],
        activities=[*(activities or code.ACTIVITIES)],
        **{"graceful_shutdown_timeout": NOW, **options},
    )


async def start(client: Client, name: str, arg: object = None) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        code.CallOne.run, args=[name, arg], id=name, task_queue=QUEUE
    )


async def run(client: Client, name: str, arg: object = None) -> Any:
    return await (await start(client, name, arg)).result()


async def read(place: str) -> int:
    async with asyncio.timeout(PATIENCE_S):
        return int(await asyncio.to_thread(Path(place).read_text))


def wait_gone(pid: int) -> None:
    """Fails when the process lives on. One that was ended and is nobody's is as good as gone."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
        finally:
            os.close(descriptor)
        assert ready, f"process {pid} is still there"


async def ended(running: Worker) -> None:
    """Returns when no task of it runs alone. Fails when one goes on."""
    assert running._rooms is not None
    async with asyncio.timeout(PATIENCE_S):
        await running._rooms._wards.wait_ended()


async def crash(engine: FakeEngine, number: int = 1) -> Any:
    await engine.until(lambda: len(engine.completions("task_crash")) >= number)
    return engine.completions("task_crash")[number - 1].task_crash


# --- what ends well -------------------------------------------------------------------------------


async def test_an_attempt_that_crashed_twice_has_a_process_to_itself(
    engine: FakeEngine, client: Client
) -> None:
    async with worker(client):
        found = await run(client, "where_async")
        in_thread = await run(client, "where_sync")
    assert found == {"pid": found["pid"], "crashes": 2, "before": []}
    assert len({found["pid"], in_thread, os.getpid()}) == 3
    assert len(engine.completions("activity_success")) == 2
    wait_gone(found["pid"])


async def test_others_run_where_they_always_did(engine: FakeEngine, client: Client) -> None:
    engine.runs.attempts_have_crashed = 1
    async with worker(client):
        found = await run(client, "where_async")
    assert found == {"pid": os.getpid(), "crashes": 1, "before": []}


async def test_a_failure_is_one(engine: FakeEngine, client: Client) -> None:
    async with worker(client):
        with pytest.raises(WorkflowFailureError) as caught:
            await run(client, "fail", "because")
    error = caught.value.cause
    assert isinstance(error, ActivityError)
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.message.startswith("because in ")
    assert str(os.getpid()) not in error.cause.message
    (failed,) = engine.completions("activity_failure")
    assert b"so far" in failed.activity_failure.heartbeat_details
    assert not engine.completions("task_crash")


@pytest.mark.parametrize("name", ["call_exit", "call_exit_in_thread"])
async def test_sys_exit_fails_the_attempt_as_it_does_in_any_worker(
    engine: FakeEngine, client: Client, name: str
) -> None:
    async with worker(client):
        with pytest.raises(WorkflowFailureError) as caught:
            await run(client, name, 7)
    error = caught.value.cause
    assert isinstance(error, ActivityError)
    assert isinstance(error.cause, ApplicationError)
    assert (error.cause.type, error.cause.message) == ("SystemExit", "sys.exit(7)")
    assert not engine.completions("task_crash")


async def test_progress_checkpoints_and_a_request_to_cancel(
    engine: FakeEngine, client: Client, place: str
) -> None:
    async with worker(client):
        await start(client, "report", place)
        await read(place)
        (saved,) = engine.requests["HeartbeatActivity"]
        assert b"saved" in saved.details
        assert saved.progress_version == 2
        (token,) = engine.runs.started_attempts
        engine.notices[token] = CANCEL_REQUESTED
        await engine.until(lambda: bool(engine.completions("activity_cancellation")))


async def test_heartbeats_of_its_code_travel_with_those_of_the_worker(
    engine: FakeEngine, client: Client
) -> None:
    def said() -> list[int]:
        return [
            held.progress_version
            for request in engine.requests["Heartbeat"]
            for held in request.held
            if b"beat" in held.heartbeat_details
        ]

    async with worker(client):
        handle = await start(client, "beat")
        await engine.until(lambda: len(said()) == 2)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = CANCEL_REQUESTED
        await handle.result()
    first, second, *_ = said()
    assert second - first > 20


async def test_a_pause_is_passed_on(engine: FakeEngine, client: Client, place: str) -> None:
    async with worker(client):
        handle = await start(client, "report", place)
        await read(place)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = PAUSED
        assert await handle.result() == "paused True, lost False, gone False"


async def test_a_thread_can_do_the_same(engine: FakeEngine, client: Client, place: str) -> None:
    async with worker(client):
        handle = await start(client, "report_in_thread", place)
        await read(place)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = CANCEL_REQUESTED
        assert await handle.result() == "cancelled True"
    assert len(engine.requests["HeartbeatActivity"]) == 1


async def test_an_outcome_can_be_left_to_others(engine: FakeEngine, client: Client) -> None:
    async with worker(client):
        await start(client, "leave_it_to_others")
        await engine.until(lambda: bool(engine.completions("activity_async")))
    (left,) = engine.completions("activity_async")
    assert b"handed over" in left.activity_async.heartbeat_details
    assert not engine.completions("task_crash")


async def test_what_was_lost_is_stopped_and_not_reported(
    engine: FakeEngine, client: Client, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._worker.isolation.ward._LOSS_TIMEOUT_S", 0.1)
    async with worker(client):
        await start(client, "stubborn", place)
        pid = await read(place)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = LOST
        await asyncio.to_thread(wait_gone, pid)
    assert not engine.completions("task_crash")
    (goodbye,) = engine.requests["Goodbye"]
    assert list(goodbye.released_tokens) == []


async def test_what_was_lost_while_its_process_started_does_not_run(
    engine: FakeEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may run it by now."""
    lost, sent = asyncio.Event(), []
    start_it, on_loss, send = Launcher.start, Ward._on_loss, child.Child.send

    async def slow(*args: Any) -> child.Child:
        started = await start_it(*args)
        await lost.wait()
        return started

    def noting_loss(ward: Ward) -> None:
        on_loss(ward)
        lost.set()

    def noting(one: child.Child, message: Any) -> None:
        sent.append(message)
        send(one, message)

    monkeypatch.setattr(Launcher, "start", slow)
    monkeypatch.setattr(Ward, "_on_loss", noting_loss)
    monkeypatch.setattr(child.Child, "send", noting)
    async with worker(client, surgical=None) as running:
        await start(client, "where_async")
        await engine.until(lambda: bool(engine.runs.started_attempts))
        (token,) = engine.runs.started_attempts
        engine.notices[token] = LOST
        await lost.wait()
        await ended(running)
    assert sent == []
    assert not engine.completions("task_crash")


async def test_a_defect_of_ours_costs_no_place(
    engine: FakeEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(ward: Ward) -> None:
        raise MemoryError

    async with worker(client, surgical=None, max_concurrent_activities=1) as running:
        with monkeypatch.context() as patched:
            patched.setattr(Ward, "_given", broken)
            await start(client, "where_async")
            await engine.until(lambda: bool(engine.runs.started_attempts))
            await ended(running)
        assert await run(client, "where_sync") != os.getpid()
    assert not engine.completions("task_crash")


# --- crashes --------------------------------------------------------------------------------------

WAYS = {
    "SIGKILL": "killed by signal 9 (SIGKILL)",
    "SIGSEGV": "killed by signal 11 (SIGSEGV)",
    "os._exit": "exit code 3",
}


@pytest.mark.parametrize(("how", "message"), WAYS.items())
async def test_invariant_36_what_its_code_does_ends_its_process_and_no_other(
    engine: FakeEngine, client: Client, place: str, how: str, message: str
) -> None:
    """The neighbour goes on, the worker lives, and the crash is told as one."""
    async with worker(client, surgical=None):
        neighbour = await start(client, "report", place)
        await read(place)
        await start(client, "die", how)
        told = await crash(engine)
        (token,) = engine.runs.started_attempts
        engine.notices[token] = PAUSED
        assert await neighbour.result() == "paused True, lost False, gone False"
    assert told.message == message
    assert "activity die, attempt 1" in told.report
    assert len(engine.completions("task_crash")) == 1


@pytest.mark.parametrize("how", ["os._exit", "SIGSEGV"])
async def test_a_thread_of_it_can_end_it_too(engine: FakeEngine, client: Client, how: str) -> None:
    async with worker(client, surgical=None):
        await start(client, "die_in_thread", how)
        told = await crash(engine)
    assert told.message == WAYS[how]


async def test_a_report_shows_where_it_was(engine: FakeEngine, client: Client) -> None:
    async with worker(client, surgical=None):
        await start(client, "die_in_thread", "SIGSEGV")
        told = await crash(engine)
    assert "Segmentation fault" in told.report
    assert "die_in_thread" in told.report
    assert "alone_code.py" in told.report
    assert len(told.report.encode()) <= 16 * 1024


async def test_what_it_has_started_goes_with_it(
    engine: FakeEngine, client: Client, place: str
) -> None:
    async with worker(client, surgical=None):
        await start(client, "with_a_process_of_its_own", place)
        grandchild = await read(place)
        told = await crash(engine)
        await asyncio.to_thread(wait_gone, grandchild)
    assert told.message == "killed by signal 9 (SIGKILL)"


async def test_what_it_has_left_behind_goes_too(engine: FakeEngine, client: Client) -> None:
    """Or each task would leave a pool of processes that its program has made."""
    async with worker(client, surgical=None):
        left = await run(client, "leave_a_process_behind")
        await asyncio.to_thread(wait_gone, left)
    assert not engine.completions("task_crash")


async def test_one_that_has_ended_can_be_ended_again(
    engine: FakeEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end and the wish to end it may cross: on the event loop nobody can know."""
    made: list[child.Child] = []
    start_it = child.Child.start

    def noting(one: child.Child, *args: Any) -> None:
        made.append(one)
        start_it(one, *args)

    monkeypatch.setattr(child.Child, "start", noting)
    async with worker(client, surgical=None):
        await start(client, "die", "SIGKILL")
        await crash(engine)
        (one,) = made
        one.kill()
        one.end_within(1.0)


async def test_one_that_says_nothing_is_taken_for_dead(
    engine: FakeEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "SILENT_S_MAX", 1.5)
    async with worker(client, surgical=None):
        await start(client, "freeze")
        told = await crash(engine)
    assert told.message == "killed: it said nothing for 1.5 s, not even that it lives"


async def test_a_crash_that_comes_too_late_is_nothing(engine: FakeEngine, client: Client) -> None:
    async with worker(client, surgical=None):
        await start(client, "die", "SIGKILL")
        await engine.until(lambda: bool(engine.runs.started_attempts))
        engine.runs.started_attempts.clear()
        await crash(engine)
        assert await run(client, "where_sync") != os.getpid()


# --- starting -------------------------------------------------------------------------------------


async def test_what_cannot_be_started_again_runs_in_the_worker(
    engine: FakeEngine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A run of tests is no program, and a closure cannot be imported. It is said once."""
    here = object()

    @activity.defn
    async def closure(unused: object) -> list[object]:
        return [os.getpid(), repr(here)]

    async with worker(client, closure):
        for _ in range(2):
            assert await run(client, "closure") == [os.getpid(), repr(here)]
    told = [one for one in caplog.messages if "runs in this one from now on" in one]
    assert len(told) == 1
    assert not engine.completions("task_crash")


# --- the end of a worker --------------------------------------------------------------------------


async def test_a_worker_that_goes_tells_its_processes(
    engine: FakeEngine, client: Client, place: str
) -> None:
    async with worker(client):
        await start(client, "report", place)
        pid = await read(place)
        (token,) = engine.runs.started_attempts
    assert not engine.completions("task_crash")
    (goodbye,) = engine.requests["Goodbye"]
    success = engine.completions("activity_success")
    assert "gone True" in str(success)
    assert list(goodbye.released_tokens) == []
    assert token
    wait_gone(pid)


async def test_a_process_that_does_not_end_is_killed_and_its_task_given_back(
    engine: FakeEngine, client: Client, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uncounted: reliability.md, invariant 35."""
    monkeypatch.setattr("perdure._worker.rooms.LAST_WORDS_S", 0.5)
    async with worker(client):
        await start(client, "stubborn", place)
        pid = await read(place)
        (token,) = engine.runs.started_attempts
    wait_gone(pid)
    (goodbye,) = engine.requests["Goodbye"]
    assert list(goodbye.released_tokens) == [token]
    assert not engine.completions("task_crash")


# --- the surgical pool ----------------------------------------------------------------------------


async def test_poisoned_work_comes_to_the_surgical_pool(engine: FakeEngine, client: Client) -> None:
    engine.runs.attempts_have_crashed = 3
    async with worker(client):
        found = await run(client, "where_async")
    assert found["crashes"] == 3
    assert found["pid"] != os.getpid()


async def test_a_worker_may_have_nothing_for_it(engine: FakeEngine, client: Client) -> None:
    async with worker(client, surgical=None):
        await engine.arrived("PollTasks", 2)
        assert await run(client, "where_sync") != os.getpid()
    assert {poll.pool for poll in engine.requests["PollTasks"]} == {""}


async def test_a_worker_of_that_pool_polls_nothing_else(engine: FakeEngine, client: Client) -> None:
    engine.runs.attempts_have_crashed = engine.runs.workflow_tasks_have_crashed = 3
    async with worker(client, pool="surgical", surgical=SurgicalPool(slots=2)):
        assert await run(client, "where_sync") != os.getpid()
    polls = engine.requests["PollTasks"]
    assert {poll.pool for poll in polls} == {"surgical"}
    assert (polls[0].max_workflow_tasks, polls[0].max_activity_tasks) == (2, 2)


async def test_only_kinds_that_are_registered_are_asked_for(
    engine: FakeEngine, client: Client
) -> None:
    async with Worker(client, task_queue=QUEUE, activities=[code.die], surgical=SurgicalPool()):
        await engine.arrived("PollTasks", 2)
    asked = {(one.pool, one.max_workflow_tasks) for one in engine.requests["PollTasks"]}
    assert asked == {("", 0), ("surgical", 0)}


async def test_too_much_memory_ends_it(engine: FakeEngine, client: Client) -> None:
    engine.runs.attempts_have_crashed = 3
    limit = SurgicalPool(memory_limit_bytes=512 * 1024 * 1024)
    async with worker(client, surgical=limit):
        await start(client, "eat_memory", 4096)
        told = await crash(engine)
    assert told.message.startswith("killed: used ")
    assert told.message.endswith(" of 512 MiB memory")
    assert "its memory:" in told.report
    assert "eat_memory" in told.report.partition("its last stacks:")[2]
    assert "activity eat_memory" in told.report.partition("its steps")[2]


async def test_too_much_processor_time_ends_it(engine: FakeEngine, client: Client) -> None:
    engine.runs.attempts_have_crashed = 3
    limit = SurgicalPool(cpu_limit=timedelta(seconds=3))
    async with worker(client, surgical=limit):
        await start(client, "spin")
        told = await crash(engine)
    assert told.message.startswith("killed: used ")
    assert told.message.endswith(" of 3 s processor time")
    assert "in spin" in told.report


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"slots": 0}, "slots must be at least 1"),
        ({"memory_limit_bytes": 0}, "memory_limit_bytes must be at least 1"),
        ({"cpu_limit": NOW}, "cpu_limit must be positive"),
    ],
)
def test_limits_that_are_none_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SurgicalPool(**options)


async def test_pools_that_are_none_are_refused(client: Client) -> None:
    with pytest.raises(ValueError, match='"normal" or "surgical", not \'other\''):
        worker(client, pool="other")
    with pytest.raises(ValueError, match="needs surgical=SurgicalPool"):
        worker(client, pool="surgical", surgical=None)
