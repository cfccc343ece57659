"""Whole programs with tasks that run alone: what is started again, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.sdk import alone_code as code
from tests.integration.sdk.fake_engine import PATIENCE_S, FakeEngine

from perdure._wire.tasks import PolledActivityTask
from perdure._worker.isolation import launcher
from perdure._worker.isolation.launcher import Launcher, ProcessNotStartedError
from perdure._worker.isolation.program import VARIABLE, command_of, taken_from
from perdure._worker.recipe import Recipe
from perdure.client import Client
from perdure.worker import SurgicalPool, Worker
from perdure_api.v1 import worker_service_pb2 as pb

QUEUE = "queue"
PAUSED = 3
ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio, logging, os, signal, sys
{before}
from tests.integration.sdk import alone_code as code
from perdure import activity
from perdure.client import Client
from perdure.worker import Worker

with open({log!r}, "a") as log:
    print("begins", file=log)

made_by_main = None

@activity.defn
async def of_the_script(unused: object) -> list[object]:
    return [os.getpid(), os.getppid(), made_by_main, os.environ.get({variable!r}, "")]

async def main() -> None:
    global made_by_main
    made_by_main = "a pool"
    beside = object()

    @activity.defn
    async def closure(unused: object) -> list[object]:
        return [os.getpid(), type(beside).__name__]

    async with await Client.connect({address!r}) as client:
        {enter}

"""
ONE = """await Worker(
            client, task_queue={queue!r}, workflows=[code.CallOne],
            activities=[*code.ACTIVITIES, of_the_script, closure],
        ).run()"""
TWO = """async with Worker(client, task_queue={queue!r}, workflows=[code.CallOne]), Worker(
            client, task_queue={queue!r}, activities=[of_the_script]
        ):
            with open({log!r}, "a") as log:
                print("body", file=log)
            await asyncio.Event().wait()"""
WITH_A_SERVER = """logging.basicConfig(filename={place!r})
        worker = Worker(
            client, task_queue={queue!r}, workflows=[code.CallOne],
            activities=[*code.ACTIVITIES, of_the_script],
        )
        await asyncio.gather(
            worker.run(), asyncio.start_server(lambda *_: None, "127.0.0.1", {port})
        )"""
WITH_A_SIGNAL_HANDLER = """main_task = asyncio.current_task()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, main_task.cancel)
        await Worker(
            client, task_queue={queue!r}, workflows=[code.CallOne], activities=code.ACTIVITIES
        ).run()"""
LEAVES_ITS_FOLDER = """del os.environ["PASSWORD"]
        os.chdir("/")
        """
WAITS_BEFORE_ITS_WORKER = """
if {variable!r} in os.environ:
    import perdure.worker
    with open({place!r}, "w") as place:
        place.write(str(os.getpid()))
    signal.pause()"""
GUARDED = 'if __name__ == "__main__":\n    asyncio.run(main())\n'
UNGUARDED = "asyncio.run(main())\n"
ON_UVLOOP = "import uvloop\nuvloop.run(main())\n"


class Program:
    def __init__(self, folder: Path, address: str) -> None:
        self.log = folder / "log"
        self.script = folder / "program.py"
        self._address = address
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self, end: str = UNGUARDED, enter: str = ONE, before: str = "", **more: object
    ) -> None:
        fields = {"log": str(self.log), "queue": QUEUE, "variable": VARIABLE, **more}
        text = PROGRAM.format(
            address=self._address,
            before=before.format(**fields),
            enter=enter.format(**fields),
            **fields,
        )
        self.script.write_text(text + end)
        self.process = subprocess.Popen(
            [sys.executable, self.script.name], cwd=self.script.parent, env=environment()
        )

    def said(self, word: str) -> int:
        return self.log.read_text().split().count(word)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *(one for one in sys.path if one)])
    return {**os.environ, "PYTHONPATH": path, "PASSWORD": "secret"}


@pytest.fixture
def program(tmp_path: Path, engine: FakeEngine) -> Iterator[Program]:
    engine.runs.attempts_have_crashed = 2
    program = Program(tmp_path, engine.address)
    yield program
    program.stop()


async def call(client: Client, name: str, arg: object = None) -> list[Any]:
    async with asyncio.timeout(PATIENCE_S):
        found: list[Any] = await client.execute_workflow(
            "CallOne", args=[name, arg], id=name, task_queue=QUEUE
        )
    return found


def read_lines(place: Path, words: str, count: int) -> None:
    """Returns when so many lines have had these words, or nobody writes any more."""
    with place.open() as lines:
        for line in lines:
            count -= words in line
            if not count:
                return


# --- what is started again ------------------------------------------------------------------------


@pytest.mark.parametrize("end", [GUARDED, UNGUARDED], ids=["guarded", "unguarded"])
async def test_a_task_finds_what_its_program_has_made(
    program: Program, engine: FakeEngine, client: Client, end: str
) -> None:
    """Innocent work that only was beside a crash must not fail because it runs alone."""
    program.start(end)
    assert program.process is not None
    pid, parent, made, variable = await call(client, "of_the_script")
    assert pid != parent == program.process.pid
    assert made == "a pool"
    assert variable == ""  # what the task starts itself is no process for one task
    assert program.said("begins") == 2
    workers = {request.worker_id for request in engine.requests["PollTasks"]}
    assert len(workers) == 1


async def test_it_is_started_where_and_with_what_this_one_was(
    program: Program, client: Client
) -> None:
    """What a program reads at its start, and hides from what it starts, is there for it again."""
    program.start(enter=LEAVES_ITS_FOLDER + ONE)
    assert program.process is not None
    pid, *_ = await call(client, "of_the_script")
    assert pid != program.process.pid


async def test_a_closure_runs_alone_too(
    program: Program, engine: FakeEngine, client: Client
) -> None:
    program.start()
    assert program.process is not None
    pid, beside = await call(client, "closure")
    assert pid != program.process.pid
    assert beside == "object"


async def test_of_two_workers_the_one_that_knows_the_task_runs_it(
    program: Program, engine: FakeEngine, client: Client
) -> None:
    """And nothing of what the program does beside them is done again."""
    program.start(enter=TWO)
    assert program.process is not None
    pid, parent, *_ = await call(client, "of_the_script")
    assert pid != parent == program.process.pid
    assert (program.said("begins"), program.said("body")) == (2, 1)


async def test_a_worker_can_be_told_its_program(
    program: Program, engine: FakeEngine, client: Client
) -> None:
    """Which then is started though this process is a run of tests. It knows other code than we do."""
    program.start()
    program.stop()
    command = ["env", f"PYTHONPATH={environment()['PYTHONPATH']}", sys.executable]
    pool = SurgicalPool(program=[*command, str(program.script)])

    async with Worker(
        client,
        task_queue=QUEUE,
        workflows=[code.CallOne],
        activities=code.ACTIVITIES,
        surgical=pool,
    ):
        found = await call(client, "where_async")
    assert isinstance(found, dict)
    assert found["pid"] != os.getpid()
    assert not engine.completions("task_crash")


async def test_invariant_36_a_program_that_dies_of_its_task_has_crashed(
    program: Program, engine: FakeEngine, client: Client
) -> None:
    program.start()
    assert program.process is not None
    for how, told in (("SIGSEGV", "SIGSEGV"), ("os._exit", "code 3")):
        await client.start_workflow(code.CallOne.run, args=["die", how], id=how, task_queue=QUEUE)
        await engine.until(
            lambda told=told: any(  # type: ignore[misc]  # of this turn
                told in one.task_crash.message for one in engine.completions("task_crash")
            )
        )
    assert program.process.poll() is None


async def test_invariant_35_a_program_that_ends_of_itself_is_no_crash(
    program: Program, engine: FakeEngine, client: Client, tmp_path: Path
) -> None:
    """Of no fault of the task's; a program that does so again and again does not isolate any more."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = tmp_path / "place"
    os.mkfifo(place)
    program.start(enter=WITH_A_SERVER, port=port, place=str(place))
    assert program.process is not None
    count = launcher._FAILURES_MAX[launcher.PROGRAM]
    for number in range(count):
        await client.start_workflow(
            code.CallOne.run, args=["wait_for_ever", 1], id=f"w{number}", task_queue=QUEUE
        )
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.to_thread(read_lines, place, "its program ended", count)
    pid, *_ = await call(client, "of_the_script")
    assert pid == program.process.pid
    assert not engine.completions("task_crash")
    assert not engine.completions("activity_failure")


@pytest.mark.parametrize("end", [UNGUARDED, ON_UVLOOP], ids=["asyncio", "uvloop"])
async def test_invariant_35_a_signal_to_all_processes_of_a_service_is_no_crash(
    program: Program, engine: FakeEngine, client: Client, tmp_path: Path, end: str
) -> None:
    """Whatever the program does on it: its worker says when the task is to end."""
    if end == ON_UVLOOP:
        pytest.importorskip("uvloop")
    place = tmp_path / "place"
    os.mkfifo(place)
    program.start(end, enter=WITH_A_SIGNAL_HANDLER)
    handle = await client.start_workflow(
        code.CallOne.run, args=["report", str(place)], id="report", task_queue=QUEUE
    )
    async with asyncio.timeout(PATIENCE_S):
        os.kill(int(await asyncio.to_thread(place.read_text)), signal.SIGTERM)
    (token,) = engine.runs.started_attempts
    engine.notices[token] = PAUSED
    async with asyncio.timeout(PATIENCE_S):
        assert await handle.result() == "paused True, lost False, gone False"


# --- what cannot be started again -----------------------------------------------------------------


def recipe(client: Client) -> Recipe:
    worker = Worker(client, task_queue=QUEUE, activities=code.ACTIVITIES)
    return worker._settings.code.recipe


async def test_a_program_may_have_a_bad_moment_but_not_for_ever(
    client: Client, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends before it enters its worker: of no fault of the task's."""
    engine.runs.attempts_have_crashed = 2
    leaves = Launcher(recipe(client), [sys.executable, "-c", "raise SystemExit(3)"])
    polled = PolledActivityTask(pb.ActivityTask(token=b"t", activity_type="where_async"))
    try:
        for _ in range(launcher._FAILURES_MAX[launcher.PROGRAM]):
            assert leaves.is_able
            with pytest.raises(ProcessNotStartedError, match="exit code 3"):
                await leaves.start(polled, lambda message: None, None)
        assert not leaves.is_able
    finally:
        await leaves.close()
    assert any("runs in this one from now on" in one for one in caplog.messages)


async def test_a_bad_moment_of_several_is_one(client: Client) -> None:
    leaves = Launcher(recipe(client), [sys.executable, "-c", "raise SystemExit(3)"])
    polled = PolledActivityTask(pb.ActivityTask(token=b"t", activity_type="where_async"))
    try:
        starts = [leaves.start(polled, lambda message: None, None) for _ in range(2)]
        assert len(starts) == launcher._STARTING_MAX
        found = await asyncio.gather(*starts, return_exceptions=True)
        assert all(isinstance(one, ProcessNotStartedError) for one in found)
        assert leaves._failures == 1
    finally:
        await leaves.close()


async def test_programs_are_not_all_started_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or none of a hundred is ready in time, and all run where they do harm from then on."""
    starting, most = 0, 0

    async def slow(*_: object) -> None:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        await asyncio.sleep(0)
        starting -= 1

    monkeypatch.setattr(Launcher, "_start", slow)
    starts = Launcher(recipe(client), [sys.executable])
    polled = PolledActivityTask(pb.ActivityTask(token=b"t", activity_type="where_async"))
    await asyncio.gather(*(starts.start(polled, lambda message: None, None) for _ in range(9)))
    assert most == launcher._STARTING_MAX
    await starts.close()


def test_a_run_of_tests_is_no_program() -> None:
    assert command_of(None) == []
    assert command_of(["python", "-m", "worker"]) == ["python", "-m", "worker"]


@pytest.mark.parametrize(
    ("arguments", "again"),
    [
        (["-m", "shop.worker", "--queue", "orders"], True),
        (["worker.py"], True),
        (["-c", "run()"], True),
        ([], False),
        (["-"], False),
    ],
)
def test_a_program_is_what_this_process_was_started_with(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], again: bool
) -> None:
    monkeypatch.delitem(sys.modules, "pytest")
    monkeypatch.setattr(sys, "orig_argv", ["python", *arguments])
    assert command_of(None) == ([sys.executable, *arguments] if again else [])


@pytest.fixture
def a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pytest")
    monkeypatch.setattr(sys, "orig_argv", ["python", "worker.py"])


@pytest.mark.usefixtures("a_program")
def test_a_program_may_have_mocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries import them. One whose main script names unittest is a run of tests."""
    import unittest.mock

    assert command_of(None)
    monkeypatch.setattr(sys.modules["__main__"], "unittest", unittest, raising=False)
    assert command_of(None) == []


@pytest.mark.usefixtures("a_program")
async def test_a_worker_beside_the_main_thread_is_no_program() -> None:
    """What that thread does would go on beside the task."""
    assert command_of(None)
    assert await asyncio.to_thread(command_of, None) == []


@pytest.mark.usefixtures("a_program")
def test_a_process_that_another_has_made_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.parent_process", object)
    assert command_of(None) == []


def test_an_ordinary_process_is_there_for_no_task() -> None:
    others = {"HOME": "/"}
    assert taken_from(others) is None
    assert others == {"HOME": "/"}


# --- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", WAITS_BEFORE_ITS_WORKER], ids=["running", "starting"])
async def test_nothing_outlives_a_worker_that_is_killed(
    program: Program, client: Client, tmp_path: Path, before: str
) -> None:
    place = tmp_path / "place"
    os.mkfifo(place)
    program.start(before=before, place=str(place))
    assert program.process is not None
    await client.start_workflow(
        code.CallOne.run, args=["stubborn", str(place)], id="stubborn", task_queue=QUEUE
    )
    async with asyncio.timeout(PATIENCE_S):
        pid = int(await asyncio.to_thread(place.read_text))
    descriptor = os.pidfd_open(pid)
    try:
        program.process.send_signal(signal.SIGKILL)
        ready, _, _ = await asyncio.to_thread(select.select, [descriptor], [], [], PATIENCE_S)
    finally:
        os.close(descriptor)
    if not ready:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert ready
